// A table of what a strategy or its turns say. On a telephone each row is a list, whose cells name their columns.
import { h } from "../../page.js";

/** `heads`: texts or [text, whether its column holds numbers]; `rows`: elements, with a cell for each head. */
export function table(heads, rows) {
  const names = heads.map((head) => [head].flat());
  for (const row of rows) names.forEach(([text], i) => row.children[i]?.setAttribute("data-head", text));
  const head = names.map(([text, number]) => h("th", { scope: "col", class: number ? "num" : null }, text));
  return h("div", { class: "turns-table", tabindex: "0" },
    h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)));
}
