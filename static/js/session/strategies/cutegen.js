// One evolving kernel (engine/strategies/cutegen): its workload, the ladder of depths, debugging, and the late profile.
import { h } from "../../page.js";
import { className, digits, time, times } from "../../format.js";
import { table } from "./table.js";

const STUDY = "https://arxiv.org/abs/2604.01489";
const STATES = {
  started: "started", passed: "passed", given: "handed in", "left out": "left out", stopped: "stopped",
};
const THEN = { fix: "fix", regenerate: "write anew", "leave out": "leave the step out" };
const MOST = 60; // failures that are listed

const number = (value) => (Number.isFinite(value) ? value : null);
const words = (value) => (typeof value === "string" ? value : "");
const list = (value) => (Array.isArray(value) ? value : []);
const cell = (content, cls = null) => h("td", { class: cls }, content);

const trial = (n, choose) =>
  number(n) === null ? "–" : h("button", { type: "button", class: "place", onclick: () => choose(n) }, `trial ${n}`);

/** The last facts of each depth, in the order of the depths. */
function ladder(shown) {
  const rungs = new Map();
  for (const { topic, facts } of shown)
    if (topic === "depth" && number(facts.depth) !== null) rungs.set(facts.depth, facts);
  return [...rungs.values()].sort((a, b) => a.depth - b.depth);
}

const clock = (ms) => (number(ms) === null ? "no time" : time(ms));

/** Whether two trials may be compared by their times: not across precision classes, as far as both are known. */
const alike = (one, other, classOf) => !classOf(one) || !classOf(other) || classOf(one) === classOf(other);

/** The evolving kernel beside the best so far. */
function standing(rungs, choose, ended, classOf) {
  const passed = rungs.filter((f) => number(f.trial) !== null);
  const last = passed.at(-1), now = rungs.at(-1);
  if (!last) {
    const why = ended || (now && now.state !== "started")
      ? "No candidate passed." : "No candidate has passed yet: the first one is still being written or mended.";
    return h("p", { class: "evolving-empty" }, why);
  }
  const best = number(now.best);
  const ofClass = best !== null && alike(best, last.trial, classOf);
  const slower = ofClass && best !== last.trial && number(last.ms) !== null && number(now.best_ms) !== null;
  const share = slower && now.best_ms > 0 ? last.ms / now.best_ms : null;
  const note = best === null
    ? "There is no best yet: no candidate has a time that counts."
    : best === last.trial ? "The evolving kernel is also the best so far."
      : !ofClass ? `The best so far is in ${className(classOf(best))}, the evolving kernel in `
        + `${className(classOf(last.trial))}.`
      : share !== null && share > 1
        ? `The evolving kernel takes ${digits(100 * (share - 1), 2)}% longer than the best. `
          + (ended ? "Each depth started" : "The next depth starts") + " from the last kernel that passed all the "
          + "same, because a step may pay only together with a later one."
        : share === 1 ? "Both take the same time." : "The best so far is another trial.";
  return [
    h("dl", { class: "evolving-pair" },
      h("div", {}, h("dt", {}, "Evolving kernel (the last that passed)"),
        h("dd", {}, trial(last.trial, choose), " ", h("b", {}, clock(last.ms)), ` from depth ${last.depth}`)),
      h("div", {}, h("dt", {}, "Best so far", classOf(best) && ` in ${className(classOf(best))}`),
        h("dd", {}, trial(best, choose), " ", h("b", {}, best === null ? "" : clock(now.best_ms))))),
    h("p", { class: "faint" }, note),
  ];
}

/** What came of a depth: the time of its kernel, or why it has none. `cls`: the class to name, or "". */
function result(f, cls) {
  if (number(f.ms) === null) return words(f.words);
  const faster = number(f.speedup) === null ? "" : `, ${times(f.speedup)} PyTorch${cls && ` in ${className(cls)}`}`;
  return `${time(f.ms)} ${words(f.kind)}${faster}`;
}

/** The best so far, where a depth starts from a slower kernel of its class. `before`: the depth before it, when it
 *  ended. */
function fasterThan(f, before, choose, classOf) {
  const [start, best] = [number(f.base_ms), number(before?.best_ms)];
  if (start === null || best === null || start <= best || !alike(f.base, before.best, classOf)) return "";
  return h("span", { class: "faint" }, "slower than the best, ", trial(before.best, choose), ` ${time(best)}`);
}

function rows(rungs, choose, changeOf, classOf) {
  const several = new Set(rungs.map((f) => classOf(number(f.trial))).filter(Boolean)).size > 1;
  return rungs.map((f, i) => {
    const trials = list(f.trials).map((n, i) => [i ? ", " : "", trial(n, choose)]);
    const state = STATES[f.state] ?? words(f.state);
    const outcome = [state, result(f, several ? classOf(number(f.trial)) : "")].filter(Boolean).join(": ");
    return h("tr", { class: ["passed", "given", "started"].includes(f.state) ? null : "rejected" },
      cell(String(f.depth), "num"),
      cell([h("b", {}, words(f.item)), h("span", { class: "faint" }, ` ${words(f.what)}`)], "wide"),
      cell(number(f.base) === null ? "nothing" : [
        trial(f.base, choose), " ", clock(f.base_ms), fasterThan(f, rungs[i - 1], choose, classOf),
      ], "from"),
      cell(trials.length ? trials : "–"),
      cell(changeOf(number(f.trial) ?? list(f.trials).at(-1)) || "–", "wide"), cell(outcome, "wide"));
  });
}

