// When a search stops, and what a finished one would have cost under another rule: the counterpart of sol/budget.py,
// with its names. tests/browser/test_what_if.py compares the two on every recording.

export const KINDS = ["seconds", "tokens", "money"]; // of costs, beside the trials themselves

/** g = t / t_sol: 1 at the limit. */
function gap(ms, limit) {
  if (limit > 0) return ms / limit;
  return ms <= 0 ? 1 : Infinity;
}

/** near_limit | stalled, or null to go on. Only a best that beats the baseline stops a search; times in ms. */
export function shouldStop(best, baseline, limit, since, eps, window) {
  if (best === null || baseline === null || best >= baseline) return null;
  if (gap(best, limit) <= 1 + eps) return "near_limit";
  return window > 0 && since >= window ? "stalled" : null;
}

const speedup = (ms, baseline) => (ms ? Math.max(1, baseline / ms) : 1);

/** Sums of each kind of cost that the trials recorded: {seconds, tokens, money}, without a kind that none recorded. */
function sums(trials) {
  const of = (kind) => trials.reduce((sum, { spent }) => sum + (spent[kind] ?? 0), 0);
  return Object.fromEntries(KINDS.map((kind) => [kind, of(kind)]).filter(([, sum]) => sum));
}

/**
 * Cuts a session ({trials: [{ms, limit, spent}], limit, baseline}, all of one class) where the rule would have ended
 * it. `code`: why, null where it would not; `since`: trials without a better one up to there; `limit`: of the best
 * there; `spent`, of `total`: costs.
 */
export function replay({ trials, limit, baseline }, eps, window) {
  let best = null, since = 0, run = 0, code = null, own = limit;
  for (const { ms, limit: its } of trials) {
    run += 1;
    if (ms !== null && (best === null || ms < best)) [best, since, own] = [ms, 0, its ?? limit];
    else since += 1;
    code = shouldStop(best, baseline, own, since, eps, window);
    if (code) break;
  }
  const times = trials.map(({ ms }) => ms).filter((ms) => ms !== null);
  const full = times.length ? Math.min(...times) : null;
  return {
    trials_run: run, trials_total: trials.length, best_ms: best, full_ms: full, code, since, limit: own,
    speedup: speedup(best, baseline), speedup_kept: speedup(best, baseline) / speedup(full, baseline),
    spent: sums(trials.slice(0, run)), total: sums(trials),
  };
}

/** The replays of all classes of a session together: shares saved, and the geometric mean of the speedup kept. */
export function together(replays) {
  const add = (name) => replays.reduce((sum, r) => sum + r[name], 0);
  const cost = (name, kind) => replays.reduce((sum, r) => sum + (r[name][kind] ?? 0), 0);
  const costs = KINDS.map((kind) => [kind, cost("total", kind), cost("spent", kind)]).filter(([, total]) => total);
  return {
    trials_run: add("trials_run"), trials_total: add("trials_total"),
    costs: Object.fromEntries(costs.map(([kind, total, spent]) => [kind, { total, spent, saved: 1 - spent / total }])),
    speedup_kept: replays.reduce((product, r) => product * r.speedup_kept ** (1 / replays.length), 1),
  };
}
