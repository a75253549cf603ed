// The form of a question: options, a number or several picks; the outcome with its reason.
import { h } from "../page.js";
import { html } from "./parts.js";

const TRIES = 2; // wrong answers after which the right one can be shown

export class Question {
  constructor(step, runner) {
    Object.assign(this, { step, runner, tries: 0 });
    const question = step.question;
    const name = `answer-${step.id}`;
    const ask = question.kind === "number"
      ? h("label", { class: "ask", for: `${name}-0` })
      : h("legend", { class: "ask" });
    ask.append(html(question.html));
    this.inputs = [];
    this.outcome = h("div", { class: "outcome", role: "status", "aria-live": "polite", tabindex: "-1" });
    this.send = h("button", { type: "submit", class: "button primary" }, runner.word("check"));
    this.reveal = h("button", { type: "button", class: "button", hidden: true, onclick: () => this.submit(true) },
      runner.word("show_answer"));
    const fields = question.kind === "number" ? this.numberField(name, ask) : this.optionFields(name, ask, question);
    const buttons = h("div", { class: "question-buttons" }, this.send, this.reveal);
    this.root = h("form", { class: "question", novalidate: true }, fields, buttons, this.outcome);
    this.root.addEventListener("submit", (e) => {
      e.preventDefault();
      this.submit(false);
    });
    this.restore(runner.answers[step.id]);
  }

  numberField(name, ask) {
    const attributes = { id: `${name}-0`, name, inputmode: "decimal", autocomplete: "off", maxlength: 60 };
    const input = h("input", attributes);
    this.inputs.push(input);
    return h("div", { class: "number-field" }, ask,
      h("div", { class: "number-row" }, input, h("span", { class: "unit" }, this.step.question.unit)));
  }

  optionFields(name, ask, question) {
    const type = question.kind === "choice" ? "radio" : "checkbox";
    const rows = question.options.map((option, i) => {
      const input = h("input", { type, name, value: option.code, id: `${name}-${i}` });
      this.inputs.push(input);
      const words = h("span", {});
      words.append(html(option.html));
      return h("label", { class: "option" }, input, words);
    });
    const note = type === "checkbox" ? h("p", { class: "faint" }, this.runner.word("several")) : null;
    return h("fieldset", {}, ask, note, rows);
  }

  get value() {
    const kind = this.step.question.kind;
    if (kind === "number") return this.inputs[0].value.trim();
    const picks = this.inputs.filter((i) => i.checked).map((i) => i.value);
    return kind === "choice" ? (picks[0] ?? "") : picks;
  }

  restore(before) {
    if (!before) return;
    const picks = [before.answer].flat();
    for (const input of this.inputs) {
      if (this.step.question.kind === "number") input.value = String(before.answer);
      else input.checked = picks.includes(input.value);
    }
    if (before.right) this.submit(false);
  }

  async submit(show) {
    if (this.send.disabled) return;
    this.send.disabled = true;
    const word = (key) => this.runner.word(key);
    try {
      const outcome = await this.runner.answer(this.value, show);
      if (outcome.code === "wrong" && !show) this.tries += 1;
      this.reveal.hidden = outcome.right || this.tries < TRIES || show;
      this.draw(outcome, word);
    } catch (e) {
      this.outcome.replaceChildren(h("p", { class: "notice bad" }, [e.message, e.fix].filter(Boolean).join(" ")));
    } finally {
      this.send.disabled = false;
    }
  }

  draw(outcome, word) {
    const unreadable = outcome.code === "unreadable";
    const state = outcome.right ? "good" : unreadable ? "warn" : "bad";
    const verdict = unreadable ? null : h("strong", {}, word(outcome.right ? "right" : "wrong"));
    const reason = h("p", {});
    reason.append(html(outcome.html || (outcome.right ? "" : word("think_again"))));
    const parts = [verdict, reason];
    if (outcome.answer) {
      const answer = h("p", { class: "right-answer" }, `${word("the_answer")}: `);
      answer.append(html(outcome.answer));
      parts.push(answer);
    }
    const box = h("div", { class: `notice ${state}`, "data-code": outcome.code }, parts);
    this.outcome.replaceChildren(box);
    for (const input of this.inputs) input.setAttribute("aria-invalid", String(!outcome.right));
  }
}
