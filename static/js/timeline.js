// The trials, in order, each with its number, what changed, how far it got, and its time or its reason.
import { $, h } from "./page.js";
import { DOING, STEPS, timeOf } from "./store.js";
import { mark } from "./shapes.js";
import { baselineName, className, inWords, time, times } from "./format.js";

const VERDICT = { clean: "clean", minor: "minor remark", gaming: "flagged, not counted", "library only": "library calls only" };
const FAILED = { check: "rejected", generate: "not expressible", compile: "did not compile", validate: "wrong result", measure: "not timed" };

// What ended a trial before it was judged says nothing about the program.
const UNJUDGED = /^(reference_|oracle_|oracle$|garbled|worker_lost|gpu_lost|timeout|engine_error|memory_limit|run_failed)/;

/** Why a trial failed, in two words, from the step and the code of its event. */
export function failedWord({ step, code = "" }) {
  if (code === "stopped" || code === "cancelled") return "stopped";
  if (step === "validate" && UNJUDGED.test(code)) return "not verified";
  return FAILED[step] ?? "failed";
}

/** A trial's class, and where a guard lets another one stand in it, which: the limit is that one's. */
export const classWords = ({ cls, roof }) => className(cls) + (roof && roof !== cls ? ` by guarded ${className(roof)}` : "");

/** What a screen reader says of a trial, and the row's title. */
export function describe(one) {
  const at = timeOf(one);
  const head = `Trial ${one.n}, ${classWords(one)}: ${one.change ?? ""}`;
  if (one.failed) return `${head}. ${failedWord(one.failed)}: ${one.failed.reason}`;
  if (!at) return `${head}. ${DOING[one.step] ?? "proposed"}`;
  return `${head}. ${at.kind} ${time(at.ms)}${one.judged ? `, ${times(one.judged.speedup)} over ${baselineName(one.judged.baseline)}` : ""}`;
}

/** The verdict beside the time, its evidence behind it. A clean one without evidence (older recordings) says nothing. */
export function verdict({ verdict: found, evidence = [] }) {
  if (found === "clean" && !evidence.length) return null;
  const title = evidence.map((c) => `${c.name}: ${c.said}`).join("\n");
  return h("span", { class: `verdict ${found === "clean" || found === "minor" ? "" : "bad"}`, title }, VERDICT[found] ?? found);
}

function pips(one) {
  const reached = STEPS.indexOf(one.step);
  return h("span", { class: "pips", "aria-hidden": "true" }, STEPS.map((_, i) => h("i", { class: i <= reached ? "done" : i === reached + 1 ? "now" : "" })));
}

export function content(one, isBest) {
  const at = timeOf(one);
  const kind = one.failed ? "failed" : at ? at.kind : "pending";
  const speedup = one.judged?.speedup ?? one.measured?.ratio;
  const rows = [
    h("span", { class: "n" }, String(one.n), mark(one.cls, kind)),
    h("span", { class: "change" }, one.change || "first program"),
    h("span", { class: `speed ${at?.kind ?? ""}` }, !one.failed && speedup ? times(speedup) : ""),
  ];
  if (one.failed) {
    rows.push(h("span", { class: "line" }, `${classWords(one)} · ${one.backend ?? ""}`, h("b", {}, failedWord(one.failed))));
    rows.push(h("span", { class: "why-failed" }, inWords(one.failed.reason)));
  } else if (at) {
    rows.push(h("span", { class: "line" },
      h("span", {}, `${at.kind === "predicted" ? "predicted" : "measured"} ${time(at.ms)}`),
      one.judged ? h("span", { title: `time ÷ speed-of-light limit of ${one.roof && one.roof !== one.cls ? className(one.roof) : "its precision class"}` }, `· ${one.judged.gap.toFixed(2)}× limit`) : null));
    rows.push(h("span", { class: "line" }, h("span", {}, `${classWords(one)} · ${one.backend ?? ""}`),
      one.by === "owner" ? h("span", {}, "yours") : null,
      isBest ? h("span", { class: "best" }, `★ best ${className(one.cls)}`) : null,
      one.judged ? verdict(one.judged) : null,
      one.judged ? null : pips(one)));
  } else {
    rows.push(h("span", { class: "line" }, `${classWords(one)} · ${one.backend ?? ""}`));
    rows.push(h("span", { class: "line" }, pips(one), DOING[one.step] ?? "proposed"));
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
    if (!inList && (e.target.closest?.("input, textarea, select, button, [contenteditable=true], dialog, [role=tab], .cm-editor, summary"))) return;
    const step = { j: 1, k: -1, ...(inList ? { ArrowDown: 1, ArrowUp: -1 } : {}) }[e.key];
    if (inList && (e.key === "Enter" || e.key === " ")) { e.preventDefault(); this.pick(e.target); return; }
    const nodes = [...this.list.children];
    if (!nodes.length) return;
    if (inList && (e.key === "Home" || e.key === "End")) { e.preventDefault(); this.pick(e.key === "Home" ? nodes[0] : nodes.at(-1), true); return; }
    if (!step) return;
    e.preventDefault();
    const at = nodes.findIndex((node) => node.getAttribute("aria-current") === "true");
    this.pick(nodes[at < 0 ? 0 : Math.min(nodes.length - 1, Math.max(0, at + step))], true);
  }

  /** Only rows that changed are touched, so that a screen reader hears news and nothing else. */
  draw(view, selected) {
    const scroller = $("timeline-scroll");
    const atEnd = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 60;
    let added = false;
    for (const [n, row] of this.rows) if (!view.trials.has(n)) { row.node.remove(); this.rows.delete(n); }
    for (const one of view.trials.values()) {
      const isBest = view.best[one.judged?.cls ?? one.cls] === one.n;
      const key = `${one.step}|${Boolean(one.failed)}|${isBest}`;
      let row = this.rows.get(one.n);
      if (!row) {
        row = { node: h("li", { class: "trial", "data-trial": one.n, tabindex: "-1" }), key: null };
        this.rows.set(one.n, row);
        this.list.append(row.node);
        added = true;
      }
      if (row.key !== key) {
        row.key = key;
        row.node.replaceChildren(...content(one, isBest));
        row.node.dataset.state = one.failed ? "failed" : one.judged ? "judged" : "running";
        row.node.title = one.why ? `${describe(one)}. Why: ${inWords(one.why)}` : describe(one);
      }
      const now = one.n === selected;
      row.node.setAttribute("aria-current", String(now));
      row.node.tabIndex = now ? 0 : -1;
    }
    if (!this.rows.has(selected) && this.list.firstElementChild) this.list.firstElementChild.tabIndex = 0;
    // News is followed while it comes; what is over is shown where its best stands.
    if (view.ended && !this.over && atEnd) this.show(selected, scroller);
    else if (added && atEnd && !view.ended) scroller.scrollTop = scroller.scrollHeight;
    this.over = Boolean(view.ended);
  }

  /** Scrolls the list alone, never the page. */
  show(n, scroller) {
    const node = this.rows.get(n)?.node;
    if (!node) return;
    const row = node.getBoundingClientRect(), box = scroller.getBoundingClientRect();
    if (row.top < box.top || row.bottom > box.bottom) scroller.scrollTop += row.top - box.top - (box.height - row.height) / 2;
  }

  reveal(n) { this.rows.get(n)?.node.scrollIntoView({ block: "nearest" }); }
}
