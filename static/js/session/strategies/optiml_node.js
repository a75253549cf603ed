// One node of OptiML's search tree: the edit that led to it, the judge's diagnosis before it, the figures before and
// after it, the parts of its reward, and the diff.
import { blob, h } from "../../page.js";
import { count, digits, percent, time } from "../../format.js";
import { table } from "./table.js";

const PARTS = {
  time: "Run time", memory: "Memory traffic", compute: "Arithmetic", occupancy: "Occupancy",
};
const FIGURES = { ...PARTS, instructions: "Instructions" };
const MEASURED = "measured by Nsight Compute";
const SOURCES = { // of a figure that no profiler measured
  memory: "predicted by the model of the GPU", compute: "predicted by the model of the GPU",
  occupancy: "predicted from the compiler's resources", instructions: "in the machine code, not those that run",
};
const LIMITS = { compute: "arithmetic", memory: "memory", latency: "latency", occupancy: "occupancy" };
const NONE = "–";
let lastDiff = { key: "", node: null }; // an open diff stays open while the page draws the same node again

/** Decimal steps, as in the judge's evidence and in the rates of the memory (GB/s): 637.5 MB, 8.590 GFLOP. */
function scaled(n, unit) {
  const [size, prefix] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([s]) => n >= s) ?? [1, ""];
  return `${Number((n / size).toPrecision(4))} ${prefix}${unit}`;
}

const SHOWN = {
  time, memory: (n) => scaled(n, "B"), compute: (n) => scaled(n, "FLOP"), occupancy: percent,
  instructions: (n) => n.toLocaleString("en"),
};
const faint = (text) => h("p", { class: "faint" }, text);
const figure = (name, value) => (value === null || value === undefined ? NONE : SHOWN[name](value));

const about = (name, by, kind) => (by === "measured" && name !== "time" ? MEASURED
  : name === "time" ? (by || kind || "") : SOURCES[name]);

/** A figure before and after an edit, both of one source: measured where both are, else without a profiler. */
export function pair(name, n, parent) {
  const measured = (node) => node?.counted?.[name], other = (node) => node?.figures?.[name];
  const both = measured(n) !== undefined && (!parent || measured(parent) !== undefined);
  const of = both ? measured : other;
  return { before: of(parent), after: of(n), by: both ? "measured" : name === "time" ? n.kind : "predicted" };
}

/** The figures of the edited candidate and of the edit. */
function beforeAndAfter(n, parent) {
  const rows = Object.entries(FIGURES).map(([name, title]) => {
    const { before, after, by } = pair(name, n, parent);
    const change = before && after ? `${digits(after / before)} times` : NONE;
    const why = after === undefined ? (n.unknown?.[name] ?? "not right, so nothing is compared")
      : about(name, by, n.kind);
    return h("tr", {}, h("td", {}, title, why ? h("span", { class: "faint" }, ` ${why}`) : ""),
      h("td", { class: "num" }, figure(name, before)), h("td", { class: "num" }, figure(name, after)),
      h("td", { class: "num" }, change));
  });
  const uncounted = n.uncounted ? faint(`Nsight Compute measured none of these: ${n.uncounted}.`) : "";
  return h("div", {}, table([["Figure"], ["before", true], ["after", true], ["change", true]], rows), uncounted);
}

function reward(n) {
  if (!n.parts?.length) return h("p", {}, `Reward ${digits(n.reward)}: ${n.note || "nothing was compared"}.`);
  const rows = n.parts.map((p) => h("tr", {},
    h("td", {}, PARTS[p.name] ?? p.name, h("span", { class: "faint" },
      p.missing ? ` left out: ${p.missing}` : ` ${about(p.name, p.by, n.kind)}`)),
    h("td", { class: "num" }, percent(p.weight ?? 0)), h("td", { class: "num" }, figure(p.name, p.before)),
    h("td", { class: "num" }, figure(p.name, p.after)), h("td", { class: "num" }, p.score?.toFixed(3) ?? NONE)));
  return h("div", {},
    h("p", { class: "faint" },
      "0.5 is as good as the reference. The weights of parts that are left out go to the others."),
    table([["Part"], ["weight", true], ["reference", true], ["here", true], ["score", true]], rows),
    n.note ? h("p", { class: "faint" }, `Note: ${n.note}.`) : "");
}

function diagnosis(n) {
  const d = n.diagnosis ?? {};
  if (!d.limit) return h("p", { class: "faint" }, `No diagnosis: ${d.missing || "none is in the log"}.`);
  return h("div", {},
    h("p", {}, `Limited by ${LIMITS[d.limit] ?? d.limit}. ${d.advice ?? ""}`),
    h("ul", {}, (d.evidence ?? []).map((line) => h("li", {}, line))));
}

/** The change of the text, loaded when it is opened. */
function diff(n, parent) {
  if (!n.before) return h("p", { class: "faint" }, "There is no diff: this is the first candidate.");
  const key = `${n.node} ${n.before} ${n.text}`;
  if (key === lastDiff.key) return lastDiff.node;
  const box = h("div", { class: "node-diff" });
  const lang = n.form === "kernel" ? (n.language || "text") : "ucutlass";
  const node = h("details", { class: "node-changed", ontoggle: async (e) => {
    if (!e.target.open || box.childElementCount) return;
    const loaded = [blob(n.before), blob(n.text), import("../../language/diff.js")];
    const texts = await Promise.all(loaded).catch(() => null);
    if (!texts) box.append("The texts could not be loaded. Open this again.");
    else if (texts[0] === texts[1]) box.append("The two texts are the same.");
    else {
      const [a, b, { makeDiff }] = texts;
      makeDiff(box, { a, b, lang, labelA: `Trial ${parent?.trial ?? n.edits}`, labelB: `Trial ${n.trial}` });
    }
  } }, h("summary", {}, `Diff from trial ${n.edits}`), box);
  lastDiff = { key, node };
  return node;
}

/** The panel of the selected node. */
export function detail(n, nodes, ruling, choose) {
  const parent = nodes.get(n.parent);
  const fact = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
  return h("section", { class: "node-detail", "aria-label": `Node of trial ${n.trial}` },
    h("h3", {}, n.edits ? `Trial ${n.trial}, an edit of trial ${n.edits}` : `Trial ${n.trial}, the root`),
    h("p", {}, n.change, " ",
      h("button", { type: "button", class: "place", onclick: () => choose(n.trial) }, "show the trial")),
    h("dl", { class: "node-facts" },
      fact("Visits", count(n.visits, "evaluation")), fact("Value", digits(n.value)),
      fact("Own reward", digits(n.reward)), fact("Prior", n.edits ? digits(n.prior) : NONE),
      fact("Aimed at", n.targets ? (LIMITS[n.targets] ?? n.targets) : NONE)),
    h("p", {}, `Guardrail: ${ruling}. `, h("span", { class: "faint" }, n.reason)),
    h("h4", {}, "The judge on the candidate before"), diagnosis(n),
    h("h4", {}, "Before and after the edit"), beforeAndAfter(n, parent),
    h("h4", {}, `Parts of the reward ${digits(n.reward)}`), reward(n),
    diff(n, parent));
}
