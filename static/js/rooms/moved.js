// What moved between the test before the lessons and the one after them: a table of the skills, one of the seats
// (as playground/rooms/exam/moved.py has it).
import { $, boot, h } from "../page.js";
import { drawBlock } from "../learn/blocks.js";
import { html } from "../learn/parts.js";
import { tr } from "../texts.js";
import { nameOf } from "./tiles.js";

/** Whether the answers before and after are right, where both are there. */
function pair(seat, skill) {
  const [before, after] = ["before", "after"].map((part) => seat.answers[`${part}:${skill}`]);
  return before && after ? [before.right, after.right] : null;
}

function counts(pairs) {
  const both = pairs.filter(Boolean);
  const count = (test) => both.filter(([before, after]) => test(before, after)).length;
  return [both.length, count((b) => b), count((b, a) => a), count((b, a) => a && !b), count((b, a) => b && !a)];
}

function table(what, rows) {
  const head = [what, tr("Answered both"), tr("Right before"), tr("Right after"), tr("Gained"), tr("Lost")];
  return h("div", { class: "table" }, h("table", {},
    h("thead", {}, h("tr", {}, head.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, rows.map(([name, ...cells]) =>
      h("tr", {}, h("th", { scope: "row" }, name), cells.map((cell) => h("td", {}, cell)))))));
}

let drawn = "";
/** Draws the report of a room with a test; hidden in one without. */
export function drawMoved(room, { anonymous }) {
  const asked = room.steps.filter((step) => step.part === "before");
  $("moved").hidden = !asked.length;
  if (!asked.length) return;
  const seats = [...room.seats.values()].sort((a, b) => a.number - b.number);
  const skills = asked.map(({ step, title }) => [title, ...counts(seats.map((seat) => pair(seat, step)))]);
  const all = counts(seats.flatMap((seat) => asked.map(({ step }) => pair(seat, step))));
  const each = seats.map((seat) =>
    [nameOf(seat, anonymous), ...counts(asked.map(({ step }) => pair(seat, step)))]);
  const now = JSON.stringify([skills, each]);
  if (now === drawn) return;
  drawn = now;
  const [both, before, after] = all;
  $("moved-all").textContent = both
    ? tr("Of {both} questions that were answered both times, {before} were right before and {after} after.",
      { both, before, after })
    : tr("Nobody has answered a question both times yet.");
  $("moved-table").replaceChildren(table(tr("Skill"), skills), table(tr("Seat"), each));
}

const words = { word: (key) => boot.words[key] ?? key };

/** Both forms of the test, each question with its answer: `forms` as GET /api/rooms/CODE/test has them. */
export function drawForms(forms) {
  $("forms").replaceChildren(...forms[0].map(({ title }, place) => h("section", {}, h("h3", {}, title),
    h("div", { class: "moved-tables" }, forms.map((form) => question(form[place]))))));
}

function question({ html: body, blocks, ask, answer, because }) {
  const text = h("div", { class: "lesson-text" });
  text.append(html(body));
  for (const mark of text.querySelectorAll("[data-block]"))
    mark.replaceWith(drawBlock(blocks[Number(mark.dataset.block)], words));
  const part = (name, content) => {
    const node = h("p", { class: name });
    node.append(html(content));
    return node;
  };
  const right = part("right-answer", `<strong>${answer}</strong>`);
  return h("div", {}, text, part("ask", ask), right, part("faint", because));
}
