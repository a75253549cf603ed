// One chart: a figure from the server (sol/figures) drawn by Plotly, and the same numbers as a table.
// Plotly loads after the page is usable. A chart is drawn only if its figure, selection or size changed.
import { h } from "./page.js";
import { digits } from "./format.js";
import { themed } from "./chart_theme.js";
import { tr, translated } from "./texts.js";

const PLOTLY = new URL("../vendor/plotly-4.1.1/plotly-basic.min.js", import.meta.url).href;
const CONFIG = { displayModeBar: false, responsive: false, showTips: false, doubleClick: "reset" };

let plotly = null;
function loadPlotly() {
  plotly ??= new Promise((resolve, reject) => {
    const failed = () => {
      plotly = null;
      reject(new Error("the charts did not load"));
    };
    const script = h("script", { src: PLOTLY, onload: () => resolve(window.Plotly), onerror: failed });
    const start = () => document.head.append(script);
    if ("requestIdleCallback" in window) requestIdleCallback(start, { timeout: 1500 });
    else setTimeout(start, 300);
  });
  return plotly;
}

/** A cell of a table: numbers with three digits, an absent value as a dash. */
const cell = (v) =>
  typeof v === "number" && !Number.isInteger(v) ? digits(v) : v === true ? tr("yes") : `${v ?? "–"}`;

/** The places of a trial's marks in a trace: a mark names its trial in `customdata`. */
const marksOf = (trace, trial) => (trace.customdata ?? []).flatMap((n, i) => (n === trial ? [i] : []));

/** The traces with the marks of a trial selected. */
const selected = (data, trial) =>
  data.map((trace) => (trace.selected ? { ...trace, selectedpoints: marksOf(trace, trial) } : trace));

const LOADING = "Loading the chart…";

/** Calls `again` when `root` gets another width or the page another theme: a plot has fixed pixels and colours. */
export function onAnotherLook(root, again) {
  let width = root.clientWidth;
  addEventListener("themechange", again);
  new ResizeObserver(() => {
    if (!root.clientWidth || root.clientWidth === width) return; // not shown, or as before
    width = root.clientWidth;
    again();
  }).observe(root);
}

export class Chart {
  /**
   * `waiting`: what stands there before the first draw; `empty`: where a draw has no figure, which is not the same;
   * `choose(trial)`: a person clicked a trial's mark.
   */
  constructor(root, id, title, waiting, choose, empty = waiting) {
    [title, waiting, empty] = [title, waiting, empty].map((text) => tr(text));
    this.empty = empty;
    this.key = this.text = null; // of the figure that is drawn; `key` is null if it must be drawn again
    const aria = tr("{title}; the numbers are in the table below", { title });
    this.plot = h("div", { class: "plot", id: `${id}-plot`, role: "img", "aria-label": aria, hidden: true });
    this.waiting = h("p", { class: "waiting" }, waiting);
    this.caption = h("p", { class: "caption" });
    this.table = h("div", { class: "table", tabindex: 0, role: "region", "aria-label": `${title}: table` });
    this.details = h("details", { hidden: true, ontoggle: () => this.drawTable() },
      h("summary", {}, tr("As a table")), this.table);
    this.choose = choose;
    const head = h("header", { class: "pane-head" }, h("h2", {}, title));
    const parts = [head, this.waiting, this.plot, this.caption, this.details];
    root.append(h("section", { class: "panel chart", id: `chart-${id}`, "aria-label": title }, ...parts));
  }

  /** `figure`: {figure: {data, layout}, rows, title, caption} or null; `trial`: whose marks are larger. */
  async draw(figure, trial = null) {
    const text = figure === this.figure ? this.text : JSON.stringify(figure);
    const same = text === this.text && this.key !== null;
    if (same && trial === this.trial) return;
    Object.assign(this, { figure, text, trial, key: text });
    if (same && figure && this.listening) {
      this.mark(figure, trial);
      return;
    }
    this.waiting.textContent = figure ? tr(LOADING) : this.empty;
    this.waiting.hidden = Boolean(figure && this.listening);
    this.details.hidden = this.plot.hidden = !figure;
    this.caption.textContent = translated(figure?.caption ?? "");
    this.drawTable();
    if (figure) await this.drawPlot(figure, trial);
  }

  async drawPlot(figure, trial) {
    let Plotly;
    try {
      Plotly = await loadPlotly();
    } catch (e) {
      this.caption.textContent = tr("{error}; the table has the numbers.", { error: tr(e.message) });
      this.plot.hidden = this.waiting.hidden = true;
      this.key = null;
      return;
    }
    if (this.figure !== figure) return;
    if (!this.plot.clientWidth) { this.key = null; return; } // the pane is not shown: drawn when it is
    const { data, layout } = themed(translated(figure.figure));
    const size = { width: this.plot.clientWidth, height: this.plot.clientHeight };
    await Plotly.react(this.plot, selected(data, trial), { ...layout, ...size }, CONFIG);
    this.waiting.hidden = true;
    if (this.listening) return;
    this.listening = true;
    this.plot.on("plotly_click", (e) => {
      const n = e.points[0]?.customdata;
      if (Number.isInteger(n)) this.choose(n);
    });
  }

  /** Draws other marks larger, and nothing else anew. */
  mark({ figure: { data } }, trial) {
    const at = data.flatMap((trace, i) => (trace.selected ? [i] : []));
    if (at.length) window.Plotly.restyle(this.plot, { selectedpoints: at.map((i) => marksOf(data[i], trial)) }, at);
  }

  /** To be drawn again though nothing changed: another width, another theme. */
  forget() { this.key = null; }

  drawTable() {
    if (!this.details.open || !this.figure) return;
    const rows = translated(this.figure.rows);
    const head = Object.keys(rows[0] ?? {}).map((name) => h("th", { scope: "col" }, translated(name)));
    const body = rows.map((row) => h("tr", {}, Object.values(row).map((v) => h("td", {}, cell(v)))));
    this.table.replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)));
  }
}
