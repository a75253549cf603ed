// "What if": the trials of this session under another stop rule. Two sliders choose eps and the window; the page shows
// where each class would have ended, what that saves, and what it keeps. The rule is that of sol/budget.py (policy.js).
import { h } from "../../page.js";
import { className, duration, percent, time, times } from "../../format.js";
import { around, counted, tr } from "../../texts.js";
import { recorded, spending } from "./recorded.js";
import { replay, together } from "./policy.js";
import { MOST_EPS, STUDY } from "./rule.js";
import { draw as drawStairs } from "./stairs.js";

const MOST_WINDOW = 24;
const STEP = 0.05;
const AMOUNTS = {
  seconds: duration,
  tokens: (n) => tr("{n} tokens", { n: n.toLocaleString("en") }),
  money: (n) => `$${n.toFixed(2)}`,
};
const EMPTY = "Another rule can be tried once a trial has ended in a class with a limit and a baseline.";
const ABOUT = "The rule is applied to the trials of this session, in their order. It can only end the search " +
  "earlier: the outcome of further trials is unknown.";

const trialsIn = (n) => counted(n, "1 trial", "{n} trials");
const words = ({ eps, w }) => `${percent(eps)}, ${w ? trialsIn(w) : tr("no limit")}`;

function savedWords({ trials_run: run, trials_total: all, costs, speedup_kept: share }) {
  if (run === all) return tr("Nothing is saved: this rule runs all {trials}.", { trials: trialsIn(all) });
  const of = (part, whole, ratio) => tr("{part} of {all} ({share})", { part, all: whole, share: percent(ratio) });
  const parts = Object.entries(costs).map(([kind, { total, spent, saved }]) =>
    of(AMOUNTS[kind](total - spent), AMOUNTS[kind](total), saved));
  const saved = [of(all - run, trialsIn(all), (all - run) / all), ...parts].join(", ");
  return tr("Saved: {parts}. {share} of the speedup is kept.", { parts: saved, share: percent(share) });
}

/** Where a class ends under the rule, in a sentence. */
function classWords(one, run, eps, over) {
  const cls = className(one.cls), trials = trialsIn(run.trials_total);
  if (!run.code)
    return over ? tr("{cls}: the rule does not stop it in {trials}.", { cls, trials })
      : tr("{cls}: the rule does not stop it so far, after {trials}.", { cls, trials });
  const best = time(run.best_ms);
  const why = run.code === "near_limit"
    ? tr("within {eps} of the limit, {best} against {limit}", { eps: percent(eps), best, limit: time(run.limit) })
    : tr("{trials} in a row brought nothing better than {best}", { trials: trialsIn(run.since), best });
  const [here, whole] = [times(run.speedup), times(run.speedup / run.speedup_kept)];
  const cost = here === whole ? tr("none of them is faster than {speedup}", { speedup: here })
    : tr("{here} instead of {whole}", { here, whole });
  const rest = run.trials_total - run.trials_run;
  const end = rest ? tr("{rest} of its {trials} would not run; {cost}", { rest, trials, cost })
    : tr("that is its last trial");
  return tr("{cls} stops at trial {n}: {why}; {end}.", { cls, n: one.trials[run.trials_run - 1].number, why, end });
}

export class WhatIf {
  /** `root`: the panel; `place`: {eps, w}; `changed()`: a person moved a slider; `close()`: and closes the panel. */
  constructor(root, place, changed, close) {
    Object.assign(this, { root, place, changed, notRun: new Set(), own: null });
    this.build(close);
    new ResizeObserver(() => this.resize()).observe(root);
  }

