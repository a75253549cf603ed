// The panel of what a model wrote. Its module is loaded where a model leads the session, or with a model's first event.
import { h } from "../../page.js";
import { tr } from "../../texts.js";

const KINDS = ["turn.asked", "turn.said", "turn.answered", "script.shown"];

/** What stands below the turns of an ended session is shown once they are drawn, so that it does not move. */
function reveal() {
  for (const node of document.querySelectorAll(".waits")) node.classList.remove("waits");
}

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
    if (this.wanted) this.load(view.strategy);
    else if (view.end) reveal();
  }

  async load(strategy) {
    if (this.isLoading) return;
    this.isLoading = true;
    try {
      const [{ Turns }, { ready }] = await Promise.all([import("../turns.js"), import("./index.js")]);
      await ready(strategy); // all of it is drawn at once, so that nothing moves
      this.panel = new Turns(this.node, this.choose);
      this.changed(); // draws it
    } catch {
      const failed = tr("This part of the page did not load. Reload the page.");
      this.node.hidden = false;
      this.node.replaceChildren(h("p", { class: "empty small" }, failed));
    } finally {
      reveal();
    }
  }
}
