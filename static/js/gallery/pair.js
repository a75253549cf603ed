// Two recordings chosen by their checkboxes, kept in the page's address, and the link that shows them side by side.
import { $, h } from "../page.js";
import { chosen, remember } from "./address.js";

export class Pair {
  /** `rows`: the recordings, {id, title}. */
  constructor(rows) {
    this.titles = new Map(rows.map((row) => [row.id, row.title]));
    this.ids = [...new Set([chosen("a"), chosen("b")])].filter((id) => this.titles.has(id));
    this.boxes = new Map();
    $("picked-clear").addEventListener("click", () => this.clear());
    this.show();
  }

  /** The checkbox of a card. While two are chosen, the others wait until one is taken back. */
  box({ id, title }) {
    const input = h("input", { type: "checkbox", "aria-label": `Compare ${title}`,
      onchange: () => this.choose(id, input.checked) });
    this.boxes.set(id, input);
    this.set(id, input);
    return h("label", { class: "pick" }, input, "Compare");
  }

  choose(id, wanted) {
    this.ids = wanted ? [...this.ids, id].slice(0, 2) : this.ids.filter((other) => other !== id);
    this.show();
  }

  clear() {
    const first = this.boxes.get(this.ids[0]);
    this.ids = [];
    this.show();
    if (first?.isConnected) first.focus();
  }

  set(id, input) {
    input.checked = this.ids.includes(id);
    input.disabled = this.ids.length === 2 && !input.checked;
  }

  show() {
    const [a = "", b = ""] = this.ids;
    remember({ a, b });
    for (const [id, input] of this.boxes) this.set(id, input);
    const names = this.ids.map((id) => this.titles.get(id));
    $("picked").hidden = !a;
    $("picked-text").textContent = b ? names.join(" and ") : a ? `${names[0]}. Tick one more to compare.` : "";
    $("picked-compare").hidden = !b;
    $("picked-compare").href = `/gallery/compare?${new URLSearchParams({ a, b })}`;
  }
}