/** The profile: when the model sees it, and what was derived from it. */
function profile(shown, work, rungs, choose, ended) {
  const seen = shown.filter((s) => s.topic === "profile_revealed").map((s) => s.facts);
  if (!seen.length) {
    const depth = Math.max(0, ...rungs.map((f) => f.depth));
    if (work.profile === "never") return h("p", {}, "The model never sees a profile: the option `profile` says so.");
    if (number(work.reveal) === null) return h("p", {}, "No depth has a profile.");
    const reached = ended ? `the session ended at depth ${depth}` : `depth ${depth} is reached`;
    return h("p", {}, `The model sees the profile from depth ${work.reveal} on (${work.class}); ${reached}.`);
  }
  const first = seen[0];
  const lines = seen.map((f) => {
    const observed = list(f.observations).map((line) => h("li", {}, words(line)));
    const nothing = f.profile ? "Nothing was derived from it." : "There is no profile.";
    return h("li", {}, `Depth ${f.depth}, `, trial(f.trial, choose), ": ",
      words(f.bottleneck) || `${nothing} ${words(f.words)}`, observed.length ? h("ul", {}, observed) : "");
  });
  const whose = work.class === "other" ? "we chose" : "the study chose";
  const why = work.profile === "always"
    ? "The option `profile` asks for it from the start."
    : `This is the depth that ${whose} for the class ${work.class}.`;
  return [
    h("p", {}, h("b", {}, `Revealed at depth ${first.depth}`), `, before that depth's kernel was written. ${why}`),
    h("ul", { class: "evolving-profile" }, lines),
  ];
}

/** Counters, and each failure with what followed. */
function debugging(shown, work, rungs, choose) {
  const last = rungs.at(-1) ?? {};
  const failures = shown.filter((s) => s.topic === "debug").map((s) => s.facts);
  const fixes = Math.max(number(last.fixes) ?? 0, failures.filter((f) => f.then === "fix").length);
  const anew = Math.max(number(last.regenerations) ?? 0, failures.filter((f) => f.then === "regenerate").length);
  const limits = `A candidate has up to ${work.fixes} fixes; `
    + `then its step is written anew, up to ${work.regenerations} times.`;
  const counters = h("p", {}, h("b", { class: "fixes" }, `Fixes: ${fixes}. Regenerations: ${anew}. `), limits);
  if (!failures.length) {
    const unknown = last.state === "stopped" && list(last.trials).length > 0;
    const why = !rungs.some((f) => list(f.trials).length) ? "No candidate was tried so far."
      : unknown ? "No candidate was mended: the session ended at one that did not pass."
        : "No candidate failed, so nothing was mended.";
    return [counters, h("p", { class: "faint" }, why)];
  }
  const listed = failures.slice(-MOST).map((f) => h("tr", {},
    cell(String(f.depth), "num"), cell(trial(f.trial, choose)), cell(words(f.step)), cell(words(f.words), "wide"),
    cell(f.then === "fix" ? `fix ${f.fix} of ${work.fixes}` : THEN[f.then] ?? words(f.then))));
  return [counters, table(["Depth", "Candidate", "Failed at", "Why", "Then"], listed)];
}

const HOW = [
  "From the study: one kernel that evolves, the fixes and regenerations, one optimisation a step by workload class, ",
  "the depths at which the profile is shown, and that each depth starts from the last kernel that passed. ",
  "Ours: the rule that finds the class, the items of the menu and their order, every prompt, the notes on a profile, ",
  "and that a step whose attempts all fail is left out.",
];

const FORMS = {
  kernel: "a CuTe kernel: raw code, by default Python with CuTe DSL (the study's kernels are CUDA C++ over CuTe).",
  program: "a program of μCUTLASS, which our back ends turn into a CuTe kernel. The study writes the kernel itself, as "
    + "the form kernel does here on a GPU.",
};
const REHEARSED = "Rules play the model here. They draw each candidate from the planner's one pool, as for every "
  + "strategy, so the edit that a depth got can differ from the optimisation that it asked for.";

/** `shown`: [{topic, facts}] so far, in order; `choose(n)` selects a trial; `about`: as in index.js. */
export function draw(shown, choose, ended, { rehearsed = false, changeOf = () => "", classOf = () => "" } = {}) {
  const work = shown.find((s) => s.topic === "workload")?.facts;
  if (!work) {
    return h("p", { class: "evolving-empty" }, ended
      ? "The session ended before it had found the class of its workload."
      : "The session has not found the class of its workload yet.");
  }
  const rungs = ladder(shown);
  return h("section", { class: "evolving", "aria-label": "The evolving kernel" },
    h("h3", {}, "The evolving kernel"),
    h("p", {}, "Form: what evolves is ", FORMS[work.form] ?? words(work.form)),
    h("p", {}, "Workload class: ", h("b", { class: "workload" }, words(work.class)), ` – ${words(work.why)}`),
    standing(rungs, choose, ended, classOf),
    h("h4", {}, `Depths (${Math.max(0, ...rungs.map((f) => f.depth))} of ${work.depths})`),
    rehearsed ? h("p", { class: "faint" }, REHEARSED) : "",
    table(["Depth", "Optimisation asked for", "Starts from", "Trials", "What the candidate says it is", "Outcome"],
      rows(rungs, choose, changeOf, classOf)),
    h("h4", {}, "Profile"), profile(shown, work, rungs, choose, ended),
    h("h4", {}, "Debugging"), debugging(shown, work, rungs, choose),
    h("p", { class: "faint" }, h("a", { href: STUDY, rel: "noreferrer" }, "CuTeGen (arXiv 2604.01489)"), ". ", HOW));
}
