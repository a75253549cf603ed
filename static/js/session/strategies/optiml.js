// OptiML on the session's page: the mixture of strategies, the search tree, the guardrail's rejections and the
// principal path. Every figure is one that the script showed (engine/strategies/optiml/record.py).
import { h } from "../../page.js";
import { count, digits, percent } from "../../format.js";
import { rowsOf, Tree } from "../trials/tree.js";
import { detail } from "./optiml_node.js";
import { table } from "./table.js";

const RULINGS = {
  accepted: ["●", "became the best", "good"],
  within: ["○", "right, not faster", ""],
  untimed: ["◌", "right, without a time", ""],
  slower: ["▽", "rejected: slower", "warn"],
  wrong: ["✕", "rejected: not right", "bad"],
  flagged: ["⚑", "rejected: does not count", "bad"],
};
const EMPTY = {
  mixture: "Nothing is proposed yet. A model proposes strategies first.",
  tree: "There is no tree: no first candidate is right so far.",
  guardrail: "The guardrail rejected nothing so far.",
  path: "There is no path: no first candidate is right so far.",
};
const EMPTY_AT_THE_END = {
  mixture: "Nothing was proposed: the session ended before a model had answered.",
  tree: "There is no tree: no first candidate was right.",
  guardrail: "The guardrail rejected no edit.",
  path: "There is no path: no first candidate was right.",
};
const open = new Map([["Search tree", true], ["Mixture of strategies", true]]); // what a person opened and closed
let scrolled = 0; // of the tree, in px
let selected = null; // the node that a person chose; null: the one of the best candidate

/** {mixture, rules, nodes: Map, rejected, path, incumbent}; visits and values are those of a node's last event. */
export function folded(shown) {
  const nodes = new Map();
  const state = { mixture: null, rules: null, nodes, rejected: [], path: null, incumbent: null };
  for (const { topic, facts } of shown) {
    if (topic === "mixture") state.mixture = facts;
    else if (topic === "rules") state.rules = facts;
    else if (topic === "guardrail") state.rejected.push(facts);
    else if (topic === "path") state.path = facts;
    else if (topic === "node") {
      nodes.set(facts.node, { ...facts });
      state.incumbent = facts.incumbent;
      for (const [number, visits, value] of facts.path ?? []) {
        if (nodes.has(number)) Object.assign(nodes.get(number), { visits, value });
      }
    }
  }
  return state;
}

const faint = (text) => h("p", { class: "faint" }, text);
const trialButton = (n, choose) =>
  h("button", { type: "button", class: "place", onclick: () => choose(n) }, `trial ${n}`);

function part(title, note, content) {
  return h("details", { class: "turns-part", open: open.get(title) ?? false,
    ontoggle: (e) => open.set(title, e.target.open) }, h("summary", {}, `${title}${note}`), content);
}

function mixture(facts, nodes, choose, none) {
  if (!facts) return faint(none);
  if (!facts.rows.length) return faint(facts.why);
  const root = nodes.get(0)?.trial;
  const rows = facts.rows.map((r) => {
    const trials = [...new Set([...(r.trials ?? []), ...(r.chosen && root ? [root] : [])])];
    return h("tr", { class: r.chosen ? "chosen" : "rejected" },
      h("td", {}, r.title, r.why ? h("span", { class: "faint" }, ` ${r.why}`) : ""),
      h("td", { class: "num" }, percent(r.weight)),
      h("td", {}, r.chosen ? "chosen" : "not chosen"),
      h("td", {}, trials.map((n, i) => [i ? ", " : "", trialButton(n, choose)])));
  });
  return h("div", {}, faint(facts.why), table([["Strategy"], ["weight", true], [""], ["Trials"]], rows));
}

const words = (n) => RULINGS[n.ruling] ?? ["○", n.ruling, ""];
const label = (n) => `Trial ${n.trial}: ${n.change}. ${words(n)[1]}. ${count(n.visits, "visit")}, ` +
  `value ${digits(n.value)}, reward ${digits(n.reward)}`;

function row(n, chosen, onPath, best) {
  const [sign, , tone] = words(n);
  const width = `${Math.round(100 * Math.min(1, Math.max(0, n.value)))}%`;
  return h("div", { class: `node-row${onPath ? " principal" : ""}${chosen ? " chosen" : ""}` },
    h("span", { class: `node-sign ${tone}`, "aria-hidden": "true" }, sign),
    h("span", { class: "node-what" }, h("b", {}, `trial ${n.trial}`), best ? h("b", { class: "good" }, " best") : "",
      ` ${n.change}`),
    h("span", { class: "node-value", title: "mean reward here and below" },
      h("i", { style: { width } }), h("span", {}, digits(n.value, 2))),
    h("span", { class: "num", title: "evaluations here and below" }, count(n.visits, "visit")));
}

/** The tree; `pick(n)` selects a node. */
function tree(state, chosen, pick) {
  const { nodes } = state;
  const principal = new Set((state.path?.rows ?? []).map((r) => r.node));
  const list = h("ul", { class: "search-tree", onscroll: (e) => (scrolled = e.target.scrollTop) });
  const of = {
    label: (key) => label(nodes.get(key)),
    content: (key) => {
      const n = nodes.get(key);
      return row(n, key === chosen, principal.has(key), n.trial === state.incumbent);
    },
    version: () => "",
  };
  new Tree(list, "Search tree", of, pick).draw(nodes, chosen);
  return list;
}

