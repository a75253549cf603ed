// A session's trials for the stop rules: the counterpart of engine/replay.py, with its names. A trial is charged with
// what the session spent from the end of the trial before it to its own end.
import { counts, hasEnded, number, obj, ofSearch } from "../view.js";

const ENDS = ["trial.judged", "trial.untimed", "trial.failed"];

/** Trial -> {seconds, tokens, money} of the events up to `upTo`. `log`: events {seq, kind, t, data}, in order. */
export function spending(log, upTo = Infinity) {
  const spent = new Map();
  let since = {}, last = null;
  const add = (kind, value) => {
    if (value) since[kind] = (since[kind] ?? 0) + value;
  };
  for (const { seq, kind, t, data } of log) {
    if (seq > upTo) break;
    if (kind === "resumed" || (kind === "progress" && data.step === "search")) last = t;
    else if (kind === "turn.answered") {
      const { in: read, out: written } = obj(data.tokens);
      add("tokens", (number(read) ?? 0) + (number(written) ?? 0));
      add("money", number(data.cost) ?? 0);
    } else if (ENDS.includes(kind)) {
      spent.set(data.trial, { ...since, seconds: Math.max(0, t - (last ?? t)) });
      since = {};
      last = t;
    }
  }
  return spent;
}

/** Whether a trial's time is a result: its verdict counts, and what it omits is allowed. */
const isResult = (view, { judged: j }) =>
  j !== null && counts(j) && (j.best || view.algebraic || !j.algebraic) && j.ms !== null;

/**
 * Every class with a limit, a baseline and a trial: {cls, trials: [{number, ms, limit, spent}], limit, baseline, kind},
 * times in ms. `limit` of a trial: null for its class's. The owner's own trials and the session's last ones are no part
 * of the search, nor is a raw kernel that could have no time.
 */
export function recorded(view, spent = new Map()) {
  const classes = new Map();
  for (const one of view.trials.values()) {
    if (!hasEnded(one) || one.untimed || !ofSearch(one)) continue;
    const ms = isResult(view, one) ? one.judged.ms : null;
    if (!classes.has(one.cls)) classes.set(one.cls, []);
    const limit = one.roof === one.cls ? null : (view.bounds[one.roof] ?? null);
    classes.get(one.cls).push({ number: one.number, ms, limit, spent: spent.get(one.number) ?? {} });
  }
  return [...classes].flatMap(([cls, trials]) => {
    const baseline = view.baselines.find((b) => b.cls === cls);
    if (!(cls in view.bounds) || !baseline || baseline.ms === null) return [];
    return [{ cls, trials, limit: view.bounds[cls], baseline: baseline.ms, kind: baseline.kind }];
  });
}
