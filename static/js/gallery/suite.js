// The suite's results on the gallery: a summary, how many problems are faster by how much, speedup against distance to
// the limit, and every problem as a row. The data file is generated from committed measurements and fetched unchanged.
import { $, boot, h, request, throttle } from "../page.js";
import { Chart, onAnotherLook } from "../chart.js";
import { className } from "../format.js";
import { chosen, remember } from "./address.js";
import { Table } from "./table.js";

const DATA = new URL("../../data/bench.json", import.meta.url).href;
const NOTHING = "Nothing was timed in this class.";
const LOADING = "Loading the results…";

const address = ({ problem }, cls) => `/gallery/suite/${encodeURIComponent(problem)}?class=${encodeURIComponent(cls)}`;

/** A recorded search of the same module, where there is one. */
function replay({ problem }) {
  const session = boot.recordings?.[problem];
  return session ? h("a", { href: `/s/${session}`, "aria-label": `Replay ${problem}` }, "Replay") : "";
}

class Suite {
  constructor(results) {
    this.results = results;
    this.classes = Object.keys(results.classes);
    const button = (cls) =>
      h("button", { type: "button", class: "button", onclick: () => this.choose(cls) }, className(cls));
    this.buttons = Object.fromEntries(this.classes.map((cls) => [cls, button(cls)]));
    $("suite-classes").replaceChildren(...Object.values(this.buttons)); // in the place of equal ones of the server
    const root = $("suite-charts");
    const chart = (id, title) => new Chart(root, id, title, "Loading the chart…", () => {}, NOTHING);
    this.fastP = chart("fast-p", "Faster by how much");
    this.gap = chart("speedup-gap", "Speedup and gap to the limit");
    const { gpu, driver, torch, date, command } = results;
    const machine = `one ${gpu} (driver ${driver}, PyTorch ${torch})`;
    $("suite-from").textContent = `Measured on ${machine} on ${date} by ${command}`;
    this.table = new Table(results.head, { second: "recording", act: replay, address });
    this.soon = throttle(() => this.draw(), 200);
    onAnotherLook(root, () => this.again());
    this.choose(this.classes.includes(chosen("class")) ? chosen("class") : this.classes[0]);
  }

  choose(cls) {
    this.cls = cls;
    const { words, rows } = this.results.classes[cls];
    for (const [name, button] of Object.entries(this.buttons))
      button.setAttribute("aria-pressed", String(name === cls));
    remember({ class: cls === this.classes[0] ? "" : cls });
    $("suite-words").replaceChildren(...words.map((text) => h("li", {}, text)));
    this.table.show(cls, rows);
    this.soon();
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

async function load() {
  $("suite-table").replaceChildren(h("p", { class: "empty small" }, LOADING));
  $("suite-rows").hidden = $("suite-charts").hidden = false;
  let results;
  try {
    results = await request(DATA);
  } catch (e) {
    $("suite-rows").hidden = $("suite-charts").hidden = true;
    const again = h("button", { type: "button", class: "button", onclick: load }, "Try again");
    $("suite-from").replaceChildren(`The results did not load. ${e.message}`, again);
    return;
  }
  new Suite(results);
}

if (!$("suite").hidden) load();
