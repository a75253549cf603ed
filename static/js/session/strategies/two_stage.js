// Two stages on the session's page: the template with its parameters, the limits and what each removed, the search as
// it runs, effects, spread, and what went back to the plan. Every figure is one that the script showed
// (engine/strategies/two_stage/stages.py).
import { copyButton, h } from "../../page.js";
import { count, time, times } from "../../format.js";
import { table } from "./table.js";

const STUDY = "https://arxiv.org/abs/2601.12698";
const MOST_ROWS = 80;
const MOST_TEXT = 20_000; // characters of a template in the log (stages.py): a longer one is cut
const MOST_CONFIGURATIONS = 64; // configurations of a preset (options.py)
const ABOUT = { shared_memory: "shared memory" };
const EMPTY = {
  template: "No template yet: the plan comes first, then a model writes one, and it is shown once it was tried.",
  space: "No limits yet: they are counted once a template is right.",
  search: "No configuration was evaluated so far: the search begins once a template is right.",
  effects: "No effects yet: they are computed when the search of the round ends.",
  spread: "No repeats yet: the best configuration is measured again when the search ends.",
  feedback: "Nothing went back to the plan so far: the search of the round has not ended.",
};
const SHAPES = new URL("../../../data/shape_groups.json", import.meta.url).href;
const open = new Map([["Template", true], ["Search", true]]); // what a person opened and closed
let chosen = null; // the round that a person chose; null: the last one

/** {rounds: Map of round -> {templates, space, rows, effects, feedback}}, in order. */
export function folded(shown) {
  const rounds = new Map();
  for (const { topic, facts } of shown) {
    if (!["template", "space", "search", "effects", "feedback"].includes(topic)) continue;
    const number = facts.round ?? 1;
    if (!rounds.has(number))
      rounds.set(number, { templates: [], space: null, rows: [], effects: null, feedback: null });
    const round = rounds.get(number);
    if (topic === "template") round.templates.push(facts);
    else if (topic === "search") round.rows.push(facts);
    else round[topic] = facts;
  }
  return rounds;
}

/** Why a part has nothing to show; `ended`: nothing follows any more. */
function empty(name, { templates, rows }, ended) {
  if (!ended) return note(EMPTY[name]);
  if (name === "template") return note("There is no template: the session ended before one was tried.");
  const repeated = templates.find((t) => t.repeated);
  if (repeated) return note(`Empty: ${repeated.repeated}`);
  const why = templates.some((t) => t.right) ? `the session ended ${rows.length ? "during" : "before"} the search.`
    : templates.some((t) => t.undecided) ? "the template could not be verified here, so nothing was tuned."
      : "no template was right, so nothing was tuned.";
  return note(`Empty: ${why}`);
}

const cell = (text, number = false) => h("td", { class: number ? "num" : null }, text);
const note = (text) => h("p", { class: "faint" }, text);
const settings = (values) => Object.entries(values ?? {}).map(([name, value]) => `${name} ${value}`).join(", ");

function part(title, content) {
  return h("details", { class: "turns-part", open: open.get(title) ?? false,
    ontoggle: (e) => open.set(title, e.target.open) }, h("summary", {}, title), content);
}

/** A share of the widest, as a bar behind a number; the number is text. */
function bar(share, text) {
  const width = `${Math.round(100 * Math.min(1, Math.max(0, share)))}%`;
  return h("span", { class: "two-bar" }, h("i", { style: { width } }), h("span", {}, text));
}

/** The text with each parameter marked. */
function marked(template) {
  const names = new Map(template.parameters.map((p) => [p.name, p]));
  const pieces = template.text.split(/\{([A-Za-z_]\w*)\}/);
  return pieces.map((piece, i) => {
    if (i % 2 === 0) return piece;
    const p = names.get(piece);
    return p ? h("mark", { title: `${p.name}: ${p.values.join(", ")}` }, `{${piece}}`) : `{${piece}}`;
  });
}

/** The round's right template and its configurations, the fastest first, as the option `preset` takes them; null if it
 * has none. */
