// The panel of what a model wrote. Its module is loaded where a model leads the session, or with a model's first event.
import { h } from "../../page.js";
import { tr } from "../../texts.js";

const KINDS = ["turn.asked", "turn.said", "turn.answered", "script.shown"];

export class LateTurns {
  /** `node`: the section; `choose(n)` selects a trial; `changed()` draws the page again. */
  constructor(node, choose, changed) {
    Object.assign(this, { node, choose, changed, panel: null, isLoading: false, read: 0, wanted: !node.hidden });
  }

  draw(log, view, seq) {
    if (this.panel) {
      this.panel.draw(log, view, seq);
      return;
    }
    for (; !this.wanted && this.read < log.length; this.read += 1) this.wanted = KINDS.includes(log[this.read].kind);
    if (this.wanted) this.load();
  }

  async load() {
    if (this.isLoading) return;
    this.isLoading = true;
    try {
      const { Turns } = await import("../turns.js");
      this.panel = new Turns(this.node, this.choose);
      this.changed();
    } catch {
      const failed = tr("This part of the page did not load. Reload the page.");
      this.node.hidden = false;
      this.node.replaceChildren(h("p", { class: "empty small" }, failed));
    }
  }
}
