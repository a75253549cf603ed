// A lesson, step by step: texts, figures, questions, hints. Used by /learn/<slug>, /learn/own and a workshop's room.
import { h } from "../page.js";
import { drawBlock } from "./blocks.js";
import { Question } from "./question.js";
import { startAlone } from "./run.js";
import { html } from "./parts.js";
import { fill } from "../texts.js";

/**
 * Shows `lesson` (playground.learn.lesson_json) in `element`.
 *   check(stepId, answer, show): a promise of {right, code, known, html, answer}
 *   onStep(stepId, index): the student moved to a step
 *   progress: {step, answers: {stepId: {answer, right}}}
 *   locked(stepId): true while a step may not be opened
 *   sessions: those that steps start, {of(stepId): {id, control} | null, start(stepId, request), stop(session)}
 *   words: the page's words by key
 *   next(): what follows the lesson, {title, href} or {title, open: () => ..}; null at the end of all
 * Returns {open(stepId), refresh(), step}.
 */
export function mount(element, lesson, options = {}) {
  return new Runner(element, lesson, options);
}

const TYPED = "textarea, select, input:not([type=radio], [type=checkbox], [type=range])"; // Alt moves words there

/** A link or a button that leads on from the end of a lesson or a test. */
export function leadOn(next, words) {
  if (!next) return null;
  const text = fill(words.go_on ?? "{title}", { title: next.title });
  return next.href
    ? h("a", { class: "button primary next-part", href: next.href }, text)
    : h("button", { type: "button", class: "button primary next-part", onclick: next.open }, text);
}

const NONE = { of: () => null, start: startAlone, stop: () => {} }; // nobody keeps the sessions

class Runner {
  constructor(element, lesson, options) {
    const { check, onStep, progress = {}, locked = () => false, words = {}, sessions = NONE } = options;
    const { next = () => null } = options;
    Object.assign(this, { element, lesson, check, onStep, locked, words, sessions, next });
    this.waits = null; // the step whose session runs
    this.answers = structuredClone(progress.answers ?? {});
    this.visited = new Set();
    this.list = h("ol", { class: "lesson-steps" });
    this.body = h("article", { class: "lesson-step panel pad", tabindex: "-1" });
    const label = this.word("steps");
    element.classList.add("lesson");
    element.replaceChildren(h("nav", { "aria-label": label }, this.list), this.body);
    element.ownerDocument.addEventListener("keydown", (e) => this.key(e));
    const start = this.find(progress.step) ?? lesson.steps[0];
    this.show(this.locked(start.id) ? lesson.steps[0] : start, false);
  }

  word(key) {
    return this.words[key] ?? key;
  }

  find(id) {
    return this.lesson.steps.find((s) => s.id === id);
  }

  get index() {
    return this.lesson.steps.indexOf(this.step);
  }

  /** Opens a step by its id. Returns false if it is locked or does not exist. */
  open(id) {
    const step = this.find(id);
    if (!step || this.locked(id)) return false;
    this.show(step, true);
    return true;
  }

  /** Draws the list and the buttons again, after `locked` changed. */
  refresh() {
    this.drawList();
    this.drawButtons();
  }

  key(e) {
    if (!this.body.isConnected || !e.altKey || e.ctrlKey || e.metaKey || e.target.matches?.(TYPED)) return;
    const by = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    const next = by && this.lesson.steps[this.index + by];
    if (!next) return;
    e.preventDefault();
    if (by > 0 && this.waits) return;
    this.open(next.id);
  }

  /** A session of a step begins to run (`waits`) or has ended: the next step waits for it. */
  hold(id, waits) {
    if (id !== this.step.id) return;
    this.waits = waits ? id : null;
    if (this.buttons) this.drawButtons();
  }

  drawList() {
    const rows = this.lesson.steps.map((step, i) => {
      const answer = this.answers[step.id];
      const state = answer ? (answer.right ? "right" : "wrong") : this.visited.has(step.id) ? "seen" : "";
      const mark = { right: "✓", wrong: "✗" }[state] ?? String(i + 1);
      const name = this.word(state === "right" ? "done" : state === "wrong" ? "not_yet" : "");
      const button = h("button", {
        type: "button", class: `step-link ${state}`, disabled: this.locked(step.id), "data-step": step.id,
        "aria-current": step === this.step ? "step" : null, onclick: () => this.open(step.id),
      }, h("span", { class: "step-mark", "aria-hidden": "true" }, mark),
      h("span", { class: "step-name" }, step.title), state && name ? h("span", { class: "sr" }, ` (${name})`) : null);
      return h("li", {}, button);
    });
    this.list.replaceChildren(...rows);
  }

  show(step, focus) {
    this.step = step;
    this.waits = null;
    this.buttons = null;
    this.visited.add(step.id);
    this.drawList();
    const text = h("div", { class: "lesson-text" });
    text.append(html(step.html));
    for (const place of text.querySelectorAll("[data-block]")) {
      const block = step.blocks[Number(place.dataset.block)];
      if (block) place.replaceWith(drawBlock(block, this));
    }
    const kind = h("p", { class: `step-kind ${step.kind}` }, this.word(step.kind));
    const heading = h("h2", { class: "step-title" }, step.title);
    this.question = step.question ? new Question(step, this) : null;
    this.hints = this.drawHints(step);
    this.buttons = h("div", { class: "lesson-buttons" });
    this.body.lang = step.language;
    this.body.replaceChildren(kind, heading, text, this.question?.root ?? "", this.hints ?? "", this.buttons);
    this.drawButtons();
    if (focus) {
      this.body.focus({ preventScroll: true });
      this.body.scrollIntoView({ block: "start" });
    }
    this.onStep?.(step.id, this.index);
  }

  drawHints(step) {
    if (!step.hints.length) return null;
    const list = h("ul", { "aria-live": "polite" });
    const button = h("button", { type: "button", class: "button hint" }, this.word("hint"));
    button.addEventListener("click", () => {
      const item = h("li", {});
      item.append(html(step.hints[list.children.length]));
      list.append(item);
      button.hidden = list.children.length === step.hints.length;
    });
    return h("div", { class: "lesson-hints" }, list, button);
  }

  drawButtons() {
    const steps = this.lesson.steps;
    const back = steps[this.index - 1];
    const next = steps[this.index + 1];
    const shut = next && (this.locked(next.id) || this.waits !== null);
    const why = this.waits !== null ? "session_wait" : "wait";
    this.buttons.replaceChildren(
      h("button", { type: "button", class: "button back", disabled: !back, onclick: () => this.open(back.id) },
        this.word("back")),
      h("span", { class: "faint" }, `${this.index + 1} / ${steps.length}`),
      next
        ? h("button", { type: "button", class: "button next", disabled: shut, onclick: () => this.open(next.id) },
          this.word(shut ? why : "next"))
        : h("span", { class: "lesson-end" }, this.word("end"), leadOn(this.next(), this.words)),
    );
  }

  /** Sends an answer and keeps it; the question draws the outcome. */
  async answer(answer, show = false) {
    const outcome = await this.check(this.step.id, answer, show);
    if (outcome.code !== "unreadable" && !show) {
      const before = this.answers[this.step.id];
      this.answers[this.step.id] = { answer, right: outcome.right, first: before?.first ?? answer };
      this.drawList();
    }
    return outcome;
  }
}
