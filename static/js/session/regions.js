// The coverage of a module: its regions, which become programs, and the operations that stay PyTorch, each with its
// lines and its share of the work. Drawn only for a module that is not one program.
import { h } from "../page.js";
import { className, percent } from "../format.js";
import { logged, tr } from "../texts.js";

const lines = (numbers) => (numbers.length < 2 ? numbers.map((n) => tr("line {n}", { n })).join("")
  : tr("lines {n}", { n: numbers.join(", ") }));
const part = (share) => (share > 0 && share < 0.005 ? tr("under 1%") : percent(share));
// A card is a third of the page wide, so the words of a row share one cell and its shares need no scrolling.
const HEAD = ["", "Operations", "Time", "FLOPs", "Bytes"];

/** Operations of one name and one reason as one row: {op, lines, reason, count}. */
export function grouped(uncovered) {
  const rows = new Map();
  for (const u of uncovered) {
    const reason = u.why || u.reason;
    const key = `${u.op} ${reason}`;
    if (!rows.has(key)) rows.set(key, { op: u.op, lines: [], reason, count: 0 });
    const row = rows.get(key);
    row.count += 1;
    if (u.line && !row.lines.includes(u.line)) row.lines.push(u.line);
  }
  return [...rows.values()];
}

const cells = (share, more = {}) =>
  [share.time, share.flops, share.bytes].map((x) => h("td", { class: "num", ...more }, part(x)));

function region(r) {
  const limits = Object.entries(r.limits).map(([cls, ms]) =>
    h("div", { class: "faint" }, tr("limit {cls} {ms} ms", { cls: className(cls), ms: Number(ms.toPrecision(3)) })));
  return h("tr", {},
    h("th", { scope: "row" }, tr("Region {n}", { n: r.number })),
    h("td", {}, logged(r.words), h("div", { class: "faint" }, lines(r.lines)), limits),
    cells(r.share));
}

function rest(groups, share) {
  return groups.map((u, i) => h("tr", { class: "uncovered" },
    h("th", { scope: "row" }, "PyTorch"),
    h("td", {}, h("b", {}, u.count > 1 ? `${u.op} × ${u.count}` : u.op), " ", logged(u.reason),
      h("div", { class: "faint" }, lines(u.lines))),
    i === 0 ? cells(share, { rowspan: groups.length }) : null));
}

export class Regions {
  constructor(root) {
    const about = { class: "panel regions", id: "regions", hidden: true, "aria-label": tr("What is covered") };
    this.root = h("section", about);
    root.append(this.root);
  }

  draw(view) {
    const covered = view.coverage;
    if (covered === this.covered) return;
    this.covered = covered;
    this.root.hidden = !covered;
    if (!covered) return;
    const head = h("thead", {}, h("tr", {}, HEAD.map((name) => h("th", { scope: "col" }, name && tr(name)))));
    const body = h("tbody", {}, covered.regions.map(region), rest(grouped(covered.uncovered), covered.share));
    this.root.replaceChildren(
      h("h3", {}, tr("What is covered")),
      h("p", { class: "caption" },
        logged(`${covered.text}.`), " ", tr("Shares are of the module; time is each operation's at its limit.")),
      h("div", { class: "wide" }, h("table", {}, head, body)));
  }
}
