// A session's log as data: the counterpart of engine/session/fold/view.py, with the same names and readers. A field
// that is missing or has another type gets its empty value; an unknown field is dropped.

export const STEPS = ["proposed", "checked", "generated", "compiled", "validated", "measured", "judged"];
export const COUNTING = ["clean", "minor"]; // verdicts of a trial whose time is a result
const STOPPED = ["stopped", "cancelled"];
const UNDECIDED = [
  "oracle", "worker_lost", "gpu_lost", "timeout", "engine_error", "memory_limit", "gpu_memory", "run_failed",
];
const UNDECIDED_PREFIXES = ["reference_", "oracle_", "garbled"];

/** Who ended a failed trial, by its code: owner | run (before anything was known of the program) | program. */
export function causeOf(code) {
  if (STOPPED.includes(code)) return "owner";
  return UNDECIDED.includes(code) || UNDECIDED_PREFIXES.some((p) => code.startsWith(p)) ? "run" : "program";
}

// ---- readers of JSON values ----

export const isObject = (v) => typeof v === "object" && v !== null && !Array.isArray(v);
export const text = (v) => (typeof v === "string" ? v : "");
export const number = (v) => (Number.isFinite(v) ? v : null);
export const whole = (v) => (Number.isSafeInteger(v) ? v : null);
export const flag = (v) => v === true;
export const obj = (v) => (isObject(v) ? v : {});
export const texts = (v) => (Array.isArray(v) ? v.filter((x) => typeof x === "string") : []);
export const objects = (v) => (Array.isArray(v) ? v.filter(isObject) : []);
export const wholes = (v) => (Array.isArray(v) ? v.filter((x) => whole(x) !== null) : []);
export const numbers = (v) => Object.fromEntries(Object.entries(obj(v)).filter(([, x]) => number(x) !== null));

/** An object with the fields of `shape` ({name: reader}), read from `data`; `known` fields are taken as they are. */
export function read(shape, data, known = {}) {
  const fields = Object.entries(shape).map(([name, reader]) => [name, reader(data[name])]);
  return { ...Object.fromEntries(fields), ...known };
}

// ---- the parts of a view ----

export const PROGRESS = { text, step: text, trial: whole };
export const BASELINE = { name: text, cls: text, note: text, time: obj };
export const REGION = {
  number: whole,
  words: text,
  ops: texts,
  inputs: texts,
  outputs: texts,
  lines: wholes,
  limits: numbers,
  share: numbers,
};
export const UNCOVERED = { name: text, op: text, line: whole, reason: text, why: text };
export const MEASURED = {
  time: obj,
  baseline: text,
  baseline_ms: number,
  ratio: number,
  ratio_low: number,
  ratio_high: number,
  checks: objects,
  part: obj,
};
export const JUDGED = {
  verdict: text,
  cls: text,
  kind: text,
  ms: number,
  speedup: number,
  baseline: text,
  gap: number,
  sol_score: number,
  best: flag,
  standing: text,
  text,
  evidence: objects,
  algebraic: text,
};
export const UNTIMED = { verdict: text, cls: text, step: text, code: text, text, evidence: objects };
export const FAILED = { step: text, code: text, reason: text, detail: text, diagnostics: objects, evidence: objects };
export const PROFILE = { source: text, text, refusal: text, reason: text, seconds: number };
export const CONTROL = { action: text, data: obj };
export const SCREENED = { trial: whole, seconds: number };
export const RESUMED = { text };
export const KEY = { endpoint: text, model: text, claim: whole, until: number, again: flag, text };
export const NOTE = { code: text, text, cls: text };
export const CLOSED = { cls: text, code: text, best_ms: number, limit_ms: number, eps: number, trials: whole };
export const END = {
  state: text,
  code: text,
  reason: text,
  line: whole,
  seconds: number,
  trials: whole,
  untried: whole,
  spent: numbers,
  covered: objects,
};

/** A trial before anything is known of it. */
export const newTrial = (n) => ({
  number: n,
  cls: "",
  roof: "",
  backend: "",
  program: "",
  change: "",
  why: "",
  parent: null,
  predicted_ms: null,
  by: "",
  structure: "",
  settings: "",
  step: "",
  steps: {},
  resolved: "",
  stages: [],
  tried: [],
  sources: {},
  refused: {},
  inputs: [],
  part_of: null,
  form: "",
  language: "",
  entry: "",
  rest: "",
  compiled: null,
  validated: null,
  measured: null,
  judged: null,
  untimed: null,
  failed: null,
  profile: null,
});

export const counts = (judged) => COUNTING.includes(judged.verdict);
/** How a trial ended; null while it runs. */
export const endOf = (trial) => trial.judged ?? trial.untimed ?? trial.failed;
export const hasEnded = (trial) => endOf(trial) !== null;

/** Whether the strategy made it, and not the owner, or the session itself after the search. */
export const ofSearch = (trial) => !["owner", "engine"].includes(trial.by);

/** running | counted | flagged | verified | unverified | failed | undecided | stopped; `verified` and `unverified` are
    of kernels without a time. */
export function outcome(trial) {
  if (trial.untimed) {
    if (counts(trial.untimed)) return "verified";
    return trial.untimed.verdict === "unverified" ? "unverified" : "flagged";
  }
  if (trial.judged) return counts(trial.judged) ? "counted" : "flagged";
  if (trial.failed?.cause === "run") return "undecided";
  if (trial.failed?.cause === "owner") return "stopped";
  if (trial.failed) return "failed";
  return "running";
}

/** The region of a trial's program; null for the whole module, or while it is unknown. */
export const regionOf = (trial) => (trial.measured && whole(trial.measured.part.region)) || trial.part_of || null;

/** The time of a trial, {ms, kind}: measured or predicted; null before there is one. */
export function timeOf(trial) {
  const { ms, kind } = trial.measured ?? trial.judged ?? {};
  return Number.isFinite(ms) ? { ms, kind } : null;
}
