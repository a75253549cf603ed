// The three charts that follow a session live, and what every chart is made of. Plotly comes late, after the page is usable; a chart is drawn at most twice a second, only when
// it changed, and each stands below as a table too.
import { blob, h, throttle } from "./page.js";
import { headline } from "./store.js";
import { breakdown, history, palette, roofline } from "./figures.js";

const PLOTLY = new URL("../vendor/plotly-4.1.1/plotly-basic.min.js", import.meta.url).href;
const REDRAW = 500; // ms
const CONFIG = { displayModeBar: false, responsive: false, showTips: false, doubleClick: "reset" };

let plotly = null;
function loadPlotly() {
  plotly ??= new Promise((resolve, reject) => {
    const script = h("script", { src: PLOTLY, onload: () => resolve(window.Plotly), onerror: () => { plotly = null; reject(new Error("the charts did not load")); } });
    const start = () => document.head.append(script);
    if ("requestIdleCallback" in window) requestIdleCallback(start, { timeout: 1500 }); else setTimeout(start, 300);
  });
  return plotly;
}

const LOADING = "Loading the chart…";

/** `waiting` stands there until the first draw; `empty` where a draw has no figure, which is not the same. */
export class Chart {
  constructor(root, id, title, waiting, choose, empty = waiting) {
    this.empty = empty;
    this.plot = h("div", { class: "plot", id: `${id}-plot`, role: "img", "aria-label": `${title}; the numbers are in the table below` });
    this.waiting = h("p", { class: "waiting" }, waiting);
    this.caption = h("p", { class: "caption" });
    this.table = h("div", { class: "table" });
    this.details = h("details", { hidden: true, ontoggle: () => this.drawTable() }, h("summary", {}, "As a table"), this.table);
    this.choose = choose;
    this.plot.hidden = true;
    root.append(h("section", { class: "panel chart", id: `chart-${id}`, "aria-label": title }, h("header", { class: "pane-head" }, h("h2", {}, title)), this.waiting, this.plot, this.caption, this.details));
  }

  async draw(figure) {
    this.figure = figure;
    const key = JSON.stringify(figure);
    if (key === this.key) return;
    this.key = key;
    this.waiting.textContent = figure ? LOADING : this.empty;
    this.waiting.hidden = Boolean(figure && this.listening);
    this.details.hidden = !figure;
    this.caption.textContent = figure?.caption ?? "";
    this.drawTable();
    this.plot.hidden = !figure;
    if (!figure) return;
    let Plotly;
    try { Plotly = await loadPlotly(); } catch (e) { this.caption.textContent = `${e.message}; the table has the numbers.`; this.plot.hidden = true; this.waiting.hidden = true; this.key = null; return; }
    if (this.figure !== figure || !this.plot.clientWidth) { if (this.figure === figure) this.key = null; return; }
    const { data, layout } = structuredClone({ data: figure.data, layout: figure.layout });
    await Plotly.react(this.plot, data, { ...layout, width: this.plot.clientWidth, height: this.plot.clientHeight }, CONFIG);
    this.waiting.hidden = true;
    if (!this.listening) {
      this.listening = true;
      this.plot.on("plotly_click", (e) => { const n = e.points[0]?.customdata; if (n) this.choose(n); });
    }
  }

  drawTable() {
    if (!this.details.open || !this.figure) return;
    this.table.replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, this.figure.head.map((x) => h("th", { scope: "col" }, x)))), h("tbody", {}, this.figure.rows.map((row) => h("tr", {}, row.map((x) => h("td", {}, x)))))));
  }
}

export class Charts {
  constructor(root, choose) {
    this.roofline = new Chart(root, "roofline", "Roofline", "Drawn when the speed-of-light report is there.", choose);
    this.history = new Chart(root, "history", "Speedup history", "The first judged trial starts it.", choose);
    this.breakdown = new Chart(root, "breakdown", "Where the time goes", "Drawn when the speed-of-light report is there.", choose);
    this.soon = throttle(() => this.now(), REDRAW);
    addEventListener("themechange", () => this.soon());
    new ResizeObserver(() => this.resize()).observe(root);
  }

  resize() {
    const width = this.roofline.plot.clientWidth || this.history.plot.clientWidth;
    if (width === this.width) return;
    this.width = width;
    for (const chart of [this.roofline, this.history, this.breakdown]) chart.key = null;
    this.soon();
  }

  draw(view, selected) { this.args = [view, selected]; this.soon(); }

  async now() {
    if (!this.args) return;
    const [view, selected] = this.args;
    if (view.report && view.report !== this.reportName) {
      try { this.report = JSON.parse(await blob(view.report)); this.reportName = view.report; } catch { this.soon(); return; }
    }
    const report = view.report ? this.report : null;
    const p = palette();
    const figures = [() => this.roofline.draw(roofline(view, report, selected, p)), () => this.history.draw(history(view, selected, p)), () => this.breakdown.draw(breakdown(view, report, headline(view), p))];
    for (const draw of figures) await draw();
  }
}
