// A session and its trials in words, composed from the fields of the view; no code parses texts of the log.
import { baselineName, className, duration, percent, time, times } from "../format.js";
import { tr } from "../texts.js";
import { counts, timeOf } from "./view.js";

/** The current activity of a running trial, by its last step. */
export const DOING = {
  proposed: "checking",
  checked: "generating code",
  generated: "compiling",
  compiled: "verifying",
  validated: "timing",
  measured: "judging",
};
const LANGUAGES = { cuda: "CUDA C++", python: "Python" };
const FAILED = {
  check: "rejected",
  generate: "not expressible",
  compile: "did not compile",
  validate: "wrong result",
  measure: "not timed",
};
export const VERDICT = {
  clean: "clean",
  minor: "minor remark",
  gaming: "flagged, not counted",
  "library only": "library calls only",
  unverified: "not verified",
};
// Codes that ended a kernel while it was loaded or verified.
const ENDED = {
  raised: "raised an error",
  crashed: "crashed",
  time_limit: "did not end",
  not_loaded: "did not load",
  no_entry: "no entry",
};
// Why a kernel has a verdict and no time.
const NO_TIME = {
  no_prediction: "no model predicts raw code",
  inconclusive: "a trivial answer would pass too",
  needs_gpu: "needs a GPU",
  no_compiler: "no nvcc here",
  slow_start: "the machine was busy",
};

export const isKernel = (one) => one.form === "kernel";

/** What builds a trial: a back end, or of a raw kernel its language. */
export const builtBy = (one) => (isKernel(one) ? (LANGUAGES[one.language] ?? "kernel") : one.backend);

/** The current activity of a running trial. */
export const doing = (one) =>
  tr(isKernel(one) && one.step === "checked" ? "compiling" : (DOING[one.step] ?? "proposed"));

/** The verdict on a kernel that has no time, in a few words. */
export function untimedWords({ verdict, code }) {
  const head = tr(counts({ verdict }) ? "right, not timed" : (VERDICT[verdict] ?? verdict));
  return NO_TIME[code] ? `${head}: ${tr(NO_TIME[code])}` : head;
}

/** Why a trial failed, in two words. An end before its check says nothing about the program. */
export function failedWord({ step, cause, code }) {
  if (cause === "owner") return tr("stopped");
  if (cause === "run" && step === "validate") return tr("not verified");
  return tr(ENDED[code] ?? FAILED[step] ?? "failed");
}

/** A trial's class and, under a guard, the class of its products, whose limit applies. */
export const classWords = ({ cls, roof }) =>
  roof && roof !== cls ? tr("{cls} by guarded {roof}", { cls: className(cls), roof: className(roof) })
    : className(cls);

/** The text of a trial for screen readers, and the row's title. */
export function describe(one) {
  const at = timeOf(one);
  const head = tr("Trial {n}, {cls}: {change}", { n: one.number, cls: classWords(one), change: one.change });
  if (one.failed) return `${head}. ${failedWord(one.failed)}: ${one.failed.reason}`;
  if (one.untimed) return `${head}. ${untimedWords(one.untimed)}: ${one.untimed.text}`;
  if (!at) return `${head}. ${doing(one)}`;
  const timed = `${head}. ${tr(at.kind)} ${time(at.ms)}`;
  if (!one.judged) return timed;
  const { speedup, baseline } = one.judged;
  return `${timed}, ${tr("{speedup} over {baseline}", { speedup: times(speedup), baseline: baselineName(baseline) })}`;
}

/** That the speedup of the head is of another baseline than before, or than the original's; "" if it is not. `forked`:
 * {speedup, baseline} of the original's head when this session began as its fork, or undefined. */
export function againstWords({ stretches }, forked) {
  const [before, now] = [stretches.at(-2), stretches.at(-1)];
  if (!now) return "";
  const over = (one) => ({ speedup: times(one.speedup), then: baselineName(one.baseline) });
  const values = { now: baselineName(now.baseline), n: now.trial };
  const lines = [];
  if (forked && forked.baseline !== now.baseline)
    lines.push(tr("This is a fork of a session with {speedup} over {then}, another baseline.", over(forked)));
  if (before)
    lines.push(tr("Over {now} since trial {n}; before, {speedup} over {then}.", { ...values, ...over(before) }));
  return lines.join(" ");
}

/** Whether the limit is so far below a kernel's launch, about 4 µs, that a multiple of it says nothing. */
export const launchBinds = (j) => j.ms / j.gap < 0.001;

function closed({ cls, code, best_ms, limit_ms, eps, trials }) {
  const values = { cls: className(cls), eps: percent(eps), best: time(best_ms), limit: time(limit_ms), n: trials };
  if (code === "near_limit") return tr("{cls}: within {eps} of the limit, {best} against {limit}", values);
  if (code === "stalled")
    return trials === 1 ? tr("{cls}: 1 trial in a row brought nothing better than {best}", values)
      : tr("{cls}: {n} trials in a row brought nothing better than {best}", values);
  return `${values.cls}: ${code}`;
}

const PLAIN = ["", "planner", "sweep"]; // strategies whose only reason is that nothing is left to try

/** Why the search ended. An older log has only a sentence, which is shown unchanged, and so is the reason of a strategy
 * that a model leads: its tokens are spent, no template was right. */
function why(view) {
  const { code, reason, closed: classes } = view.end;
  const budget = view.budget.trials ?? view.trials.size;
  if (code === "budget_used")
    return budget === 1 ? tr("the budget of 1 trial is used up")
      : tr("the budget of {n} trials is used up", { n: budget });
  const sentence = reason.replace(/\.$/, "");
  if (code === "search_over" && classes.length) return classes.map(closed).join("; ");
  if (code === "search_over")
    return (!PLAIN.includes(view.strategy) && sentence) || tr("there is nothing left to try");
  if (code === "stopped") return tr("by the owner");
  return sentence;
}

const SPENT = {
  think: "planning", trace: "tracing", prepare: "preparing", build: "building", trial: "running trials",
  pytorch: "timing PyTorch", turn: "a model's turns",
  profile: "profiling", wait_gpu: "waiting for the GPU", wait_core: "waiting for a core",
  wait_memory: "waiting for the GPU's memory",
  wait_build: "waiting to build", wait_report: "waiting to be traced",
};

/** Where a session's time went, the longest first: "building 12 s, waiting for the GPU 4 s". */
export function spentWords(spent) {
  const parts = Object.entries(spent).filter(([name, seconds]) => SPENT[name] && seconds >= 1);
  const words = ([name, seconds]) => `${tr(SPENT[name])} ${duration(seconds)}`;
  return parts.sort((a, b) => b[1] - a[1]).map(words).join(", ");
}

const STATE = { done: "Ended", stopped: "Stopped", refused: "Refused", failed: "Failed" };

/** How a session ended: "Ended: TF32: within 25% of the limit … · 20 s". */
export function endWords(view) {
  const { state, seconds, untried } = view.end;
  const where = spentWords(view.end.spent);
  const one = untried === 1;
  const candidates = !untried ? "" : one ? tr("; 1 candidate of the owner not tried")
    : tr("; {n} candidates of the owner not tried", { n: untried });
  const head = tr(STATE[state] ?? "Ended");
  if (state === "refused") return head + candidates;
  return `${head}: ${why(view)}${candidates} · ${duration(seconds)}${where && ` (${where})`}`;
}

/** The classes in which PyTorch stays: [class, the fastest trial that counts], none faster than PyTorch. */
export const pytorchStays = (view) =>
  [...view.fastest].filter(([cls]) => !view.best.has(cls)).map(([cls, n]) => [cls, view.trials.get(n)]);