export function presetOf({ templates, space, rows }) {
  const right = templates.findLast((t) => t.right);
  if (!right?.text || right.text.length >= MOST_TEXT || !space) return null;
  const { text, language, cls, change, parameters } = right;
  const inequalities = space.limits.filter((l) => l.source === "template")
    .map(({ expression, resource, why }) => ({ expression, resource, why }));
  const timed = rows.filter((r) => r.ms !== null).sort((a, b) => a.ms - b.ms).slice(0, MOST_CONFIGURATIONS);
  return {
    template: { text, language, cls, change, parameters, inequalities, ...space.needs },
    configurations: timed.map((r) => r.settings),
  };
}

function presetPart(round) {
  const preset = presetOf(round);
  if (!preset) return "";
  const words = { shown: "Copy as a preset", label: "Copy the template and its configurations as a preset",
    done: "Copied. Paste it into the option Preset of another session." };
  return h("p", {}, copyButton("copy-preset", words, () => JSON.stringify(preset)));
}

const MARKS = {
  right: ["two-good", "● right: "], wrong: ["two-bad", "✕ not right: "], undecided: ["faint", "◌ not verified: "],
};

function templatePart(round, choose, ended) {
  const { templates } = round;
  if (!templates.length) return empty("template", round, ended);
  const last = templates.findLast((t) => t.right) ?? templates.findLast((t) => t.text) ?? templates.at(-1);
  const attempts = templates.map((t) => {
    const [tone, words] = MARKS[t.right ? "right" : t.undecided ? "undecided" : "wrong"];
    return h("li", {}, h("span", { class: tone }, words), t.trial ? trial(t.trial, choose) : "not tried", ` ${t.words}`,
      t.mistake ? ` Named by the role test: ${t.mistake}` : "");
  });
  const meant = last.parameters.some((p) => p.meaning);
  const rows = last.parameters.map((p) => h("tr", {}, h("td", {}, h("code", {}, p.name)),
    h("td", {}, p.values.map((v, i) => [i ? ", " : "", v === p.default ? h("b", {}, String(v)) : String(v)])),
    ...(meant ? [cell(p.meaning)] : [])));
  return h("div", {},
    h("p", {}, `It must mean the same as ${last.original.what}. `,
      "Its default instance is verified before anything is tuned."),
    h("ul", { class: "two-attempts" }, attempts),
    last.text ? h("pre", { class: "two-text", tabindex: "0" }, marked(last)) : note("No reply held a template."),
    rows.length ? table([["Parameter"], ["Values, default in bold"], ...(meant ? [["Meaning"]] : [])], rows) : "",
    presetPart(round));
}

function spacePart(round, ended) {
  const { space } = round;
  if (!space) return empty("space", round, ended);
  const rows = space.limits.map((l) => h("tr", { class: l.alone ? "" : "rejected" },
    h("td", { class: "wide" }, h("code", {}, l.expression), l.why ? h("span", { class: "faint" }, ` ${l.why}`) : ""),
    cell(ABOUT[l.resource] ?? l.resource), cell(l.source), cell(l.alone.toLocaleString("en"), true),
    cell(l.removed.toLocaleString("en"), true)));
  const needs = Object.entries(space.needs ?? {}).map(([name, text]) => `${name} = ${text}`);
  const limits = Object.entries(space.hardware ?? {}).map(([name, n]) => `${name} ${n.toLocaleString("en")}`);
  return h("div", {},
    h("p", {}, `${count(space.total, "combination")}; ${space.allowed.toLocaleString("en")} keep every limit.`),
    rows.length
      ? table([["Inequality"], ["About"], ["Stated by"], ["breaks it", true], ["removed here", true]], rows)
      : note("The template states no inequality and no need of a block, so nothing was removed."),
    needs.length ? note(`A block needs: ${needs.join("; ")}.`) : "",
    limits.length ? note(`Limits of the hardware: ${limits.join(", ")}.`) : "");
}

const trial = (n, choose) => h("button", { type: "button", class: "place", onclick: () => choose(n) }, `trial ${n}`);

