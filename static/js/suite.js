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
    const nothing = () => {};
    this.fastP = new Chart($("suite-charts"), "fast-p", "Faster by how much", "Nothing was timed.", nothing);
    this.gap = new Chart($("suite-charts"), "speedup-gap", "Speedup and gap to the limit", "Nothing was timed.", nothing);
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
    await this.fastP.draw(served(this.told.classes[this.cls].fast_p, p));
    await this.gap.draw(served(this.told.speedup_gap, p));
  }
}

if (boot.bench) request(DATA).then((told) => new Suite(told)).catch(() => { $("suite").hidden = true; });
