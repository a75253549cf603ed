// Two recordings chosen by their checkboxes, kept in the page's address, and the link that shows them side by side.
import { $ } from "../page.js";
import { chosen, remember } from "./address.js";

export class Pair {
  /** `cards`: those of the recordings, each with its session's id and a checkbox. */
  constructor(cards) {
    this.titles = new Map(cards.map((card) => [card.dataset.id, card.querySelector("h3").textContent]));
    this.boxes = new Map(cards.map((card) => [card.dataset.id, card.querySelector(".pick input")]));
    this.ids = [...new Set([chosen("a"), chosen("b")])].filter((id) => this.titles.has(id));
    for (const [id, input] of this.boxes) input.addEventListener("change", () => this.choose(id, input.checked));
    $("picked-clear").addEventListener("click", () => this.clear());
    this.show();
  }

  choose(id, wanted) {
    this.ids = wanted ? [...this.ids, id].slice(0, 2) : this.ids.filter((other) => other !== id);
    this.show();
  }

  clear() {
    const first = this.boxes.get(this.ids[0]);
    this.ids = [];
    this.show();
    first?.focus();
  }

  /** While two are chosen, the others wait until one is taken back. */
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
