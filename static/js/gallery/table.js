// The problems of a benchmark as a table: sorted by any column, filtered by level, result and text. Each row leads to
// its program; what else it leads to is the page's second column.
import { $, h } from "../page.js";
import { count } from "../format.js";
import { bind, chosen, remember } from "./address.js";

const FILTERS = { level: "suite-level", result: "suite-result", problem: "suite-text" };
const UP = "ascending", DOWN = "descending", BY_ORDER = 1;

/** Texts as a person orders them, numbers by value; what was not timed comes last in either direction. */
function compare(a, b, order) {
  if (a === null || b === null) return (a === null) - (b === null);
  const sign = order === DOWN ? -1 : 1;
  return sign * (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
}

/** A name that may break behind each underscore. */
const breakable = (name) => name.split("_").flatMap((part, i) => (i ? ["_", h("wbr"), part] : [part]));

export class Table {
  /** `head`: the names of the columns; the second one is the order in which the results come. `second`: the name of
      one more, and `act(row)` what stands in it; `address(row, class)`: of the row's own page. */
  constructor(head, { second, act, address }) {
    Object.assign(this, { head, act, address });
    const column = head.indexOf(chosen("sort"));
    this.column = column < 0 ? BY_ORDER : column;
    this.order = chosen("order") === DOWN ? DOWN : UP;
    this.heads = head.map((name, i) => h("th", { scope: "col" },
      h("button", { type: "button", onclick: () => this.sort(i) }, name)));
    this.body = h("tbody");
    this.none = h("p", { class: "empty small", hidden: true }, "No problem fits the filter. ",
      h("button", { type: "button", class: "button", onclick: () => this.clear() }, "Clear the filter"));
    $("suite-table").replaceChildren(
      h("table", {}, h("caption", { class: "sr" }, "Problems of the benchmark"),
        h("thead", {}, h("tr", {}, this.heads[0], h("th", { scope: "col", class: "plain" }, second),
          this.heads.slice(1))), this.body), this.none);
    for (const [name, id] of Object.entries(FILTERS)) bind($(id), name, () => this.draw());
    $("suite-filters").hidden = false;
    $("suite-filters").addEventListener("submit", (e) => e.preventDefault());
  }

  show(cls, rows) {
    Object.assign(this, { cls, rows });
    this.draw();
  }

  sort(column) {
    this.order = column === this.column && this.order === UP ? DOWN : UP;
    this.column = column;
    const first = column === BY_ORDER && this.order === UP;
    remember({ sort: first ? "" : this.head[column], order: this.order === DOWN ? DOWN : "" });
    this.draw();
  }

  clear() {
    for (const id of Object.values(FILTERS)) $(id).value = "";
    remember({ level: "", result: "", problem: "" });
    this.draw();
    $("suite-text").focus();
  }

  fits(row) {
    const words = $("suite-text").value.trim().toLowerCase();
    const text = `${row.cells[0]} ${row.cells[1]} ${row.cells.at(-1)}`.toLowerCase();
    const level = $("suite-level").value, result = $("suite-result").value;
    return text.includes(words) && (!level || String(row.level) === level) && (!result || row.result === result);
  }

  draw() {
    const { column, order, rows } = this;
    const shown = rows.filter((row) => this.fits(row));
    shown.sort((a, b) => compare(a.values[column], b.values[column], order));
    this.heads.forEach((head, i) => {
      if (i === column) head.setAttribute("aria-sort", order);
      else head.removeAttribute("aria-sort");
    });
    this.body.replaceChildren(...shown.map((row) => this.row(row)));
    this.none.hidden = shown.length > 0;
    const all = count(rows.length, "problem");
    $("suite-count").textContent = shown.length === rows.length ? all : `${shown.length} of ${all}`;
  }

  row(row) {
    const [name, ...cells] = row.cells;
    const link = h("a", { href: this.address(row, this.cls) }, breakable(name));
    return h("tr", {}, h("th", { scope: "row" }, link), h("td", {}, this.act(row)),
      cells.map((text) => h("td", {}, text || "–")));
  }
}
