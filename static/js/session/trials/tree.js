// A tree as a list of rows, from the roots down, each indented by its level. One row is in the order of Tab; the
// arrows, Home and End move from row to row. Only changed rows are built anew.
import { h } from "../../page.js";

const DEEPEST = 8; // levels that are indented; deeper ones stand below the eighth
const INDENT = 11; // px of a level

/**
 * The rows of a tree in order: [{key, parent, level, at, of, child}], `at` of `of` siblings, `child`: its first one.
 * `nodes`: Map of key -> {parent}; a node whose parent does not come before it is a root.
 */
export function rowsOf(nodes) {
  const children = new Map([[null, []]]);
  for (const [key, { parent }] of nodes) {
    const under = children.has(parent) ? parent : null;
    children.get(under).push(key);
    children.set(key, []);
  }
  const rows = [];
  const waiting = [{ keys: children.get(null), next: 0, parent: null }];
  while (waiting.length) {
    const group = waiting.at(-1);
    if (group.next === group.keys.length) { waiting.pop(); continue; }
    const key = group.keys[group.next], own = children.get(key);
    group.next += 1;
    const { parent, keys } = group;
    rows.push({ key, parent, level: waiting.length, at: group.next, of: keys.length, child: own[0] ?? null });
    waiting.push({ keys: own, next: 0, parent: key });
  }
  return rows;
}

/** The key of the row that a pressed key leads to; null if there is none, undefined for a key without a meaning. */
export function led(rows, key, pressed) {
  const at = rows.findIndex((row) => row.key === key), row = rows[at];
  const to = {
    ArrowDown: () => rows[at + 1]?.key, ArrowUp: () => rows[at - 1]?.key, Home: () => rows[0]?.key,
    End: () => rows.at(-1)?.key, ArrowLeft: () => row?.parent, ArrowRight: () => row?.child,
  }[pressed];
  return to ? (to() ?? null) : undefined;
}

export class Tree {
  /**
   * `list`: an empty <ul>; `label`: of the tree; `of`: what a row shows, {label(key), content(key), version(key)};
   * a row is built anew when its version changes; `pick(key, byKey)`: a person chooses a node.
   */
  constructor(list, label, of, pick) {
    Object.assign(this, { list, of, pick, rows: [], items: new Map() });
    list.setAttribute("role", "tree");
    list.setAttribute("aria-label", label);
    const keyOf = (e) => this.byItem.get(e.target.closest('[role="treeitem"]'));
    this.byItem = new Map();
    list.addEventListener("click", (e) => keyOf(e) !== undefined && pick(keyOf(e)));
    list.addEventListener("keydown", (e) => {
      const key = keyOf(e);
      if (key === undefined || e.ctrlKey || e.metaKey || e.altKey) return;
      const to = e.key === "Enter" || e.key === " " ? key : led(this.rows, key, e.key);
      if (to === undefined) return;
      e.preventDefault();
      e.stopPropagation();
      if (to === null) return;
      pick(to, true);
      this.focus();
    });
  }

  draw(nodes, chosen) {
    this.rows = rowsOf(nodes);
    const wanted = this.rows.map((row) => this.item(row));
    if (wanted.length !== this.list.children.length || wanted.some((item, i) => this.list.children[i] !== item)) {
      const focused = this.list.contains(document.activeElement) ? document.activeElement : null;
      this.list.replaceChildren(...wanted);
      focused?.focus({ preventScroll: true });
    }
    this.choose(chosen);
  }

  item({ key, level, at, of, child }) {
    if (!this.items.has(key)) {
      const item = h("li", { role: "treeitem", "data-node": key, "aria-selected": "false", tabindex: "-1" });
      this.items.set(key, { item, version: null });
      this.byItem.set(item, key);
    }
    const known = this.items.get(key), { item } = known;
    const version = `${level}|${at}|${of}|${child !== null}|${this.of.version(key)}`;
    if (known.version === version) return item;
    known.version = version;
    const about = { "aria-level": level, "aria-posinset": at, "aria-setsize": of, "aria-label": this.of.label(key) };
    for (const [name, value] of Object.entries(about)) item.setAttribute(name, value);
    if (child !== null) item.setAttribute("aria-expanded", "true");
    item.style.setProperty("--indent", `${Math.min(level - 1, DEEPEST) * INDENT}px`);
    item.replaceChildren(this.of.content(key));
    return item;
  }

  choose(chosen) {
    const last = this.items.get(this.chosen)?.item, now = this.items.get(chosen)?.item;
    last?.setAttribute("aria-selected", "false");
    now?.setAttribute("aria-selected", "true");
    if (this.stop) this.stop.tabIndex = -1;
    this.stop = now?.parentNode === this.list ? now : this.list.firstElementChild; // the one in the order of Tab
    if (this.stop) this.stop.tabIndex = 0;
    this.chosen = chosen;
  }

  /** Gives the chosen row the focus. */
  focus(options) {
    this.items.get(this.chosen)?.item.focus(options);
  }

  /** Scrolls `scroller` to the chosen row, and nothing around it. */
  reveal(scroller) {
    const item = this.items.get(this.chosen)?.item;
    if (!item?.isConnected) return;
    const row = item.getBoundingClientRect(), box = scroller.getBoundingClientRect();
    if (row.top < box.top || row.bottom > box.bottom)
      scroller.scrollTop += (row.top + row.bottom - box.top - box.bottom) / 2;
  }
}
