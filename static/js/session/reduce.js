// The fold of a session's log for the page: the counterpart of engine/session/fold/reduce.py, whose docstring has the
// rules. The same events give the same view, in any order and with any repetitions; tests/browser/test_fold.py compares
// the two on every recording and on random logs.
import {
  BASELINE,
  causeOf,
  CLOSED,
  CONTROL,
  counts,
  END,
  FAILED,
  flag,
  hasEnded,
  isObject,
  JUDGED,
  KEY,
  MEASURED,
  newTrial,
  NOTE,
  number,
  numbers,
  obj,
  objects,
  ofSearch,
  outcome,
  PROFILE,
  PROGRESS,
  read,
  REGION,
  regionOf,
  RESUMED,
  SCREENED,
  text,
  texts,
  UNCOVERED,
  UNTIMED,
  whole,
} from "./view.js";

/** The view of a session before its first event. `gap`: an event is missing, so those after it were not applied. */
export const initial = () => ({
  gap: false,
  seq: 0,
  started_t: null,
  last_t: null,
  figures_seq: 0,
  title: "",
  source: "",
  source_kind: "",
  device: {},
  strategy: "",
  classes: [],
  budget: {},
  algebraic: false,
  begun: false,
  paused: false,
  progress: null,
  key: null, // of a visitor's endpoint, while the session waits for it
  graph: "",
  operations: null,
  module_note: "",
  report: "",
  bounds: {},
  sentence: "",
  coverage: null,
  notes: [],
  baselines: [],
  screened: [],
  trials: new Map(), // number -> trial, in the order of the log
  best: new Map(), // class -> number of its best trial
  fastest: new Map(), // the same, whether or not the trial is faster than PyTorch
  stretches: [], // {trial, baseline, speedup}: the headlines with one baseline, from a trial on
  controls: [],
  resumed: [],
  end: null,
  warnings: [],
});

function trialOf(v, n) {
  if (!v.trials.has(n)) v.trials.set(n, newTrial(n));
  return v.trials.get(n);
}

/** The handler of an event that is a step of a trial: null, or the code of a warning. */
const step = (name, take) => (v, d, t) => {
  const n = whole(d.trial);
  if (n === null) return "unreadable";
  const known = name === "proposed" || "proposed" in (v.trials.get(n)?.steps ?? {});
  const trial = trialOf(v, n);
  if (hasEnded(trial) || name in trial.steps) return "repeated";
  trial.steps[name] = t;
  if (name !== "untimed" && name !== "failed") trial.step = name;
  take(trial, d, v);
  return known ? null : "not_proposed";
};

function judged(trial, d, v) {
  const j = read(JUDGED, d);
  trial.judged = j;
  trial.cls ||= j.cls;
  if (!counts(j) || (j.algebraic && !v.algebraic && !j.best) || j.ms === null || j.speedup === null) return;
  const faster = (known) => !known.has(j.cls) || j.ms < v.trials.get(known.get(j.cls)).judged.ms;
  if (faster(v.fastest)) v.fastest.set(j.cls, trial.number);
  if (j.best && j.speedup > 1 && faster(v.best)) v.best.set(j.cls, trial.number);
  const head = headline(v);
  if (!head) return;
  const { baseline, speedup } = head.judged;
  if (v.stretches.at(-1)?.baseline !== baseline) v.stretches.push({ trial: head.number, baseline, speedup });
  v.stretches.at(-1).speedup = speedup;
}

const PROPOSED = [
  "cls", "roof", "backend", "program", "change", "why", "by", "structure", "settings", "form", "language", "entry",
  "rest",
];
const timed = (d) => ({ ms: number(obj(d.time).ms), kind: text(obj(d.time).kind) });

