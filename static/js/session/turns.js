// What a model wrote in this session: the turn as it is written, the tokens and seconds, triage, hypotheses, and the
// transcript. It is drawn from the log alone, so a finished session shows the same without a network.
import { blob, coded, h, throttle } from "../page.js";
import { count, digits, duration, percent, time, times } from "../format.js";
import { counts, timeOf } from "./view.js";
import { draw as drawStrategy } from "./strategies/index.js";
import { table } from "./strategies/table.js";

const KINDS = ["turn.asked", "turn.said", "turn.answered", "script.shown"];
const LIVE = 4000; // characters of a running turn that are shown: its end
const WRITES = 250; // ms between two drawings of them: each lays out all of them

/** What the events of a log say of the turns, added as they come. */
class Fold {
  constructor() {
    this.turns = new Map(); // path -> turn
    this.shown = []; // what the script showed
    this.read = 0; // events of the log
    this.seq = 0; // of the last event that changed more than the text of a running turn
  }

  /** Adds the events of `log` that came since, up to event `upTo`. */
  take(log, upTo = Infinity) {
    for (; this.read < log.length && log[this.read].seq <= upTo; this.read += 1)
      if (KINDS.includes(log[this.read].kind)) this.add(log[this.read]);
    return this;
  }

  add({ seq, kind, t, data: d }) {
    const { turns } = this;
    if (kind !== "turn.said") this.seq = seq;
    if (kind === "script.shown") this.shown.push(d);
    else if (kind === "turn.asked" && d.verb === "ask")
      turns.set(d.path, { ...d, t, attempt: d.attempt ?? 1, text: "", answer: null, lost: (d.attempt ?? 1) - 1 });
    else if (kind === "turn.said") {
      const turn = turns.get(d.path);
      if (!turn || turn.attempt !== (d.attempt ?? 1)) return;
      turn.text += d.text;
      if (turn.text.length > 2 * LIVE) turn.text = turn.text.slice(-LIVE);
    } else if (kind === "turn.answered" && d.verb === "ask") {
      const turn = turns.get(d.path) ?? { path: d.path, role: "", t, lost: 0 };
      turns.set(d.path, Object.assign(turn, { answer: d, text: "" }));
    }
  }
}

/** Sums over the answered turns, in all and by role. `costs`: whether every answered turn has a price. */
export function ledger(turns) {
  const none = () => ({ turns: 0, in: 0, out: 0, seconds: 0, cost: 0, bad: 0, lost: 0 });
  const all = none();
  const roles = new Map();
  let costs = turns.some((t) => t.answer);
  for (const turn of turns) {
    const role = roles.get(turn.role) ?? none();
    roles.set(turn.role, role);
    const a = turn.answer;
    for (const sum of [all, role]) {
      sum.turns += 1;
      sum.lost += turn.lost ?? 0;
      if (!a) continue;
      sum.in += a.tokens?.in ?? 0;
      sum.out += a.tokens?.out ?? 0;
      sum.seconds += a.seconds ?? 0;
      sum.cost += a.cost ?? 0;
      sum.bad += a.refusal ? 1 : 0;
    }
    if (a && (a.cost === null || a.cost === undefined)) costs = false;
  }
  return { all, roles, costs };
}

const cell = (text, number = false) => h("td", { class: number ? "num" : null }, text);

function byRole({ all, roles, costs }) {
  const money = (sum) => (costs ? `$${sum.cost.toFixed(4)}` : "–");
  const row = (name, s) => h("tr", {}, cell(name), cell(s.turns, true),
    cell(s.in.toLocaleString("en"), true), cell(s.out.toLocaleString("en"), true),
    cell(duration(s.seconds), true), cell(money(s), true), cell(s.bad || "", true));
  const heads = ["turns", "tokens in", "out", "time", "cost", "bad replies"].map((text) => [text, true]);
  return table([["Role"], ...heads], [...[...roles].map(([name, s]) => row(name || "model", s)), row("all", all)]);
}

/** S, both risks, who estimated them, ROI, and what was rejected. */
function triage(facts) {
  const rows = (facts.rows ?? []).map((r) => h("tr", { class: r.chosen ? "" : "rejected" },
    h("td", {}, r.title, r.why ? h("span", { class: "faint" }, ` ${r.why}`) : ""), cell(times(r.speedup), true),
    cell(digits(r.implementation), true), cell(digits(r.performance), true), cell(r.estimated_by),
    cell(digits(r.roi), true), cell(r.chosen ? "chosen" : "rejected")));
  return h("div", {}, h("p", { class: "faint" },
    `Iteration ${facts.iteration}: gap g = ${digits(facts.gap)}, exponent ${digits(facts.exponent)}. `,
    "ROI = S^exponent ÷ (risk to build × risk to gain).",
    facts.by_roi === false ? " The phase Triage is switched off: the nominated order decides." : ""),
  table([
    ["Hypothesis"], ["S", true], ["risk to build", true], ["risk to gain", true], ["estimated by"], ["ROI", true], [""],
  ], rows));
}

