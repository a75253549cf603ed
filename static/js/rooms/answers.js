// A seat's answers in words: on the projector, and in a dialog for the teacher.
import { h } from "../page.js";
import { html } from "../learn/parts.js";
import { tr } from "../texts.js";

/** An answer in the words of its question: an option's text in place of its name, a number with its unit. `question`:
 * of a lesson's step (playground.learn.lesson_json), or null. */
export function answerWords(question, answer) {
  const node = h("span", { class: "answer-words" });
  [answer].flat().forEach((code, i) => {
    const option = question?.options.find((one) => one.code === code);
    node.append(i ? "; " : "", option ? html(option.html) : String(code));
  });
  if (question?.unit && /\d$/.test(String(answer))) node.append(` ${question.unit}`);
  return node;
}

/** Every answer of a seat, in the order of the room's steps. `lessonOf(slug)`: a promise of a lesson's JSON. `tests`:
 * with the answers to the tests, which the projector does not show. */
export async function answerList(room, seat, { lessonOf, tests = false }) {
  const steps = room.steps.filter((step) => seat.answers[step.key] && (tests || step.part === "lesson"));
  if (!steps.length) return h("p", { class: "empty small" }, tr("This seat has no answer yet."));
  const rows = await Promise.all(steps.map(async (step) => [step, await questionOf(step, lessonOf)]));
  return h("dl", { class: "pad seat-answers" }, rows.map(([step, question]) => {
    const { last, first, right, tries } = seat.answers[step.key];
    const verdict = step.part === "before" ? tr("answered") : right ? tr("right") : tr("wrong");
    const many = tries > 1 ? tr(", {tries} tries", { tries }) : "";
    const other = JSON.stringify(first) === JSON.stringify(last) ? null
      : h("p", { class: "faint" }, tr("First answer:"), " ", answerWords(question, first));
    return [h("dt", {}, step.title),
      h("dd", {}, answerWords(question, last), ` – ${verdict}${many}`, other)];
  }));
}

/** The question of a lesson's step; null for one of a test, whose form a neighbour does not have. */
async function questionOf(step, lessonOf) {
  if (step.part !== "lesson") return null;
  const lesson = await lessonOf(step.lesson);
  return lesson.steps.find((one) => one.id === step.step)?.question ?? null;
}
