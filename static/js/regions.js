// What of a module is covered: its regions, which become programs, and what stays PyTorch, each with its lines and its
// share of the work. Drawn only for a module that is no single program.
import { h } from "./page.js";
import { className, percent } from "./format.js";

const lines = (found) => (found.length ? `line${found.length > 1 ? "s" : ""} ${found.join(", ")}` : "");
const part = (share) => (share > 0 && share < 0.005 ? "under 1%" : percent(share));

/** Operations of one name and one reason as one row: {op, lines, reason, count}. */
export function grouped(uncovered) {
  const rows = new Map();
  for (const u of uncovered) {
    const reason = u.reason.replace(/^`[^`]*`( \([^)]*\))? /, "");
    const key = `${u.op} ${reason}`;
    if (!rows.has(key)) rows.set(key, { op: u.op, lines: [], reason, count: 0 });
    const row = rows.get(key);
    row.count += 1;
    if (u.line && !row.lines.includes(u.line)) row.lines.push(u.line);
  }
  return [...rows.values()];
}

export class Regions {
  constructor(root) {
    this.root = h("section", { class: "panel regions", id: "regions", hidden: true, "aria-label": "What is covered" });
    root.append(this.root);
  }

  draw(view) {
    const told = view.covered;
    if (told === this.told) return;
    this.told = told;
    this.root.hidden = !told;
    if (!told) return;
    // A card is a third of the page: what a row says in words stands in one cell, so that its shares need no scrolling.
    const head = ["", "Operations", "Time", "FLOPs", "Bytes"];
    const limits = (r) => Object.entries(r.limits).map(([cls, ms]) => h("div", { class: "faint" }, `limit ${className(cls)} ${Number(ms.toPrecision(3))} ms`));
    const shares = (s) => [s.time, s.flops, s.bytes].map((x) => h("td", { class: "num" }, part(x)));
    this.root.replaceChildren(
      h("h3", {}, "What is covered"),
      h("p", { class: "caption" }, `${told.text}. Shares are of the module; time is each operation's at its limit.`),
      h("div", { class: "wide" }, h("table", {},
        h("thead", {}, h("tr", {}, head.map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {},
          told.regions.map((r) => h("tr", {}, h("th", { scope: "row" }, `Region ${r.number}`), h("td", {}, r.words, h("div", { class: "faint" }, lines(r.lines)), limits(r)), shares(r.share))),
          grouped(told.uncovered).map((u, i, all) => h("tr", { class: "uncovered" }, h("th", { scope: "row" }, "PyTorch"),
            h("td", {}, h("b", {}, u.count > 1 ? `${u.op} × ${u.count}` : u.op), ` ${u.reason}`, h("div", { class: "faint" }, lines(u.lines))),
            i === 0 ? [told.share.time, told.share.flops, told.share.bytes].map((x) => h("td", { class: "num", rowspan: all.length }, part(x))) : null))))));
  }
}
