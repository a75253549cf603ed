// The button of "what if". Its panel (what_if.js) is loaded when it is opened for the first time.
import { h } from "../../page.js";
import { tr } from "../../texts.js";
import { STUDY } from "./rule.js";

const NONE = new Set();

export class WhatIfButton {
  /** `root`: the panel's place; `place`: {eps, w}, null while it is closed; `changed()`: draw again. */
  constructor(root, button, place, changed) {
    Object.assign(this, { root, button, place, changed, panel: null, isLoading: false, own: null });
    button.addEventListener("click", () => this.toggle());
  }

  get isOpen() {
    return this.place.eps !== null;
  }

  /** Opens with the session's own rule, or with the study's best where the log has none. */
  toggle() {
    Object.assign(this.place, this.isOpen ? { eps: null, w: null } : (this.own ?? STUDY));
    this.wantsFocus = this.isOpen;
    if (!this.isOpen) this.button.focus();
    this.changed();
  }

  /** Draws the panel for a view and its log, and returns the numbers of the trials that would not run. */
  draw(log, view) {
    const { eps = null, window = null } = view.budget;
    this.own = eps === null ? null : { eps, w: window ?? 0 };
    this.root.hidden = !this.isOpen;
    this.button.setAttribute("aria-expanded", String(this.isOpen));
    if (!this.isOpen) return NONE;
    if (!this.panel) {
      this.load();
      return NONE;
    }
    const notRun = this.panel.draw(log, view, this.own);
    if (this.wantsFocus) this.panel.focus();
    this.wantsFocus = false;
    return notRun;
  }

  async load() {
    if (this.isLoading) return;
    this.isLoading = true;
    try {
      const { WhatIf } = await import("./what_if.js");
      this.panel = new WhatIf(this.root, this.place, this.changed, () => this.toggle());
      this.changed();
    } catch {
      const failed = tr("This part of the page did not load. Press “What if” twice to try again.");
      this.root.replaceChildren(h("p", { class: "empty small" }, failed));
      this.isLoading = false;
    }
  }
}
