// The suite's results on the gallery: a summary, how many problems are faster by how much, speedup against distance to
// the limit, and every problem as a row. The data file is generated from committed measurements and fetched unchanged.
import { $, arrived, boot, h, request, throttle } from "../page.js";
import { Chart } from "../chart.js";
import { className } from "../format.js";

const DATA = new URL("../../data/bench.json", import.meta.url).href;
const NOTHING = "Nothing was timed in this class.";
const UNLOADED = "The results did not load. Reload the page to try again.";

class Suite {
  constructor(results) {
    this.results = results;
    this.classes = Object.keys(results.classes);
    const button = (cls) =>
      h("button", { type: "button", class: "button", onclick: () => this.choose(cls) }, className(cls));
    this.buttons = Object.fromEntries(this.classes.map((cls) => [cls, button(cls)]));
    $("suite-classes").append(...Object.values(this.buttons));
    const root = $("suite-charts");
    const chart = (id, title) => new Chart(root, id, title, "Loading the chart…", () => {}, NOTHING);
    this.fastP = chart("fast-p", "Faster by how much");
    this.gap = chart("speedup-gap", "Speedup and gap to the limit");
    const { gpu, driver, torch, date, command } = results;
    const machine = `one ${gpu} (driver ${driver}, PyTorch ${torch})`;
    $("suite-from").textContent = `Measured on ${machine} on ${date} by ${command}`;
    this.soon = throttle(() => this.draw(), 200);
    addEventListener("themechange", () => this.again());
    new ResizeObserver(() => this.resize()).observe(root);
    this.choose(this.classes[0]);
  }

  choose(cls) {
    this.cls = cls;
    const { words, head, rows } = this.results.classes[cls];
    for (const [name, button] of Object.entries(this.buttons))
      button.setAttribute("aria-pressed", String(name === cls));
    $("suite-words").replaceChildren(...words.map((text) => h("li", {}, text)));
    const cell = (x, i) => (i ? h("td", {}, x) : h("th", { scope: "row" }, x));
    $("suite-table").replaceChildren(h("table", {},
      h("thead", {}, h("tr", {}, head.map((x) => h("th", { scope: "col" }, x)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell))))));
    this.soon();
  }

  resize() {
    const width = $("suite-charts").clientWidth;
    if (!width || width === this.width) return;
    this.width = width;
    this.again();
  }

  again() {
    this.fastP.forget();
    this.gap.forget();
    this.soon();
  }

  async draw() {
    const figures = [[this.fastP, this.results.classes[this.cls].fast_p], [this.gap, this.results.speedup_gap]];
    const timed = ({ figure }) => figure.data.some((trace) => trace.x?.length);
    await Promise.all(figures.map(([chart, figure]) => chart.draw(timed(figure) ? figure : null)));
  }
}

if (boot.bench) {
  $("suite-from").textContent = "Loading the results…";
  request(DATA).then((results) => new Suite(results)).catch(() => { $("suite-from").textContent = UNLOADED; })
    .finally(arrived);
} else arrived();
