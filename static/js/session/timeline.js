// The trials, in order, each with its number, its change, its progress, and its time or its reason.
import { $, boot, h } from "../page.js";
import { className, time, times } from "../format.js";
import { mark } from "../marks.js";
import { counts, STEPS, timeOf } from "./view.js";
import { builtBy, classWords, describe, doing, failedWord, untimedWords, VERDICT } from "./words.js";

/** The verdict beside the time, its evidence behind it. A clean one without evidence (older logs) shows nothing. */
export function verdict(judged, words = VERDICT[judged.verdict] ?? judged.verdict) {
  const { verdict: word, evidence } = judged;
  if (word === "clean" && !evidence.length) return null;
  const title = evidence.map((c) => `${c.name}: ${c.said}`).join("\n");
  const bad = !counts(judged) && word !== "unverified";
  return h("span", { class: `verdict ${bad ? "bad" : ""}`, title }, words);
}

function pips(one) {
  const reached = STEPS.indexOf(one.step);
  const dot = (_, i) => h("i", { class: i <= reached ? "done" : i === reached + 1 ? "now" : "" });
  return h("span", { class: "pips", "aria-hidden": "true" }, STEPS.map(dot));
}

function gapOf(one) {
  if (!one.judged || one.judged.gap === null) return null;
  const whose = one.roof && one.roof !== one.cls ? className(one.roof) : "its precision class";
  return h("span", { title: `time ÷ speed-of-light limit of ${whose}` }, `· ${one.judged.gap.toFixed(2)}× limit`);
}

const line = (...parts) => h("span", { class: "line" }, ...parts);

const stateOf = (one) => (one.failed ? "failed" : one.judged ? "judged" : one.untimed ? "untimed" : "running");

/** The row of a trial. */
export function content(one, isBest) {
  const at = timeOf(one);
  const kind = one.failed ? "failed" : one.untimed ? "untimed" : at ? at.kind : "pending";
  const speedup = one.judged?.speedup ?? one.measured?.ratio;
  const about = `${classWords(one)} · ${builtBy(one)}`;
  const whose = one.by === "owner" ? h("span", {}, boot.control ? "yours" : "the owner’s") : null;
  const rows = [
    h("span", { class: "n" }, String(one.number), mark(one.cls, kind)),
    h("span", { class: "change" }, one.change || "first program"),
    h("span", { class: `speed ${at?.kind ?? ""}` }, !one.failed && speedup ? times(speedup) : ""),
  ];
  if (one.failed) {
    rows.push(line(about, h("b", {}, failedWord(one.failed))));
    rows.push(h("span", { class: "why-failed" }, one.failed.reason));
  } else if (one.untimed) {
    rows.push(line(h("span", {}, about), whose));
    rows.push(line(verdict(one.untimed, untimedWords(one.untimed))));
  } else if (at) {
    const judged = one.judged;
    rows.push(line(h("span", {}, `${at.kind} ${time(at.ms)}`), gapOf(one)));
    rows.push(line(
      h("span", {}, about),
      whose,
      isBest ? h("span", { class: "best" }, `★ best ${className(one.cls)}`) : null,
      judged ? verdict(judged) : pips(one),
    ));
  } else {
    rows.push(line(about));
    rows.push(line(pips(one), doing(one)));
  }
  return rows;
}

export class Timeline {
  /** `choose(n)` is called when a person selects a trial. */
  constructor(choose) {
    this.list = $("timeline");
    this.choose = choose;
    this.rows = new Map(); // n -> {node, key}
    this.list.addEventListener("click", (e) => this.pick(e.target.closest(".trial")));
    addEventListener("keydown", (e) => this.key(e));
  }

  pick(node, focus = false) {
    if (!node) return;
    this.choose(Number(node.dataset.trial));
    if (focus) node.focus();
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return;
    const inList = this.list.contains(e.target);
    if (
      !inList &&
      e.target.closest?.(
        "input, textarea, select, button, [contenteditable=true], dialog, [role=tab], .cm-editor, summary",
      )
    )
      return;
    const step = { j: 1, k: -1, ...(inList ? { ArrowDown: 1, ArrowUp: -1 } : {}) }[e.key];
    if (inList && (e.key === "Enter" || e.key === " ")) {
      e.preventDefault();
      this.pick(e.target);
      return;
    }
    const nodes = [...this.list.children];
    if (!nodes.length) return;
    if (inList && (e.key === "Home" || e.key === "End")) {
      e.preventDefault();
      this.pick(e.key === "Home" ? nodes[0] : nodes.at(-1), true);
      return;
    }
    if (!step) return;
    e.preventDefault();
    const at = nodes.findIndex((node) => node.getAttribute("aria-current") === "true");
    this.pick(nodes[at < 0 ? 0 : Math.min(nodes.length - 1, Math.max(0, at + step))], true);
  }

  /** Only changed rows are updated, so that a screen reader reads only news. */
  draw(view, selected) {
    const scroller = $("timeline-scroll");
    const atEnd = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 60;
    let added = false;
    for (const [n, row] of this.rows)
      if (!view.trials.has(n)) {
        row.node.remove();
        this.rows.delete(n);
      }
    for (const one of view.trials.values()) {
      const isBest = view.best.get(one.judged?.cls ?? one.cls) === one.number;
      const key = `${one.step}|${Boolean(one.failed)}|${Boolean(one.untimed)}|${isBest}`;
      let row = this.rows.get(one.number);
      if (!row) {
        row = { node: h("li", { class: "trial", "data-trial": one.number, tabindex: "-1" }), key: null };
        this.rows.set(one.number, row);
        this.list.append(row.node);
        added = true;
      }
      if (row.key !== key) {
        row.key = key;
        row.node.replaceChildren(...content(one, isBest));
        row.node.dataset.state = stateOf(one);
        row.node.title = one.why ? `${describe(one)}. Why: ${one.why}` : describe(one);
      }
      const now = one.number === selected;
      row.node.setAttribute("aria-current", String(now));
      row.node.tabIndex = now ? 0 : -1;
    }
    if (!this.rows.has(selected) && this.list.firstElementChild) this.list.firstElementChild.tabIndex = 0;
    // Live, follow the newest trial; after the end, show the best one.
    if (view.ended && !this.over && atEnd) this.show(selected, scroller);
    else if (added && atEnd && !view.ended) scroller.scrollTop = scroller.scrollHeight;
    this.over = Boolean(view.ended);
  }

  /** Scrolls only the list, never the page. */
  show(n, scroller) {
    const node = this.rows.get(n)?.node;
    if (!node) return;
    const row = node.getBoundingClientRect(),
      box = scroller.getBoundingClientRect();
    if (row.top < box.top || row.bottom > box.bottom)
      scroller.scrollTop += row.top - box.top - (box.height - row.height) / 2;
  }

  reveal(n) {
    this.rows.get(n)?.node.scrollIntoView({ block: "nearest" });
  }
}
