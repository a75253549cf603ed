// How a room answered a question: a bar for each first answer, the right one marked by a shape too.
import { h } from "../page.js";
import { tr } from "../texts.js";
import { answerWords } from "./answers.js";

const MOST = 8; // answers that a number question lists

/** The first answers of seats as rows {answer, seats, right}, the most frequent first. */
export function counted(answers) {
  const rows = new Map();
  for (const { first, first_right: right } of answers) {
    const key = JSON.stringify(first);
    const row = rows.get(key) ?? { answer: first, seats: 0, right };
    rows.set(key, { ...row, seats: row.seats + 1 });
  }
  return [...rows.values()].sort((a, b) => b.seats - a.seats);
}

/** `question`: of a lesson's step (playground.learn.lesson_json); `rows`: [{answer, seats, right}]. */
export function tally(question, rows) {
  const all = rows.reduce((sum, row) => sum + row.seats, 0);
  return h("ol", { class: "tally" }, rows.slice(0, MOST).map(({ answer, seats, right }) => {
    const bar = h("span", { style: { width: `${(100 * seats) / all}%` } });
    return h("li", { class: right ? "right" : "" },
      h("span", { "aria-hidden": "true" }, right ? "✓" : ""), answerWords(question, answer),
      h("span", { class: "tally-bar", "aria-hidden": "true" }, bar),
      h("span", {}, tr("{n} of {all}", { n: seats, all })),
      right ? h("span", { class: "sr" }, tr("right")) : null);
  }));
}
