// The trials as a tree: each below the one that it was made from, whatever strategy made it.
import { $, h } from "../../page.js";
import { times } from "../../format.js";
import { mark } from "../../marks.js";
import { tr } from "../../texts.js";
import { isLetter } from "../help.js";
import { timeOf } from "../view.js";
import { describe, failedWord, untimedWords } from "../words.js";
import { arranged } from "./order.js";
import { Tree } from "./tree.js";

export class TrialTree {
  /** `choose(n, byKey)`: a person selects a trial; `place`: {as, show, find}, `as`: tree while the tree is shown. */
  constructor(choose, place) {
    Object.assign(this, { choose, place, key: null });
    const of = { label: (n) => this.label(n), content: (n) => this.content(n), version: (n) => this.version(n) };
    this.tree = new Tree($("tree"), tr("Search tree"), of, (n, byKey) => {
      this.tree.choose(n); // the rest of the page may follow later
      choose(n, byKey);
    });
    addEventListener("keydown", (e) => this.press(e));
  }

  /** j and k, as in the list. */
  press(e) {
    const step = { j: 1, k: -1 }[e.key], rows = this.tree.rows;
    if (!step || this.place.as !== "tree" || !rows.length || !isLetter(e)) return;
    e.preventDefault();
    const at = rows.findIndex((row) => row.key === this.selected);
    const to = rows[Math.min(rows.length - 1, Math.max(0, at + step))].key;
    this.tree.choose(to);
    this.selected = to;
    this.tree.reveal($("timeline-scroll"));
    this.choose(to, true);
    const scroller = $("timeline-scroll"); // on a telephone, the page scrolls
    this.tree.focus({ preventScroll: scroller.scrollHeight > scroller.clientHeight + 1 });
  }

  /** `notRun`: the trials that another stop rule would not run. */
  draw(view, selected, notRun) {
    const key = [view.seq, this.place.show, this.place.find, [...notRun].join()].join("|");
    Object.assign(this, { view, notRun });
    if (key === this.key && view === this.drawn) this.tree.choose(selected);
    else {
      this.fits = new Set(arranged(view, this.place).map((one) => one.number));
      this.tree.draw(view.trials, selected);
    }
    if (selected !== this.selected) this.tree.reveal($("timeline-scroll"));
    Object.assign(this, { key, selected, drawn: view });
  }

  isBest(n) {
    const one = this.view.trials.get(n);
    return this.view.best.get(one.judged?.cls ?? one.cls) === n;
  }

  version(n) {
    const one = this.view.trials.get(n);
    const parts = [one.step, Boolean(one.failed), Boolean(one.untimed), this.isBest(n), this.fits.has(n)];
    return [...parts, this.notRun.has(n)].join();
  }

  label(n) {
    const one = this.view.trials.get(n);
    const from = one.parent ? `. ${tr("From trial {n}", { n: one.parent })}` : "";
    return `${describe(one)}${from}${this.isBest(n) ? `. ${tr("The best")}` : ""}`;
  }

  content(n) {
    const one = this.view.trials.get(n), at = timeOf(one);
    const kind = one.failed ? "failed" : one.untimed ? "untimed" : at ? at.kind : "pending";
    const speedup = one.judged?.speedup ?? one.measured?.ratio;
    const end = one.failed ? h("span", { class: "bad" }, failedWord(one.failed))
      : one.untimed ? untimedWords(one.untimed) : speedup ? times(speedup) : "…";
    return h("div", { class: `node-row${this.fits.has(n) ? "" : " faded"}`, title: this.label(n) },
      h("span", { class: "node-sign" }, mark(one.cls, kind)),
      h("span", { class: "node-what" }, h("b", {}, String(n)), this.isBest(n) ? h("b", { class: "best" }, " ★") : "",
        this.notRun.has(n) ? h("b", { class: "not-run" }, " ✂") : "", ` ${one.change || tr("first program")}`),
      h("span", { class: "node-end" }, end));
  }
}
