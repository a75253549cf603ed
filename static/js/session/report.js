// The results of the compiler, the judge and the timing of a trial, in lines.
import { blobUrl, h } from "../page.js";
import { BOUND, baselineName, bytes, className, deviceName, duration, error, percent, time, times } from "../format.js";
import { logged, tr } from "../texts.js";
import { counts } from "./view.js";
import { builtBy, classWords, isKernel, launchBinds, untimedWords } from "./words.js";

const MODELS = { t_attainable: "a model of tiles, waves and memory" };
const HOW = {
  "machine code": "Compiled to machine code",
  "host check": "Checked on the host, not compiled for the GPU",
  "not compiled": "Not compiled here",
  loaded: "Loaded in the sandbox",
};
const BACKENDS = { python: "Python" };

const line = (head, ...rest) => h("p", {}, h("b", {}, head), ...rest);
const dotted = (...parts) => parts.filter(Boolean).map((p) => ` · ${p}`).join("");

function compiled(c) {
  const head = tr(HOW[c.how] ?? c.how);
  const built = [BACKENDS[c.backend] ?? c.backend, duration(c.seconds), c.cached ? tr("from the cache") : "", c.note];
  const lines = [line(head, dotted(...built))];
  for (const r of c.resources ?? []) {
    const parts = [
      r.registers != null ? tr("{n} registers", { n: r.registers }) : "",
      r.shared_bytes != null ? tr("{size} shared", { size: bytes(r.shared_bytes) }) : "",
      r.spill_bytes ? tr("{size} spilled", { size: bytes(r.spill_bytes) }) : r.spill_bytes === 0 ? tr("no spills") : "",
    ].filter(Boolean);
    if (parts.length) lines.push(h("p", {}, `${r.stage ?? r.kernel ?? "kernel"}: ${parts.join(" · ")}`));
  }
  return lines;
}

/** The family of inputs with the largest error, if there are several (as in engine/progress.py). */
function worst(checks) {
  const most = checks.reduce((a, c) => (a && a.error >= c.error ? a : c), null);
  if (checks.length < 2 || !most.error) return "";
  if (most.family === "own") return tr("on the module’s own inputs, the most of {n} rounds", { n: checks.length });
  const family = most.family.replaceAll("_", "-");
  return tr("on {family} inputs, the most of {n} rounds", { family, n: checks.length });
}

function validated(v) {
  const checks = v.checks ?? [];
  const allowed = `${tr("allowed {error}", { error: error(v.tolerance) })}${v.bound ? `, ${v.bound}` : ""}`;
  const most = `${tr("relative error {error}", { error: error(v.error) })} ${worst(checks)}`.trim();
  return line(tr("Verified"), dotted(`${most} (${allowed})`, tr("{n} checks", { n: checks.length }), v.scope));
}

/** A line of the text, as a button that shows it. */
const place = (n, goto) =>
  n ? h("button", { type: "button", class: "place", onclick: () => goto(n) }, tr("line {n}", { n })) : null;

/** The places in the text that a compiler or the sandbox names, each once. */
function places(diagnostics, goto) {
  if (diagnostics.length < 2) return null;
  return h("ul", { class: "evidence" }, diagnostics.slice(0, 12).map((d) =>
    h("li", {}, place(d.line, goto), " ", logged(d.message))));
}

const verdictIs = (verdict) => tr("Verdict: {verdict}", { verdict: tr(verdict) });

function failed(one, goto) {
  const f = one.failed, example = f.code === "no_entry";
  const log = { href: blobUrl(f.detail), target: "_blank", rel: "noopener" };
  const words = example ? tr("A {language} kernel that would be accepted", { language: builtBy(one) })
    : tr("The whole log");
  const only = isKernel(one) && f.diagnostics.length === 1 ? place(f.diagnostics[0].line, goto) : null;
  return [
    h("p", {}, h("b", {}, tr("Failed")), logged(dotted(f.reason)), only ? " " : "", only),
    isKernel(one) ? places(f.diagnostics, goto) : null,
    f.detail ? h("p", {}, h("a", log, words)) : null,
    isKernel(one) && f.evidence.length ? evidence(tr("Evidence"), f.evidence, goto) : null,
  ];
}

function untimed(one, goto) {
  const { text, verdict, evidence: seen } = one.untimed;
  return [
    line(tr("Not timed"), dotted(untimedWords(one.untimed)), logged(dotted(text))),
    evidence(verdictIs(verdict), seen, goto),
  ];
}

