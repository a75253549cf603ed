// The trials as a list or as a tree, which is loaded when it is opened for the first time.
import { $, h, toast } from "../../page.js";
import { tr } from "../../texts.js";

const AS = [["", "List"], ["tree", "Tree"]];

export class TrialsAs {
  /** `choose(n)`: a person selects a trial; `place`: {as, show, find}, `as`: "" | tree; `changed()`: draw again. */
  constructor(choose, place, changed) {
    Object.assign(this, { choose, place, changed, tree: null, isLoading: false });
    this.buttons = AS.map(([as, text]) =>
      h("button", { type: "button", class: "button", id: `as-${as || "list"}`, onclick: () => this.show(as) },
        tr(text)));
    $("trials-as").append(...this.buttons);
  }

  get isTree() {
    return this.place.as === "tree";
  }

  show(as) {
    this.place.as = as;
    this.changed();
  }

  /** Shows the other; the focus goes with it from the one to the other. */
  toggle() {
    const within = $("timeline-scroll").contains(document.activeElement);
    this.show(this.isTree ? "" : "tree");
    if (within) this.focus();
  }

  focus() {
    const row = this.isTree ? "#tree [tabindex='0']" : "#timeline [aria-current='true']";
    if (this.isTree && !this.tree) this.isAwaited = true; // it is being loaded
    else document.querySelector(row)?.focus({ preventScroll: true });
  }

  /** `notRun`: the trials that another stop rule would not run. */
  draw(view, selected, notRun) {
    AS.forEach(([as], i) => this.buttons[i].setAttribute("aria-pressed", String(this.place.as === as)));
    $("tree").hidden = !this.isTree;
    $("timeline").parentElement.hidden = this.isTree;
    if (!this.isTree) return;
    if (this.tree) this.tree.draw(view, selected, notRun);
    else this.load();
  }

  async load() {
    if (this.isLoading) return;
    this.isLoading = true;
    try {
      const { TrialTree } = await import("./trial_tree.js");
      this.tree = new TrialTree(this.choose, this.place);
      this.changed();
      if (this.isAwaited) this.focus();
    } catch {
      this.isLoading = false;
      toast(tr("The tree did not load. Try again in a moment."));
      this.show("");
    }
  }
}