function searchPart(round, choose, ended) {
  const { rows, effects } = round;
  if (!rows.length) return effects?.why ? note(effects.why) : empty("search", round, ended);
  const slowest = Math.max(...rows.map((r) => r.ms ?? 0));
  const compiled = rows.some((r) => r.registers !== undefined);
  const spilled = (r) => (r.spills ? `, ${r.spills} B spilled` : "");
  const registers = (r) => (r.registers === undefined ? "–" : `${r.registers}${spilled(r)}`);
  const lines = rows.slice(-MOST_ROWS).map((r) => h("tr", { class: r.best ? "two-best" : "" },
    h("td", {}, trial(r.trial, choose), r.best ? " best so far" : ""), cell(`${r.phase}: ${r.why}`),
    h("td", {}, r.ms === null ? r.outcome : bar(r.ms / slowest, time(r.ms))),
    compiled ? cell(registers(r), true) : "", h("td", { class: "wide faint" }, settings(r.settings))));
  const cut = rows.length > MOST_ROWS ? `The last ${MOST_ROWS} of ${rows.length}. ` : "";
  const known = effects?.known
    ? `Not evaluated again: ${count(effects.known, "configuration")} of earlier rounds. ` : "";
  const first = effects ? `${known}The default instance takes ${time(effects.default_ms)}. ${effects.why}`
    : ended ? "The session ended during the search." : "The search runs.";
  const heads = [["Trial"], ["Why"], ["Time"], ...(compiled ? [["Registers", true]] : []), ["Configuration"]];
  const unknown = compiled && rows.some((r) => r.registers === undefined);
  return h("div", {}, note(cut + first), table(heads, lines),
    unknown ? note("–: no compiler named the registers of this trial.") : "");
}

/** The values of a parameter without a time: [{value, failed}]. An old log says nothing of them; its template does. */
function untimed(effect, { templates, rows }) {
  if (effect.untimed) return effect.untimed;
  const parameter = templates.findLast((t) => t.right)?.parameters.find((p) => p.name === effect.name);
  const rest = (parameter?.values ?? []).filter((value) => !effect.values.some((v) => v.value === value));
  return rest.map((value) => ({ value, failed: rows.filter((r) => r.settings[effect.name] === value).length }));
}

function effectsPart(round, ended) {
  const { effects } = round;
  if (!effects) return empty("effects", round, ended);
  const timed = effects.effects.filter((e) => e.values.length);
  if (!timed.length) return note(effects.why);
  const rows = timed.flatMap((e) => {
    const least = Math.min(...e.values.map((v) => v.ms)), most = Math.max(...e.values.map((v) => v.ms));
    const timedRows = e.values.map((v, i) => h("tr", {}, h("td", {}, i ? "" : h("code", {}, e.name)),
      cell(String(v.value), true), h("td", {}, bar(v.ms / most, time(v.ms))), cell(times(v.ms / least), true),
      cell(v.many, true)));
    return [...timedRows, ...untimed(e, round).map(({ value, failed }) => h("tr", { class: "rejected" }, cell(""),
      cell(String(value), true), cell(failed ? "failed" : "not evaluated"), cell("–", true), cell(failed, true)))];
  });
  const gain = times(effects.default_ms / effects.best_ms);
  const isDefault = JSON.stringify(effects.best) === JSON.stringify(effects.default);
  const best = effects.best && isDefault
    ? `Best: the default instance (${settings(effects.best)}), ${time(effects.best_ms)}.`
    : effects.best ? `Best: ${settings(effects.best)}: ${time(effects.best_ms)}, ${gain} the default's speed.`
    : "No configuration has a time.";
  return h("div", {}, h("p", {}, best),
    note("Geometric mean of the times of the configurations with this value; × over the parameter's fastest value."),
    table([["Parameter"], ["value", true], ["Mean"], ["×", true], ["evaluated", true]], rows),
    effects.rejected ? note(`${count(effects.rejected, "further configuration")} broke a rule of the language.`) : "");
}

function spreadPart(round, ended) {
  const { effects } = round;
  if (!effects) return empty("spread", round, ended);
  if (!effects.spread) return note(`No spread: ${effects.no_spread}`);
  const s = effects.spread;
  return h("p", {}, `${effects.repeats.length} measurements of the best: ${time(s.least)} to ${time(s.most)}, `,
    `median ${time(s.median)}, slowest over fastest ${s.ratio.toFixed(3)}.`);
}