const HANDLERS = {
  "session.started": (v, d) => {
    if (v.begun) return "repeated";
    Object.assign(v, {
      begun: true,
      title: text(d.title),
      source: text(d.source),
      source_kind: text(d.source_kind),
      device: obj(d.device),
      strategy: text(d.strategy),
      classes: texts(d.classes),
      budget: numbers(d.budget),
      algebraic: flag(d.algebraic),
    });
    return null;
  },
  progress: (v, d, t) => {
    v.progress = read(PROGRESS, d, { t });
  },
  traced: (v, d) => {
    const title = text(d.title) || v.title;
    Object.assign(v, { graph: text(d.graph), operations: whole(d.ops), title, module_note: text(d.note) });
  },
  reported: (v, d) => {
    Object.assign(v, { report: text(d.report), bounds: numbers(d.bounds), sentence: text(d.summary) });
  },
  covered: (v, d) => {
    v.coverage = {
      regions: objects(d.regions).map((r) => read(REGION, r)),
      uncovered: objects(d.uncovered).map((u) => read(UNCOVERED, u)),
      share: numbers(d.share),
      text: text(d.text),
    };
  },
  noted: (v, d) => {
    v.notes.push(read(NOTE, d));
  },
  baseline: (v, d) => {
    const baseline = read(BASELINE, d, timed(d));
    const at = v.baselines.findIndex((b) => b.name === baseline.name && b.cls === baseline.cls);
    if (at < 0) v.baselines.push(baseline);
    else v.baselines[at] = baseline;
  },
  screened: (v, d) => {
    const ran = Object.values(obj(d.quick)).filter((ms) => number(ms) !== null).length;
    v.screened.push(read(SCREENED, d, { ran }));
  },
  "trial.proposed": step("proposed", (trial, d) => {
    for (const name of PROPOSED) trial[name] = text(d[name]);
    Object.assign(trial, { parent: whole(d.parent), predicted_ms: number(d.predicted_ms) });
  }),
  "trial.checked": step("checked", (trial, d) => {
    Object.assign(trial, { resolved: text(d.resolved), stages: objects(d.stages), tried: texts(d.tried) });
  }),
  "trial.generated": step("generated", (trial, d) => {
    const inputs = objects(d.inputs), part_of = whole(d.region);
    Object.assign(trial, { sources: obj(d.sources), refused: obj(d.refused), inputs, part_of });
  }),
  "trial.compiled": step("compiled", (trial, d) => {
    trial.compiled = d;
  }),
  "trial.validated": step("validated", (trial, d) => {
    trial.validated = d;
  }),
  "trial.measured": step("measured", (trial, d) => {
    trial.measured = read(MEASURED, d, timed(d));
  }),
  "trial.judged": step("judged", judged),
  "trial.untimed": step("untimed", (trial, d) => {
    trial.untimed = read(UNTIMED, d);
    trial.cls ||= trial.untimed.cls;
  }),
  "trial.failed": step("failed", (trial, d) => {
    trial.failed = read(FAILED, d, { cause: text(d.cause) || causeOf(text(d.code)) });
  }),
  "trial.profiled": (v, d, t) => {
    const n = whole(d.trial), trial = v.trials.get(n);
    if (n === null || !trial) return n === null ? "unreadable" : "not_proposed";
    const asked = trial.profile?.asked ?? null;
    trial.profile = read(PROFILE, d, { state: text(d.text) ? "ready" : "refused", asked, t });
    return null;
  },
  controlled: (v, d, t) => {
    const word = read(CONTROL, d, { t });
    v.controls.push(word);
    if (word.action === "pause" || word.action === "resume") v.paused = word.action === "pause";
    else if (word.action === "budget") v.budget = { ...v.budget, ...numbers(word.data) };
    const trial = word.action === "profile" ? v.trials.get(whole(word.data.trial)) : null;
    if (trial) trial.profile = read(PROFILE, {}, { state: "asked", asked: t, t: null });
  },
  "key.wanted": (v, d) => {
    v.key = read(KEY, d);
  },
  "key.received": (v) => {
    v.key = null;
  },
  resumed: (v, d, t) => {
    v.key = null; // the engine that asked for it is gone
    v.resumed.push(read(RESUMED, d, { t }));
  },
  "session.ended": (v, d, t) => {
    v.end = read(END, d, { closed: objects(d.closed).map((c) => read(CLOSED, c)), t });
    v.paused = false;
    v.key = null;
  },
};
// Kinds that do not change the view: for replaying a strategy's script, and its memory of other problems.
const IGNORED = [
  "memory.read", "memory.written", "turn.asked", "turn.said", "turn.answered", "script.shown", "script.advanced",
];
const DRAWN = [
  "reported", "covered", "baseline", "trial.checked", "trial.judged", "trial.untimed", "trial.failed", "controlled",
  "session.ended",
];