const WORK = { turn: "model", build: "building", trial: "verifying and timing", profile: "profiling" };

/** Shares of the seconds that an ended session spent on its trials, the μCUTLASS study's beside them; "" before. */
function shares(spent = {}) {
  const parts = Object.entries(WORK).map(([key, name]) => [name, spent[key] ?? 0]);
  const all = parts.reduce((sum, [, seconds]) => sum + seconds, 0);
  if (!all) return "";
  const words = parts.map(([name, seconds]) => `${name} ${percent(seconds / all)} (${duration(seconds)})`).join(", ");
  const study = "In the μCUTLASS study the model takes 21% and all else 79%.";
  return h("p", { class: "turns-time faint" }, `Time by work: ${words}. ${study}`);
}

function hypotheses(list, choose) {
  const trial = (n) => h("button", { type: "button", class: "place", onclick: () => choose(n) }, `trial ${n}`);
  return table([["Hypothesis"], ["predicted", true], ["observed", true], ["Trials"], ["Outcome"]],
    list.map((f) => h("tr", {}, cell(f.title), cell(times(f.expected), true),
      cell(f.observed === null || f.observed === undefined ? "–" : times(f.observed), true),
      h("td", {}, (f.trials ?? []).map((n, i) => [i ? ", " : "", trial(n)])), h("td", { class: "wide" }, f.outcome))));
}

/** Failed trials by step, and the raw best beside the one that counts. */
function outcomes(view) {
  const steps = new Map();
  let raw = null, counted = null;
  for (const one of view.trials.values()) {
    if (one.failed) steps.set(one.failed.step, (steps.get(one.failed.step) ?? 0) + 1);
    const speedup = one.judged?.speedup ?? one.measured?.ratio;
    if (!speedup || !timeOf(one)) continue;
    raw = Math.max(raw ?? 0, speedup);
    if (counts(one.judged ?? {})) counted = Math.max(counted ?? 0, speedup);
  }
  const failed = [...steps].map(([step, n]) => `${n} at ${step}`).join(", ");
  return [
    failed ? `Failed trials: ${failed}. ` : "",
    raw ? `Best speedup raw ${times(raw)}, after integrity checks ${counted ? times(counted) : "none"}.` : "",
  ].join("");
}

function transcript(turn) {
  const a = turn.answer;
  const tokens = (a?.tokens?.out ?? 0).toLocaleString("en");
  const wrong = a?.refusal ? `no usable reply: ${a.reason || a.refusal}` : "";
  const state = a ? wrong || `${tokens} tokens, ${duration(a.seconds ?? 0)}` : "is writing";
  const body = h("div", { class: "turn-body" });
  return h("details", { class: a?.refusal ? "turn bad" : "turn", "data-path": turn.path,
    ontoggle: async (e) => {
      if (!e.target.open || body.childElementCount) return;
      const texts = [["Sent", turn.prompt], ["Received", a?.text]];
      for (const [title, name] of texts) {
        if (!name) continue;
        const text = await blob(name).catch(() => "This text could not be loaded. Open the turn again.");
        body.append(h("h4", {}, title), h("pre", { tabindex: "0" }, text));
      }
    } },
  h("summary", {}, h("b", {}, turn.role || "model"), ` step ${turn.path}: `, coded(state),
    turn.lost ? ` (asked again after a lost engine; the cost of the first attempt is unknown)` : ""), body);
}

export class Turns {
  /** `node`: the section; `choose(n)` selects a trial. */
  constructor(node, choose) {
    Object.assign(this, { node, choose, key: "" });
    this.open = new Map(); // name of a part -> whether a person opened it
    this.live = new Fold(); // of the whole log
    this.rows = new Map(); // path -> {key, node}: the transcript
    this.running = h("pre"); // the text of the running turn
    this.write = throttle(() => { this.running.textContent = this.text; }, WRITES);
  }

  /** A part that opens. `content()` is called once it is open. */
  part(name, content, { title = name, opened = false } = {}) {
    const open = this.open.get(name) ?? opened;
    const inside = h("div", {}, open ? content() : null);
    return h("details", { class: "turns-part", open, ontoggle: (e) => {
      this.open.set(name, e.target.open);
      if (e.target.open && !inside.childElementCount) inside.append(content());
    } }, h("summary", {}, title), inside);
  }