  build(onclick) {
    const slider = (id, most, step, set) =>
      h("input", { type: "range", id, min: 0, max: most, step,
        oninput: (e) => this.move(set(Number(e.target.value))) });
    this.eps = slider("what-if-eps", MOST_EPS * 100, STEP * 100, (v) => ({ eps: v / 100 }));
    this.window = slider("what-if-window", MOST_WINDOW, 1, (v) => ({ w: v }));
    this.says = { eps: h("output", { for: "what-if-eps" }), window: h("output", { for: "what-if-window" }) };
    const preset = (id, policy) =>
      h("button", { type: "button", class: "button", id, onclick: () => this.move(policy()) });
    this.presets = [
      [preset("what-if-own", () => this.own), () => this.own, tr("This session’s rule")],
      [preset("what-if-study", () => STUDY), () => STUDY, tr("The study’s best")],
    ];
    this.sum = h("p", { class: "what-if-sum", role: "status" });
    this.classes = h("div", { class: "what-if-classes" });
    const close = h("button", { type: "button", class: "button", id: "what-if-close", onclick }, tr("Close"));
    this.root.replaceChildren(
      h("header", { class: "pane-head" }, h("h2", {}, tr("What if it had stopped earlier?")),
        h("span", { class: "pane-note" }, close)),
      h("div", { class: "what-if-rule" },
        h("label", { for: "what-if-eps" },
          around("Stop within {eps} of the limit", "eps", this.says.eps)), this.eps,
        h("label", { for: "what-if-window" },
          around("Trials in a row without a better one: {n}", "n", this.says.window)), this.window,
        h("div", { class: "acts", role: "group", "aria-label": tr("Known rules") },
          this.presets.map(([node]) => node))),
      this.sum, this.classes, h("p", { class: "caption" }, tr(ABOUT)));
  }

  focus() {
    this.eps.focus();
  }

  move(change) {
    Object.assign(this.place, change);
    this.show();
    this.changed();
  }

  /** Draws the panel for a view and its log, and returns the numbers of the trials that would not run. `own`: the rule
   * of the session, {eps, w}, null if the log has none. */
  draw(log, view, own) {
    const { eps, w } = this.place;
    const key = `${view.seq}|${eps}|${w}`;
    Object.assign(this, { log, view, own });
    if (key !== this.key) this.show();
    this.key = key;
    return this.notRun;
  }

  show() {
    const { eps, w } = this.place;
    this.eps.value = Math.round(eps * 100);
    this.window.max = Math.max(MOST_WINDOW, this.own?.w ?? 0);
    this.window.value = w;
    this.says.eps.textContent = percent(eps);
    this.says.window.textContent = w || tr("no limit");
    this.eps.setAttribute("aria-valuetext", percent(eps));
    this.window.setAttribute("aria-valuetext", w ? trialsIn(w) : tr("no limit"));
    for (const [node, policy, name] of this.presets) {
      const to = policy();
      node.hidden = !to;
      if (!to) continue;
      node.textContent = `${name}: ${words(to)}`;
      node.setAttribute("aria-pressed", String(to.eps === eps && to.w === w));
    }
    this.apply(eps, w);
  }

  apply(eps, w) {
    const { view, log } = this;
    this.notRun = new Set();
    const classes = recorded(view, spending(log, view.seq));
    this.runs = classes.map((one) => ({ one, run: replay(one, eps, w) }));
    for (const { one, run } of this.runs)
      for (const { number } of one.trials.slice(run.trials_run)) this.notRun.add(number);
    this.sum.textContent = this.runs.length ? savedWords(together(this.runs.map(({ run }) => run))) : tr(EMPTY);
    this.sketch();
  }

  /** The classes with their drawings, for the width that there is. */
  sketch() {
    this.width = this.classes.clientWidth;
    const { eps } = this.place, over = Boolean(this.view.end);
    const texts = this.runs.map(({ one, run }) => classWords(one, run, eps, over));
    const sections = texts.map((text) => h("section", {}, h("p", {}, text)));
    this.classes.replaceChildren(...sections);
    const wide = Math.floor(sections[0]?.clientWidth ?? 0); // px of each
    if (wide > 200)
      this.runs.forEach(({ one, run }, i) => sections[i].append(drawStairs(one, run, eps, wide, texts[i])));
  }

  resize() {
    if (this.runs && !this.root.hidden && this.classes.clientWidth !== this.width) this.sketch();
  }
}
