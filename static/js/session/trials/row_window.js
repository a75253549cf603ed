// A list of which only the rows in sight, and some around them, are in the document. The space of the others is padding
// of the list: by their measured heights, or by the mean of these for a row that was never drawn.

export const WHOLE = 60; // so many rows are all drawn, and of a longer list so many at once
const BEFORE = 20; // of them above the first one in sight
const GUESS = 76; // px of a row before any is measured
const GAP = 2; // px between two rows, as in css/session.css

export class RowWindow {
  /** `list`: the element of the rows; `scroller`: what it scrolls in, where the page itself does not. */
  constructor(list, scroller) {
    Object.assign(this, { list, scroller, order: [], heights: new Map(), sum: 0, stale: true });
  }

  /** Whether `scroller` scrolls, and not the page. */
  get inside() {
    return this.scroller.scrollHeight > this.scroller.clientHeight + 1;
  }

  /** [top, bottom] of what is in sight, in px of the window. */
  get sight() {
    const { top, bottom } = this.scroller.getBoundingClientRect();
    return this.inside ? [top, bottom] : [0, innerHeight];
  }

  scroll(by) {
    if (by) (this.inside ? this.scroller : document.scrollingElement).scrollTop += by;
  }

  height(key) {
    return this.heights.get(key) ?? (this.heights.size ? this.sum / this.heights.size : GUESS);
  }

  /** px from the first row's top to that of row `at`. */
  top(at) {
    let y = 0;
    for (let i = 0; i < at; i += 1) y += this.height(this.order[i]) + GAP;
    return y;
  }

  /** [first, after the last] of the rows to draw. */
  range() {
    const count = this.order.length;
    if (count <= WHOLE) return [0, count];
    const above = this.sight[0] - this.list.getBoundingClientRect().top;
    let first = 0;
    for (let y = 0; first < count && y + this.height(this.order[first]) < above; first += 1)
      y += this.height(this.order[first]) + GAP;
    const from = Math.max(0, Math.min(first - BEFORE, count - WHOLE));
    return [from, from + WHOLE];
  }

  /**
   * Draws the rows of `order` (keys) that are in sight. `node(key)`: the row, the same one each time, up to date;
   * it sets `stale` if the row may be higher or lower now. The layout is read before anything is written.
   */
  draw(order, node) {
    const isLonger = order.length !== this.order.length;
    this.order = order;
    const [from, to] = this.range();
    const tops = this.tops();
    const rows = order.slice(from, to).map(node);
    const { children } = this.list;
    const isSame = rows.length === children.length && rows.every((row, i) => row === children[i]);
    if (isSame && !isLonger && !this.stale) return;
    this.stale = false;
    const wanted = new Set(rows);
    const stays = [...tops.keys()].find((row) => wanted.has(row));
    const before = tops.get(stays);
    for (const old of [...this.list.children]) {
      if (wanted.has(old)) continue;
      if (old.contains(document.activeElement)) this.list.focus({ preventScroll: true });
      old.remove();
    }
    rows.forEach((row, i) => {
      if (this.list.children[i] !== row) this.list.insertBefore(row, this.list.children[i] ?? null);
      row.setAttribute("aria-posinset", from + i + 1);
      row.setAttribute("aria-setsize", order.length);
    });
    if (order.length <= WHOLE) {
      this.pad(0, 0);
      return;
    }
    rows.forEach((row, i) => this.measured(order[from + i], row.offsetHeight));
    this.pad(this.top(from), this.top(order.length) - this.top(to));
    // Rows that were guessed may be higher or lower: what is in sight stays where it is.
    if (stays) this.scroll(stays.getBoundingClientRect().top - before);
  }

  /** The drawn rows that end in sight, and the px of their tops; none above which rows may come in unseen. */
  tops() {
    const [inSight] = this.sight, tops = new Map();
    if (this.list.getBoundingClientRect().top >= inSight) return tops;
    for (const row of this.list.children) {
      const { top, bottom } = row.getBoundingClientRect();
      if (bottom > inSight) tops.set(row, top);
    }
    return tops;
  }

  measured(key, height) {
    if (!height) return; // the pane is not shown
    this.sum += height - (this.heights.get(key) ?? 0);
    this.heights.set(key, height);
  }

  pad(above, below) {
    const space = `${above} ${below}`;
    if (space === this.space) return; // the same value set again costs a layout too
    this.space = space;
    this.list.style.setProperty("--above", `${above}px`);
    this.list.style.setProperty("--below", `${below}px`);
  }

  /** Scrolls to row `key`: to `node`, if it is drawn, or else to where `draw` will draw it. */
  approach(key, node) {
    const at = this.order.indexOf(key);
    if (at < 0) return;
    const [top, bottom] = this.sight;
    const drawn = node?.isConnected ? node.getBoundingClientRect() : null;
    const y = drawn?.top ?? this.top(at) + this.list.getBoundingClientRect().top;
    const height = drawn?.height ?? this.height(key);
    if (y < top || y + height > bottom) this.scroll(y + height / 2 - (top + bottom) / 2);
  }
}
