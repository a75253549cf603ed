// The limit of a module while it is typed: an engine traces the text in its sandbox, a second after the last key.
import { $, coded, debounce, h } from "../page.js";
import { Chart, onAnotherLook } from "../chart.js";
import { BOUND, className, digits, duration, time } from "../format.js";
import { wideTable } from "../sizes.js";
import { read } from "./reading.js";
import { Sizes } from "./sizes.js";

const PAUSE = 900; // ms without a key before the text is sent
const FIRST = "The limit of your module appears here a second or two after you stop typing.";
const LAST = "of the last text that was read";

export class Limit {
  /** `asked()`: {gpu, classes} that the visitor chose; `fault(list)`: shows mistakes of the text in the editor;
      `open(text)`: edits another text. */
  constructor(root, { asked, fault, open }) {
    this.root = root;
    this.asked = asked;
    this.fault = fault;
    this.body = $("limit-body");
    this.note = $("limit-note");
    this.text = "";
    this.send = debounce(() => this.read(this.text), PAUSE);
    this.chart = null;
    this.sizes = new Sizes(asked, open);
    this.wait(FIRST);
    onAnotherLook(root, () => { this.chart?.forget(); this.chart?.draw(this.roofline); });
    addEventListener("pagehide", () => this.stop());
  }

  /** The text was edited. */
  typed(text) {
    this.root.hidden = false;
    if (text === this.text && this.own) return;
    this.stop();
    this.text = text;
    if (!text.trim()) { this.wait(FIRST); return; }
    if (!this.drawn) this.wait(FIRST); // what was wrong with the text before may be mended
    this.note.textContent = this.drawn ? LAST : "";
    this.send();
  }

  /** Another GPU or class was chosen: the same graph, priced again. */
  again() {
    if (!this.root.hidden && this.text.trim()) { this.stop(); this.send(); }
  }

  hide() {
    this.root.hidden = true;
    this.stop();
  }

  stop() {
    this.own?.abort();
    this.own = null;
    this.sizes.stop();
  }

  wait(words) {
    this.body.replaceChildren(h("p", { class: "waiting" }, coded(words)));
    this.drawn = false;
  }

  async read(text) {
    if (text !== this.text || !text.trim() || this.root.hidden) return;
    const own = (this.own = new AbortController());
    try {
      const reading = await read(text, this.asked, own.signal, (state) => {
        this.note.textContent = (state === "tracing" ? "tracing your module …" : "waiting for an engine …") +
          (this.drawn ? ` below: ${LAST}` : "");
      });
      if (reading.state === "done") this.draw(reading, text);
      else this.fail(reading);
    } catch (e) {
      if (e.name !== "AbortError") { this.note.textContent = ""; this.wait(`${e.message} ${e.fix ?? ""}`.trim()); }
    }
  }

  fail({ error, line, code }) {
    this.note.textContent = "";
    const where = line ? `the module has a mistake in line ${line}, which is explained under the editor.` : error;
    this.wait(code === "no_engine" ? error : `No limit yet: ${where}`);
    if (line) this.fault([{ line, column: 1, endLine: line, endColumn: 1000, title: error, more: "", code: "" }]);
  }

  draw(r, text) {
    this.fault([]);
    this.drawn = true;
    const what = `${r.operations} operation${r.operations === 1 ? "" : "s"}`;
    this.note.textContent = `${what}, traced in ${duration(r.seconds)}`;
    const levers = r.levers.map((lever) => h("li", {}, h("b", {}, `${lever.title}:`), ` ${lever.why}`));
    const chart = h("div", { class: "limit-chart" });
    this.body.replaceChildren(
      h("p", { class: "sentence" }, r.sentence),
      h("div", { class: "limit-tables" }, byClass(r), elsewhere(r, this.asked().gpu)),
      this.sizes.draw(text, r),
      levers.length ? h("div", { class: "levers" }, h("h3", {}, "What to try first"), h("ol", {}, levers)) : "",
      chart);
    this.chart = new Chart(chart, "limit", "Roofline", "", () => {}, "A module without arithmetic has no roofline.");
    this.roofline = r.roofline;
    this.chart.draw(r.roofline);
  }
}

const cell = (tag, text, number = false) => h(tag, { class: number ? "num" : null }, text);

const table = (caption, heads, rows) => wideTable(caption, heads, h("tbody", {}, rows), caption);

function byClass(r) {
  const rows = r.limits.map((l) => h("tr", {},
    h("th", { scope: "row" }, className(l.cls)), cell("td", time(l.ms), true),
    cell("td", BOUND[l.bound_by] ?? l.bound_by),
    cell("td", l.pytorch_ms === null ? "–" : time(l.pytorch_ms), true),
    cell("td", l.gap === null ? "–" : `${digits(l.gap)}×`, true)));
  return table(`On ${r.gpu}: the limit, and PyTorch as our model predicts it`,
    ["Class", "Limit", "Set by", "PyTorch", "Gap"], rows);
}

function elsewhere(r, gpu) {
  const classes = r.limits.map((l) => l.cls);
  const rows = r.gpus.map((g) => h("tr", { class: g.name === gpu ? "here" : "" }, h("th", { scope: "row" }, g.title),
    classes.map((cls) => cell("td", g.limits[cls] ? time(g.limits[cls].ms) : "–", true))));
  return table("The same limit on other GPUs", ["GPU", ...classes.map(className)], rows);
}
