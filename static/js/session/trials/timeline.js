// The trials in a list: in the order of the log or another one, all or some of them. Only the rows in sight are drawn.
import { $, h, throttle } from "../../page.js";
import { tr } from "../../texts.js";
import { hasEnded } from "../view.js";
import { describe } from "../words.js";
import { arranged } from "./order.js";
import { content, stateOf } from "./row.js";
import { RowWindow, WHOLE } from "./row_window.js";

const TYPED = "input, textarea, select, button, [contenteditable=true], dialog, [role=tab], .cm-editor, summary";

export class Timeline {
  /** `choose(n, byKey)`: a person selects a trial; `place`: {order, show, find}, what the list shows (order.js). */
  constructor(choose, place = {}) {
    Object.assign(this, { choose, place, list: $("timeline"), scroller: $("timeline-scroll"), order: [] });
    this.news = $("timeline-news");
    this.rows = new Map(); // number -> {node, key}, of the rows in the document
    this.window = new RowWindow(this.list, this.scroller);
    this.list.addEventListener("click", (e) => this.pick(e.target.closest(".trial")));
    addEventListener("keydown", (e) => this.key(e));
    const again = throttle(() => this.view && this.redraw(), 30);
    for (const node of [this.scroller, document]) node.addEventListener("scroll", again, { passive: true });
    new ResizeObserver(() => {
      this.window.stale = true; // rows of another width have other heights
      again();
    }).observe(this.scroller);
  }

  pick(node) {
    if (node) this.choose(Number(node.dataset.trial));
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return;
    const inList = this.list.contains(e.target);
    if (!inList && e.target.closest?.(TYPED)) return;
    if (inList && (e.key === "Enter" || e.key === " ")) {
      e.preventDefault();
      this.pick(e.target.closest(".trial"));
      return;
    }
    const step = { j: 1, k: -1, ...(inList ? { ArrowDown: 1, ArrowUp: -1 } : {}) }[e.key];
    const end = inList ? { Home: 0, End: this.order.length - 1 }[e.key] : undefined;
    if (!this.order.length || (!step && end === undefined)) return;
    e.preventDefault();
    const at = this.order.indexOf(this.selected);
    const to = end ?? (at < 0 ? 0 : Math.min(this.order.length - 1, Math.max(0, at + step)));
    this.choose(this.order[to], true);
    this.reveal(this.order[to]);
  }

  /** Only changed rows are updated, so that a screen reader reads only news. */
  draw(view, selected) {
    const { scroller } = this;
    const atEnd = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 60;
    const before = this.order.length;
    Object.assign(this, { view, selected, order: arranged(view, this.place).map((one) => one.number) });
    for (const n of this.rows.keys()) if (!view.trials.has(n)) this.rows.delete(n);
    this.redraw();
    this.say(view);
    // Live, follow the newest trial; after the end, show the best one.
    const added = this.order.length > before && !this.place.order;
    if (view.end && !this.over && this.window.inside) this.show(selected);
    else if (added && atEnd && !view.end) {
      scroller.scrollTop = scroller.scrollHeight;
      if (this.order.length > WHOLE) this.redraw();
    }
    this.over = Boolean(view.end);
  }

  /** Marks trial `n` as the selected one. The rest of the page may follow later. */
  select(n) {
    const before = this.selected;
    this.selected = n;
    for (const one of [before, n]) if (this.rows.has(one) && this.view.trials.has(one)) this.row(one);
  }

  /** Another order or choice of trials: from its first row. */
  rearrange() {
    this.window.stale = true;
    this.list.replaceChildren();
    this.scroller.scrollTop = 0;
  }

  redraw() {
    this.window.draw(this.order, (n) => this.row(n));
    for (const [n, { node }] of this.rows) if (!node.isConnected) this.rows.delete(n);
    if (!this.order.includes(this.selected) && this.list.firstElementChild) this.list.firstElementChild.tabIndex = 0;
  }

  /** The row of trial `n`, up to date. */
  row(n) {
    const one = this.view.trials.get(n);
    const isBest = this.view.best.get(one.judged?.cls ?? one.cls) === n;
    const key = `${one.step}|${Boolean(one.failed)}|${Boolean(one.untimed)}|${isBest}`;
    let row = this.rows.get(n);
    if (!row) {
      row = { node: h("li", { class: "trial", "data-trial": n, tabindex: "-1" }), key: null };
      this.rows.set(n, row);
    }
    if (row.key !== key) {
      row.key = key;
      this.window.stale = true;
      row.node.replaceChildren(...content(one, isBest));
      row.node.dataset.state = stateOf(one);
      row.node.title = one.why ? tr("{trial}. Why: {why}", { trial: describe(one), why: one.why }) : describe(one);
    }
    const now = String(n === this.selected);
    if (row.node.getAttribute("aria-current") !== now) row.node.setAttribute("aria-current", now);
    const tab = n === this.selected ? 0 : -1;
    if (row.node.tabIndex !== tab) row.node.tabIndex = tab;
    return row.node;
  }

  /** Of a long list a screen reader hears the trials that end, not the rows that scroll into sight. */
  say(view) {
    const long = this.order.length > WHOLE;
    this.list.parentElement.setAttribute("aria-live", long ? "off" : "polite");
    if (!long || !this.news) return;
    const last = [...view.trials.values()].findLast(hasEnded);
    if (last && last.number !== this.newest) this.news.textContent = describe(last);
    this.newest = last?.number;
  }

  /** Shows trial `n`, without the focus. */
  show(n) {
    const { node } = this.rows.get(n) ?? {};
    this.window.approach(n, node);
    if (node?.isConnected) return;
    this.redraw();
    this.window.approach(n, this.rows.get(n)?.node); // what was guessed is measured now
  }

  /** Shows trial `n` and gives its row the focus. */
  reveal(n) {
    this.show(n);
    this.rows.get(n)?.node.focus({ preventScroll: true });
  }
}