function feedbackPart(round, ended) {
  const { feedback } = round;
  if (!feedback) return empty("feedback", round, ended);
  const answer = feedback.decision
    ? `The plan answers: ${feedback.decision}. ${feedback.structure} ${feedback.reason ?? ""}`
    : feedback.why;
  return h("div", {}, h("ul", {}, feedback.lines.map((line) => h("li", {}, line))), h("p", {}, answer));
}

const gallery = () => h("a", { href: "/gallery#shapes" }, "the gallery");

/** Why there is no general configuration, and for a problem with a group what the study measured of it. `facts`: what
 * the script showed; null in an old log. */
function shapesPart(facts) {
  if (!facts?.group)
    return h("p", {}, `Empty here. ${facts?.why ?? "A session tunes for the one shape of its module."} One `,
      "configuration that is tuned over a group of shapes, with its times at each of them and at shapes that it has ",
      "not seen, beside one per shape, stands in ", gallery(), ".");
  const measured = h("div", {}, note("Loading what the study measured…"));
  studied(facts.group).then((lines) => measured.replaceChildren(...lines));
  return h("div", {}, h("p", {}, `Empty here. ${facts.why}`),
    note(`Shapes of the group: tuned at ${facts.tuned.join(", ")}; not seen: ${facts.unseen.join(", ")}.`),
    h("p", {}, "The study runs with ", h("code", {}, facts.command), "."), measured);
}

/** The committed results of a problem: the means of the general configuration beside one per shape. */
async function studied(name) {
  const nothing = [h("p", {}, "No measured figures of this group are committed.")];
  const data = await fetch(SHAPES).then((reply) => (reply.ok ? reply.json() : null), () => null);
  if (!data) return [h("p", {}, "The measured figures did not load. They stand in ", gallery(), ".")];
  const problem = data.problems.find((p) => p.name === name);
  if (!problem?.tables.length)
    return problem?.why ? [h("p", {}, `No figures on a GPU: ${problem.why}.`)] : nothing;
  return [
    h("p", {}, `${data.kind === "measured" ? "Measured" : "Predicted"} by the study on ${data.gpu}, ${data.date}; `,
      `model: ${data.model}. The general configuration: ${problem.general}. Each shape stands in `, gallery(), "."),
    ...problem.tables.map(({ cls, rows }) => table(
      data.head.map((name_, i) => [i ? name_ : `shape, ${cls}`, i > 1]),
      rows.filter((row) => row[0].includes(", mean"))
        .map((row) => h("tr", {}, row.map((text, i) => cell(text, i > 1)))),
    )),
  ];
}

/** The part of the page; see index.js. */
export function draw(shown, choose, ended) {
  const rounds = folded(shown);
  const last = Math.max(1, ...rounds.keys());
  const number = rounds.has(chosen) ? chosen : last;
  const round = rounds.get(number) ?? { templates: [], space: null, rows: [], effects: null, feedback: null };
  const pick = (n) => {
    chosen = n === last ? null : n;
    root.replaceWith(draw(shown, choose, ended));
  };
  const tabs = [...rounds.keys()].map((n) => h("button", { type: "button", class: "place",
    "aria-pressed": String(n === number), onclick: () => pick(n) }, `Round ${n}`));
  const root = h("div", { class: "two-stage" },
    h("p", { class: "turns-sum" }, "Stage one turns the kernel into a template that means the same; ",
      "stage two searches its parameters. The roles are those of ",
      h("a", { href: STUDY, rel: "noreferrer" }, "arXiv 2601.12698"),
      ", which reports 3.55, 1.09 and 2.03 times SGLang's own kernels: its figures, on other hardware and against ",
      "other baselines. Prompts, inequalities and the search (coordinate descent with random restarts) are ours."),
    tabs.length > 1 ? h("div", { class: "two-rounds" }, tabs) : "",
    part("Template", templatePart(round, choose, ended)), part("Limits", spacePart(round, ended)),
    part("Search", searchPart(round, choose, ended)), part("Effects", effectsPart(round, ended)),
    part("Spread", spreadPart(round, ended)), part("Back to the plan", feedbackPart(round, ended)),
    part("Group of shapes", shapesPart(shown.find(({ topic }) => topic === "shapes")?.facts ?? null)));
  return root;
}