  /** The turns' texts. A row that is there stays, with what a person opened in it. */
  transcript(turns) {
    return h("div", {}, turns.map((turn) => {
      const key = `${turn.attempt} ${turn.answer ? turn.answer.text : ""}`;
      if (this.rows.get(turn.path)?.key !== key) this.rows.set(turn.path, { key, node: transcript(turn) });
      return this.rows.get(turn.path).node;
    }));
  }

  draw(log, view, seq) {
    this.live.take(log);
    const state = seq === null ? this.live : new Fold().take(log, seq);
    const { shown } = state;
    const turns = [...state.turns.values()];
    const running = turns.findLast((t) => !t.answer);
    const text = running?.text.slice(-LIVE) || "…";
    if (text !== this.text) this.write();
    this.text = text;
    const key = `${seq === null}|${state.seq}|${view.figures_seq}|${view.trials.size}|${Boolean(view.end)}`;
    if (key === this.key) return;
    this.key = key;
    const names = [...new Set(turns.map((t) => t.answer?.model || t.model).filter(Boolean))].join(", ");
    const ofTrial = (key) => (n) => view.trials.get(n)?.[key] ?? "";
    const about = { rehearsed: names === "rehearsed", changeOf: ofTrial("change"), classOf: ofTrial("cls") };
    const own = drawStrategy(view.strategy, shown, this.choose, Boolean(view.end), about);
    const hasOwn = shown.length > 0 && own !== ""; // a preset may show its parts without a turn
    this.node.hidden = !turns.length && !hasOwn && !this.node.matches(".writes");
    if (!turns.length && !hasOwn) return;
    const sums = ledger(turns);
    const elapsed = Math.max(0, (view.last_t ?? 0) - (log[0]?.t ?? 0));
    const share = elapsed > 0 ? ` (${percent(Math.min(1, sums.all.seconds / elapsed))} of the session)` : "";
    const of = (topic) => shown.filter((s) => s.topic === topic).map((s) => s.facts);
    const tables = of("triage"), tested = of("hypothesis"), lessons = of("lessons").flatMap((f) => f.lessons ?? []);
    const refined = of("refinement").at(-1);
    const form = view.notes.find((n) => n.code === "form");
    const phase = shown.at(-1)?.topic === "phase" ? shown.at(-1).facts : of("phase").at(-1);
    this.node.replaceChildren(
      h("header", { class: "pane-head" }, h("h2", {},
        !turns.length ? "Strategy" : names === "rehearsed" ? "Rehearsed turns" : "Model"),
        h("span", { class: "pane-note" }, names)),
      h("p", { class: "turns-sum" }, turns.length ? [
        `${count(sums.all.turns, "turn")}, ${sums.all.in.toLocaleString("en")} tokens in, `,
        `${sums.all.out.toLocaleString("en")} out, `,
        `${duration(sums.all.seconds)} of writing${share}${sums.costs ? `, $${sums.all.cost.toFixed(4)}` : ""}. `,
        names === "rehearsed" ? "No model wrote these replies: rules did. " : "", outcomes(view),
      ] : view.end ? "No model was asked in this session." : "No model was asked so far."),
      view.end ? shares(view.end.spent) : "",
      form ? h("p", { class: "form-note" }, `${form.text}.`) : "",
      refined ? h("p", { class: "refinement" }, refined.words) : "",
      running && !view.end
        ? h("div", { class: "turn-now", role: "status" },
          h("b", {}, `${running.role || "model"}${phase ? ` · iteration ${phase.iteration}` : ""}`),
          this.running)
        : "",
      own,
      tables.length ? this.part("Triage", () => triage(tables.at(-1)), { opened: true }) : "",
      tables.length > 1
        ? this.part("Earlier triage", () => h("div", {}, tables.slice(0, -1).reverse().map(triage)),
          { title: `Triage of earlier iterations (${tables.length - 1})` })
        : "",
      tested.length
        ? this.part("Hypotheses", () => hypotheses(tested, this.choose), { title: `Hypotheses (${tested.length})` })
        : "",
      lessons.length ? this.part("Lessons", () => h("ul", {}, lessons.map((l) => h("li", {}, l)))) : "",
      ...(turns.length ? [
        this.part("Tokens and time by role", () => byRole(sums)),
        this.part("Transcript", () => this.transcript(turns), { title: `Transcript (${turns.length})` }),
      ] : []),
    );
  }
}
