// The test before and after the lessons: one question after the other, each with its module and answered once. The test
// before says no verdict, so that nobody learns the answers from it.
import { h } from "../page.js";
import { drawBlock } from "../learn/blocks.js";
import { html } from "../learn/parts.js";
import { Question } from "../learn/question.js";

class TestQuestion extends Question {
  constructor(step, runner) {
    super(step, runner);
    this.send.textContent = runner.word("send"); // it checks nothing that can be tried again
  }

  draw(outcome, word) {
    if (outcome.code === "stored") {
      this.outcome.replaceChildren(h("div", { class: "notice" }, word("stored")));
    } else super.draw(outcome, word);
    this.freeze();
  }

  freeze() {
    for (const input of [...this.inputs, this.send]) input.disabled = true;
    this.reveal.hidden = true;
  }

  async submit(show) {
    await super.submit(show);
    if (this.runner.answers[this.step.id]) this.freeze();
  }

  restore() {} // nothing is sent again
}

/**
 * Shows the questions of a test in `element`.
 *   steps: [{key, step}], step as in a lesson (playground.learn.lesson_json), its blocks a module or a program
 *   answers: {key: {last, right, why}}; check(key, answer): as the runner's; locked(key); word(key);
 *   intro: how the test is taken, before the first question; end(): what stands after the last question, or null
 * Returns {refresh()}, for after `locked` changed: what a student is typing stays.
 */
export function quiz(element, { steps, answers, check, locked, word, intro, end }) {
  const draw = ({ key, step }, place) => {
    const head = h("h3", {}, `${place + 1}. ${step.title}`);
    const shut = locked(key);
    const parts = shut ? [h("p", { class: "faint" }, word("wait"))] : asked(key, step, { answers, check, word });
    return h("li", { class: "quiz-item", "data-step": key, "data-shut": shut }, head, parts);
  };
  const list = h("ol", { class: "quiz" }, steps.map(draw));
  const foot = h("div", { class: "quiz-end" }, end());
  element.replaceChildren(h("p", { class: "quiz-intro" }, intro), list, foot);
  return {
    refresh() {
      for (const [place, item] of [...list.children].entries())
        if ("shut" in item.dataset && !locked(steps[place].key)) item.replaceWith(draw(steps[place], place));
      foot.replaceChildren(...[end()].filter(Boolean));
    },
  };
}

/** The module of a question and its form. */
function asked(key, step, { answers, check, word }) {
  const runner = {
    answers: {},
    word,
    answer: async (answer) => {
      const outcome = await check(key, answer);
      if (outcome.code !== "unreadable") runner.answers[step.id] = { answer, right: outcome.right };
      return outcome;
    },
  };
  const text = h("div", { class: "lesson-text" });
  text.append(html(step.html));
  for (const mark of text.querySelectorAll("[data-block]"))
    mark.replaceWith(drawBlock(step.blocks[Number(mark.dataset.block)], runner));
  const question = new TestQuestion({ ...step, id: key.replace(/\W/g, "-") }, runner);
  const before = answers[key];
  if (before) {
    question.fill(before.last);
    const outcome = "right" in before && before.right !== undefined
      ? { right: before.right, code: before.right ? "right" : "wrong", html: before.why ?? "" }
      : { right: null, code: "stored" };
    question.draw(outcome, word);
  }
  return [text, question.root];
}

TestQuestion.prototype.fill = function fill(answer) {
  const picks = [answer].flat();
  for (const input of this.inputs) {
    if (this.step.question.kind === "number") input.value = String(answer);
    else input.checked = picks.includes(input.value);
  }
};
