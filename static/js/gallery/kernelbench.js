// KernelBench's results: how many problems are faster by how much, and every problem as a row. The benchmark's files
// are not here: a visitor chooses a copy, and a row opens its module from there in the editor.
import { $, h, request, throttle, toast } from "../page.js";
import { Chart, onAnotherLook } from "../chart.js";
import { ask } from "../dialog.js";
import { count } from "../format.js";
import { Table } from "./table.js";

const DATA = new URL("../../data/kernelbench.json", import.meta.url).href;
const PATH = /(level\d+)\/([^/]+)\.py$/;
const files = new Map(); // problem -> its file in the visitor's copy

const address = ({ problem }) => `/gallery/kernelbench/${problem.split("/").map(encodeURIComponent).join("/")}`;

const act = (row) => files.has(row.problem)
  ? h("button", { type: "button", class: "button small", "aria-label": `Open ${row.problem} in the editor`,
    onclick: () => open(row) }, "Open") : "";

/** The SHA-256 of a text, in hexadecimal digits; "" where the browser has none (a page without https). */
async function digest(text) {
  if (!crypto.subtle) return "";
  const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function open({ problem, sha256 }) {
  const text = await files.get(problem).text().catch(() => "");
  if (!text.trim()) return toast(`${problem}.py cannot be read any more. Choose the folder again.`);
  const known = await digest(text);
  const go = async () => location.assign(`/#module=${encodeURIComponent(text)}`);
  if (!known || known === sha256) return go();
  const why = h("p", {}, `Your ${problem}.py is not the one that was measured. A session of it may find other times.`);
  ask("Another version", why, "Open it", go, "Opening…");
}

function choose(rows, chosen, table) {
  files.clear();
  const wanted = new Set(rows.map((row) => row.problem));
  for (const file of chosen) {
    const [, level, name] = PATH.exec(file.webkitRelativePath || file.name) ?? [];
    if (wanted.has(`${level}/${name}`)) files.set(`${level}/${name}`, file);
  }
  $("folder-found").textContent = files.size
    ? `${count(files.size, "problem")} found. Open one in its row.`
    : "No file of a measured problem is in it. Choose the folder that holds level1, level2 and level3.";
  table.draw();
}

class Results {
  constructor(results) {
    const root = $("suite-charts");
    this.chart = new Chart(root, "fast-p", "Faster by how much", "Loading the chart…", () => {}, "Nothing was timed.");
    this.figure = results.fast_p;
    this.table = new Table(results.head, { second: "module", act, address });
    this.table.show(results.cls, results.rows);
    const soon = throttle(() => this.chart.draw(this.figure), 200);
    onAnotherLook(root, () => { this.chart.forget(); soon(); });
    soon();
    $("folder").hidden = false;
    $("folder-files").addEventListener("change", (e) => choose(results.rows, e.target.files, this.table));
  }
}

async function load() {
  $("suite-table").replaceChildren(h("p", { class: "empty small" }, "Loading the results…"));
  try {
    new Results(await request(DATA));
  } catch (e) {
    const again = h("button", { type: "button", class: "button", onclick: load }, "Try again");
    const words = h("p", { class: "empty small" }, `The results did not load. ${e.message} `, again);
    $("suite-table").replaceChildren(words);
  }
}

load();