function warn(v, code, kind) {
  const known = v.warnings.find((w) => w.code === code && w.kind === kind);
  if (known) known.count += 1;
  else v.warnings.push({ code, kind, seq: v.seq, count: 1 });
}

function take(v, { seq, kind, t, data }) {
  v.seq = seq;
  const at = number(t);
  v.started_t ??= at;
  v.last_t = at ?? v.last_t;
  if (IGNORED.includes(kind)) return;
  const handler = Object.hasOwn(HANDLERS, kind) ? HANDLERS[kind] : null;
  if (!handler) {
    warn(v, "unknown_kind", kind);
    return;
  }
  if (v.end) {
    warn(v, "after_end", kind);
    return;
  }
  if (!isObject(data)) {
    warn(v, "unreadable", kind);
    return;
  }
  const code = handler(v, data, at);
  if (code) warn(v, code, kind);
  else if (DRAWN.includes(kind)) v.figures_seq = seq;
}

/**
 * Applies events ({seq, kind, t, data}, in any order of arrival) to a view and returns it. Each is applied once; one
 * whose predecessor is missing ends the application: `gap` is then true, and the caller asks again from `seq`.
 */
export function apply(view, events) {
  view.gap = false;
  for (const event of [...events].sort((a, b) => a.seq - b.seq)) {
    if (event.seq <= view.seq) continue;
    if (event.seq !== view.seq + 1) {
      view.gap = true;
      break;
    }
    take(view, event);
  }
  return view;
}

/** The view of a log up to and including event `upTo`: what replay shows. */
export const fold = (log, upTo = Infinity) =>
  apply(
    initial(),
    log.filter((e) => e.seq <= upTo),
  );

// ---- derived values ----

/** waiting | running | paused | done | stopped | refused | failed */
export function stateOf(v) {
  if (v.end) return v.end.state || "done";
  if (!v.begun) return "waiting";
  return v.paused ? "paused" : "running";
}

const bySpeedup = (v, numbers) => {
  const order = (a, b) => b.judged.speedup - a.judged.speedup || a.number - b.number;
  return [...numbers].map((n) => v.trials.get(n)).sort(order)[0] ?? null;
};

/** The best of all classes by its speedup over PyTorch in the class; null if PyTorch stays in every class. */
export const headline = (v) => bySpeedup(v, v.best.values());

/** The trial that represents the session: its headline or, if PyTorch stays, the trial closest to PyTorch. */
export const shown = (v) => headline(v) ?? bySpeedup(v, v.fastest.values());

/** Trials that count against the budget. */
export const used = (v) => [...v.trials.values()].filter((x) => "proposed" in x.steps && ofSearch(x)).length;

/** The most recent trial without an end, or null. */
export const underWay = (v) => [...v.trials.values()].findLast((x) => !hasEnded(x)) ?? null;

/** The allowed classes, then those in which only PyTorch was timed. */
export const allClasses = (v) => [...new Set([...v.classes, ...v.baselines.map((b) => b.cls)])];

/** A view as plain data, equal to `View.to_json` of engine/session/fold/reduce.py. */
export function plain(v) {
  const { gap, trials, best, fastest, ...rest } = v;
  return {
    ...rest,
    best: Object.fromEntries(best),
    fastest: Object.fromEntries(fastest),
    trials: [...trials.values()].map((one) => ({ ...one, outcome: outcome(one), region: regionOf(one) })),
    state: stateOf(v),
    used: used(v),
    all_classes: allClasses(v),
    headline: headline(v)?.number ?? null,
    shown: shown(v)?.number ?? null,
    under_way: underWay(v)?.number ?? null,
  };
}
