// The event log becomes what the page shows. Pure: the same events give the same view, whoever sends them and
// however often: an event that was already applied is skipped, one that comes too early is not applied, so a
// reload, a reconnect and a replay all end in the same place. The events are engine/session/events.py.

export const STEPS = ["proposed", "checked", "generated", "compiled", "validated", "measured", "judged"];

export function initial() {
  return {
    seq: 0, gap: false,
    started: null, // data of session.started
    title: "", // what a session without a name computes
    progress: null, // {text, step, trial, t}
    graph: null, report: null, bounds: {}, summary: "",
    covered: null, // data of covered: a module that is no single program
    baselines: [],
    trials: new Map(), // number -> trial, in order of proposal
    best: {}, // class -> trial number
    paused: false, budget: null,
    controls: [], resumed: [],
    ended: null, // data of session.ended
    firstT: null, lastT: null,
  };
}

function trial(state, number) {
  if (!state.trials.has(number)) {
    state.trials.set(number, { n: number, step: null, steps: {}, judged: null, failed: null });
  }
  return state.trials.get(number);
}

function step(state, data, name, t) {
  const one = trial(state, data.trial);
  one.step = name;
  one.steps[name] = t;
  return one;
}

const HANDLERS = {
  "session.started": (s, d) => { s.started = d; s.budget = { ...d.budget }; },
  progress: (s, d, t) => { s.progress = { ...d, t }; },
  traced: (s, d) => { s.graph = d; if (d.title) s.title = d.title; },
  reported: (s, d) => { s.report = d.report; s.bounds = d.bounds; s.summary = d.summary; },
  covered: (s, d) => { s.covered = d; },
  baseline: (s, d) => { s.baselines = [...s.baselines.filter((b) => b.name !== d.name), d]; },
  "trial.proposed": (s, d, t) => {
    Object.assign(step(s, d, "proposed", t), {
      cls: d.cls, program: d.program, backend: d.backend, change: d.change, why: d.why, parent: d.parent,
      predictedMs: d.predicted_ms, by: d.by, roof: d.roof,
    });
  },
  "trial.checked": (s, d, t) => { step(s, d, "checked", t).resolved = d.resolved; },
  "trial.generated": (s, d, t) => {
    Object.assign(step(s, d, "generated", t), { sources: d.sources, refused: d.refused });
  },
  "trial.compiled": (s, d, t) => { step(s, d, "compiled", t).compiled = d; },
  "trial.validated": (s, d, t) => { step(s, d, "validated", t).validated = d; },
  "trial.measured": (s, d, t) => { step(s, d, "measured", t).measured = d; },
  "trial.judged": (s, d, t) => {
    step(s, d, "judged", t).judged = d;
    if (d.best) s.best = { ...s.best, [d.cls]: d.trial };
  },
  "trial.failed": (s, d, t) => { const one = trial(s, d.trial); one.failed = d; one.steps.failed = t; },
  controlled: (s, d, t) => {
    s.controls.push({ ...d, t });
    if (d.action === "pause") s.paused = true;
    if (d.action === "resume") s.paused = false;
    if (d.action === "budget") s.budget = { ...s.budget, ...d.data };
  },
  resumed: (s, d, t) => { s.resumed.push({ ...d, t }); },
  "session.ended": (s, d, t) => { s.ended = { ...d, t }; s.best = { ...d.best }; s.paused = false; },
};

/**
 * Applies `events` ({seq, kind, t, data}, any order of arrival) to `state` and returns it.
 * An event whose predecessor is missing stops the application: `state.gap` is then true, and the caller asks
 * again from `state.seq`.
 */
export function apply(state, events) {
  state.gap = false;
  for (const event of [...events].sort((a, b) => a.seq - b.seq)) {
    if (event.seq <= state.seq) continue;
    if (event.seq !== state.seq + 1) { state.gap = true; break; }
    HANDLERS[event.kind]?.(state, event.data, event.t);
    state.seq = event.seq;
    state.firstT ??= event.t;
    state.lastT = event.t;
  }
  return state;
}

/** The view of a log up to and including event `upTo`: what replay shows. */
export function fold(log, upTo = Infinity) {
  return apply(initial(), log.filter((e) => e.seq <= upTo));
}

/** The time a trial stands for: measured or predicted, with its label; null before there is one. */
export function timeOf(one) {
  if (one.measured) return { ms: one.measured.time.ms, kind: one.measured.time.kind, time: one.measured.time };
  if (one.judged) return { ms: one.judged.ms, kind: one.judged.kind, time: null };
  return null;
}

/** The judged trial that the header shows: the best of all classes by speedup over its own baseline. */
export function headline(state) {
  const judged = Object.values(state.best).map((n) => state.trials.get(n)).filter((one) => one?.judged);
  judged.sort((a, b) => b.judged.speedup - a.judged.speedup);
  return judged[0] ?? null;
}

/** Trials that count against the budget. */
export const used = (state) => [...state.trials.values()].filter((one) => one.by !== "owner").length;

/** What a trial that is under way is doing, in words. */
export const DOING = {
  proposed: "checking", checked: "generating code", generated: "compiling", compiled: "verifying", validated: "timing", measured: "judging",
};

/** The trial under way, or null. */
export const underWay = (state) => [...state.trials.values()].findLast((one) => !one.judged && !one.failed) ?? null;

/** One state in one word: waiting | running | paused | done | stopped | refused | failed. */
export function phase(state) {
  if (state.ended) return state.ended.state;
  if (state.paused) return "paused";
  return state.started ? "running" : "waiting";
}