function measured({ time: t }) {
  if (t.kind === "measured") {
    const span = tr("{time} (95%: {low} to {high})", { time: time(t.ms), low: time(t.low), high: time(t.high) });
    return line(tr("Measured"), dotted(span, t.method, t.device?.name));
  }
  const values = { time: time(t.ms), device: deviceName(t.device), model: tr(MODELS[t.model] ?? t.model) };
  const model = [tr("{time} for {device} by {model}", values)];
  if (t.bound_by) model.push(tr("bound by {unit}", { unit: tr(BOUND[t.bound_by] ?? t.bound_by) }));
  const off = t.error != null ? tr("the model is typically {share} off", { share: percent(t.error) }) : "";
  return line(tr("Predicted"), dotted(model.join(", "), off));
}

/** The evidence, under a heading; its lines of the text can be shown. */
function evidence(head, seen, goto) {
  if (!seen.length) return [];
  const items = seen.map((c) => h("li", { "data-verdict": c.verdict },
    h("b", {}, c.name), c.verdict === "passed" ? "" : ` (${tr(c.verdict)})`, " · ",
    logged(c.said), " ", place(c.line, goto)));
  return [line(head, ` · ${tr("the evidence:")}`), h("ul", { class: "evidence" }, items)];
}

const faster = (ratio, name) => (ratio >= 1 ? tr("{ratio} faster than {name}", { ratio: times(ratio), name })
  : tr("{ratio} slower than {name}", { ratio: times(1 / ratio), name }));

/** A time beside its limit; that of a guarded program is of the class of its products. */
function timesLimit({ judged: j, cls, roof }) {
  if (launchBinds(j)) return tr("bound by launches");
  const gap = j.gap.toFixed(2);
  if (!roof || roof === cls) return tr("{gap} times the limit", { gap });
  return tr("{gap} times the limit of {roof} ({cls})", { gap, roof: className(roof), cls: classWords({ cls, roof }) });
}

/** A judged trial's time compared with PyTorch, the limit and the previous best, and what it omits. */
export function standing(one) {
  const j = one.judged;
  const part = one.measured?.part ?? {};
  const values = { time: time(j.ms), kind: tr(j.kind) };
  const head = part.region ? tr("{time} {kind} for the whole module", values) : tr("{time} {kind}", values);
  if (!counts(j)) {
    const flaw = j.evidence.find((c) => c.verdict === j.verdict)?.said;
    return flaw ? tr("{time}, which is not counted: {flaw}.", { time: head, flaw })
      : tr("{time}, which is not counted.", { time: head });
  }
  const beside = j.speedup === null ? [] : [faster(j.speedup, baselineName(j.baseline))];
  if (j.speedup !== null && j.gap !== null) beside.push(timesLimit(one));
  const parts = [[head, ...beside].join(", ")];
  if (part.region && part.region_eager_ms) {
    const theirs = tr("PyTorch’s own {time} for it", { time: time(part.region_eager_ms) });
    const alone = tr("region {n} alone {time}", { n: part.region, time: time(part.region_ms) });
    parts.push(`${alone}, ${faster(part.region_eager_ms / part.region_ms, theirs)}`);
  }
  if (part.graph) parts.push(tr("all of it as one CUDA graph"));
  if (part.rest) parts.push(tr("what stays PyTorch compiled by Inductor"));
  if (j.best) parts.push(tr("the best in {cls} so far", { cls: className(j.cls) }));
  if (j.algebraic) {
    const what = { what: j.algebraic };
    parts.push(j.standing === "algebraic" ? tr("algebraic ({what}): no best unless it is allowed", what)
      : tr("algebraic ({what})", what));
  }
  return `${parts.join("; ")}.`;
}

/** How a trial was built, verified, timed and judged: nodes, one a line. `goto(line)` shows a line of its text. */
export function report(one, goto) {
  return [
    one.compiled ? compiled(one.compiled) : null,
    one.validated ? validated(one.validated) : null,
    one.untimed ? untimed(one, goto) : null,
    one.failed ? failed(one, goto) : null,
    one.measured ? measured(one.measured) : null,
    one.judged
      ? [h("p", {}, standing(one)), evidence(verdictIs(one.judged.verdict), one.judged.evidence, goto)]
      : null,
  ].flat(Infinity).filter(Boolean);
}
