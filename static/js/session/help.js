// The keys of the session's page: `?` or its button opens a dialog that lists them, and single letters act.
import { $, h } from "../page.js";
import { tr } from "../texts.js";

// Where a letter is typed, or a key has a meaning of its own.
export const TYPED = "input, textarea, select, button, [contenteditable=true], dialog, [role=tab], .cm-editor, summary";
const KEYS = [
  ["Trials", [
    [["j"], "next trial"], [["k"], "previous trial"], [["t"], "the trials as a list or as a tree"],
    [["↑", "↓", "Home", "End"], "within the list or the tree"], [["←", "→"], "in the tree: parent, first child"],
  ]],
  ["Session", [
    [["w"], "what if: other stop rules"], [["Tab"], "to the next control"],
    [["←", "→"], "on the replay and the sliders: one step; between tabs: the next one"],
  ]],
  ["Help", [[["?"], "this list"], [["Esc"], "closes a dialog"]]],
];

/** Whether a key press means a letter of the page: nothing is typed, and no other key is down. */
export const isLetter = (e) =>
  !e.ctrlKey && !e.metaKey && !e.altKey && !e.defaultPrevented && !e.target.closest?.(TYPED);

const row = ([keys, text]) =>
  h("div", {}, h("dt", {}, keys.map((key) => [h("kbd", {}, key), " "])), h("dd", {}, tr(text)));

export class Help {
  /** `button` opens it; `acts`: {letter: action}. */
  constructor(button, acts) {
    this.button = button;
    button.addEventListener("click", () => this.open());
    addEventListener("keydown", (e) => {
      const act = e.key === "?" ? () => this.open() : acts[e.key];
      if (!act || !(isLetter(e) || (e.key === "?" && e.target.closest?.("button, [role=tab], summary")))) return;
      e.preventDefault();
      act();
    });
  }

  /** A modal dialog: the browser keeps the focus within it, and Esc closes it. */
  open() {
    if ($("dialog").open) return;
    const close = h("button", { type: "button", class: "button", autofocus: true, onclick: () => $("dialog").close() },
      tr("Close"));
    const sections = KEYS.map(([title, rows]) => h("section", {}, h("h3", {}, tr(title)), h("dl", {}, rows.map(row))));
    $("dialog").replaceChildren(
      h("div", { class: "keys" }, h("h2", { id: "dialog-title" }, tr("Keys")), ...sections,
        h("div", { class: "ends" }, close)));
    $("dialog").setAttribute("aria-labelledby", "dialog-title");
    $("dialog").showModal();
  }
}
