// The suite's results on the gallery: what it comes to, how many problems are faster by how much, speedup against what is
// left to the limit, and every problem as a row. The data is made from committed measurements and fetched as it is.
import { $, boot, h, request, throttle } from "./page.js";
import { Chart } from "./charts.js";
import { className } from "./format.js";
import { palette, served } from "./figures.js";

const DATA = new URL("../data/bench.json", import.meta.url).href;

class Suite {
  constructor(told) {
    this.told = told;
    this.classes = Object.keys(told.classes);
    this.buttons = Object.fromEntries(this.classes.map((cls) => [cls, h("button", { type: "button", class: "button", onclick: () => this.choose(cls) }, className(cls))]));
    $("suite-classes").append(...Object.values(this.buttons));
    const chart = (id, title) => new Chart(
      $("suite-charts"), id, title, "Loading the chart…", () => {}, "Nothing was timed in this class.",
    );
    this.fastP = chart("fast-p", "Faster by how much");
    this.gap = chart("speedup-gap", "Speedup and gap to the limit");
    $("suite-from").textContent = `Measured on one ${told.gpu} (driver ${told.driver}, PyTorch ${told.torch}) on ${told.date} by ${told.command}`;
    this.soon = throttle(() => this.draw(), 200);
    addEventListener("themechange", () => this.soon());
    new ResizeObserver(() => this.resize()).observe($("suite-charts"));
    this.choose(this.classes[0]);
  }

  choose(cls) {
    this.cls = cls;
    const one = this.told.classes[cls];
    for (const [name, button] of Object.entries(this.buttons)) button.setAttribute("aria-pressed", String(name === cls));
    $("suite-words").replaceChildren(...one.words.map((text) => h("li", {}, text)));
    $("suite-table").replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, one.head.map((x) => h("th", { scope: "col" }, x)))), h("tbody", {}, one.rows.map((row) => h("tr", {}, row.map((x, i) => (i ? h("td", {}, x) : h("th", { scope: "row" }, x))))))));
    this.soon();
  }

  resize() {
    const width = $("suite-charts").clientWidth;
    if (!width || width === this.width) return;
    this.width = width;
    this.fastP.key = this.gap.key = null;
    this.soon();
  }

  async draw() {
    const p = palette();
    const figures = [[this.fastP, this.told.classes[this.cls].fast_p], [this.gap, this.told.speedup_gap]];
    await Promise.all(figures.map(([chart, figure]) => chart.draw(served(figure, p))));
  }
}

if (boot.bench) {
  $("suite-from").textContent = "Loading the results…";
  request(DATA).then(
    (told) => new Suite(told),
    () => { $("suite-from").textContent = "The results did not load. Reload the page to try again."; },
  );
}