function asTable(state, choose) {
  const rows = rowsOf(state.nodes).map(({ key }) => {
    const n = state.nodes.get(key);
    return h("tr", {},
      h("td", {}, trialButton(n.trial, choose), ` ${n.change}`),
      h("td", {}, n.edits ? `trial ${n.edits}` : "–"),
      h("td", { class: "num" }, n.visits), h("td", { class: "num" }, digits(n.value)),
      h("td", { class: "num" }, digits(n.reward)), h("td", {}, words(n)[1]));
  });
  const heads = [["Node"], ["Edit of"], ["visits", true], ["value", true], ["reward", true], ["Guardrail"]];
  return h("details", {}, h("summary", {}, "The tree as a table"), table(heads, rows));
}

const KINDS = { repeated: "repeats a trial", slower: "slower", wrong: "not right", flagged: "does not count" };

function guardrail(rejected, choose, none) {
  if (!rejected.length) return faint(none);
  return table([["Trial"], ["Why"], ["Reason"]], rejected.map((r) => h("tr", {},
    h("td", {}, r.trial ? trialButton(r.trial, choose) : "not tried"), h("td", {}, KINDS[r.kind] ?? r.kind),
    h("td", { class: "wide" }, r.reason))));
}

function path(state, choose, none) {
  const rows = state.path?.rows ?? [];
  if (!rows.length) return faint(none);
  return h("div", {},
    faint("From the first candidate, always the right edit with most visits; of equals, the higher value."),
    h("ol", { class: "principal-path" }, rows.map((r) => {
      const n = state.nodes.get(r.node);
      return h("li", {}, trialButton(r.trial, choose), ` ${n?.change ?? ""} `,
        h("span", { class: "faint" }, `${count(n?.visits ?? r.visits, "visit")}, value ${digits(n?.value ?? r.value)}`),
        r.trial === state.incumbent ? h("b", { class: "good" }, " best") : "");
    })),
    state.incumbent && !rows.some((r) => r.trial === state.incumbent)
      ? h("p", { class: "faint" }, "The best candidate is beside this path: ", trialButton(state.incumbent, choose))
      : "");
}

const CONSTANTS = "PUCT, the reward from run time and bottleneck proxies, and the guardrail are the study's (arXiv " +
  "2602.12305). Its constants and weights are not known to us: those here, and all prompts, are ours.";

/** The rules by which this tree grew, in one line; "" for a log that does not hold them. */
export function rules(facts) {
  if (!facts) return "";
  const width = (growth) => (growth < 0.005 ? String(facts.base) : `${facts.base} + ${digits(growth, 2)} √visits`);
  const children = `A node may have ${width(facts.fitted)} right children`;
  const why = facts.fitted < facts.growth
    ? `, fewer than the ${width(facts.growth)} of the options, so that ${count(facts.evaluations, "evaluation")} ` +
      `lead to ${count(facts.levels, "level")} of edits` : "";
  return `The rules of this tree are ours. ${children}${why}. PUCT's constant is ${digits(facts.c)}. ` +
    `A candidate is at most ${count(facts.depth, "edit")} away from the first one.`;
}

const FORMS = {
  program: "Each candidate is a program of μCUTLASS.", kernel: "Each candidate is a raw kernel (CUDA C++ or Python).",
};
const REHEARSED = "Rules play the model here. They draw each edit from the planner's one pool, as for every " +
  "strategy. So an edit's title names the planner's own step, which can differ from the change to the trial that it " +
  "edits and from the judge's advice: the diff of each edit shows the change.";

/** What the session's script showed, as elements; "" before its first event. `about`: as in index.js. */
export function draw(shown, choose, ended, { rehearsed = false } = {}) {
  const state = folded(shown), none = ended ? EMPTY_AT_THE_END : EMPTY;
  if (!state.mixture && !state.nodes.size) return "";
  const box = h("div", { class: "optiml" });
  const fill = (refocus) => {
    const nodes = state.nodes;
    const best = [...nodes.values()].find((n) => n.trial === state.incumbent)?.node ?? 0;
    const chosen = nodes.has(selected) ? selected : best;
    const pick = (n) => {
      selected = n;
      fill(true);
    };
    box.replaceChildren(
      h("p", { class: "turns-part faint" }, FORMS[nodes.get(0)?.form] ?? "", rehearsed ? ` ${REHEARSED}` : ""),
      part("Mixture of strategies", "", mixture(state.mixture, nodes, choose, none.mixture)),
      part("Search tree", nodes.size ? ` (${count(nodes.size, "node")})` : "", nodes.size
        ? h("div", { class: "tree-panes" }, h("div", { class: "tree-list" }, tree(state, chosen, pick),
          asTable(state, choose), state.rules ? faint(rules(state.rules)) : ""),
          detail(nodes.get(chosen), nodes, words(nodes.get(chosen))[1], choose))
        : faint(none.tree)),
      part("Principal path", "", path(state, choose, none.path)),
      part("Rejected by the guardrail", ` (${state.rejected.length})`,
        guardrail(state.rejected, choose, none.guardrail)),
      h("p", { class: "turns-part faint" }, CONSTANTS),
    );
    const list = box.querySelector(".search-tree");
    if (list) queueMicrotask(() => (list.scrollTop = scrolled)); // once the page holds it
    if (refocus) box.querySelector('[role="treeitem"][tabindex="0"]')?.focus();
  };
  const within = document.activeElement?.closest?.(".search-tree");
  fill(false);
  const current = () => box.querySelector('[role="treeitem"][tabindex="0"]')?.focus({ preventScroll: true });
  if (within) queueMicrotask(current);
  return box;
}
