// The results of the compiler, the judge and the timing of a trial, in lines.
import { blobUrl, h } from "../page.js";
import { BOUND, bytes, deviceName, duration, error, time } from "../format.js";
import { builtBy, isKernel, standing, untimedWords } from "./words.js";

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
  const head = HOW[c.how] ?? c.how;
  const built = [BACKENDS[c.backend] ?? c.backend, duration(c.seconds), c.cached ? "from the cache" : "", c.note];
  const lines = [line(head, dotted(...built))];
  for (const r of c.resources ?? []) {
    const parts = [
      r.registers != null ? `${r.registers} registers` : "",
      r.shared_bytes != null ? `${bytes(r.shared_bytes)} shared` : "",
      r.spill_bytes != null ? (r.spill_bytes ? `${bytes(r.spill_bytes)} spilled` : "no spills") : "",
    ].filter(Boolean);
    if (parts.length) lines.push(h("p", {}, `${r.stage ?? r.kernel ?? "kernel"}: ${parts.join(" · ")}`));
  }
  return lines;
}

/** The family of inputs with the largest error, if there are several (as in engine/progress.py). */
function worst(checks) {
  const most = checks.reduce((a, c) => (a && a.error >= c.error ? a : c), null);
  if (checks.length < 2 || !most.error) return "";
  const family = most.family === "own" ? "the module’s own" : most.family.replaceAll("_", "-");
  return ` on ${family} inputs, the most of ${checks.length} rounds`;
}

function validated(v) {
  const checks = v.checks ?? [];
  const allowed = `allowed ${error(v.tolerance)}${v.bound ? `, ${v.bound}` : ""}`;
  const most = `relative error ${error(v.error)}${worst(checks)} (${allowed})`;
  return line("Verified", dotted(most, `${checks.length} checks`, v.scope));
}

/** A line of the text, as a button that shows it. */
const place = (n, goto) =>
  n ? h("button", { type: "button", class: "place", onclick: () => goto(n) }, `line ${n}`) : null;

/** The places in the text that a compiler or the sandbox names, each once. */
function places(diagnostics, goto) {
  if (diagnostics.length < 2) return null;
  return h("ul", { class: "evidence" }, diagnostics.slice(0, 12).map((d) =>
    h("li", {}, place(d.line, goto), ` ${d.message}`)));
}

function failed(one, goto) {
  const f = one.failed, example = f.code === "no_entry";
  const log = { href: blobUrl(f.detail), target: "_blank", rel: "noopener" };
  const words = example ? `A ${builtBy(one)} kernel that would be accepted` : "The whole log";
  const only = isKernel(one) && f.diagnostics.length === 1 ? place(f.diagnostics[0].line, goto) : null;
  return [
    h("p", {}, h("b", {}, "Failed"), dotted(f.reason), only ? " " : "", only),
    isKernel(one) ? places(f.diagnostics, goto) : null,
    f.detail ? h("p", {}, h("a", log, words)) : null,
    isKernel(one) && f.evidence.length ? evidence("Evidence", f.evidence, goto) : null,
  ];
}

function untimed(one, goto) {
  const { text, verdict, evidence: seen } = one.untimed;
  return [
    line("Not timed", dotted(untimedWords(one.untimed), text)),
    evidence(`Verdict: ${verdict}`, seen, goto),
  ];
}

function measured({ time: t }) {
  if (t.kind === "measured") {
    const span = `${time(t.ms)} (95%: ${time(t.low)} to ${time(t.high)})`;
    return line("Measured", dotted(span, t.method, t.device?.name));
  }
  const model = `${time(t.ms)} for ${deviceName(t.device)} by ${MODELS[t.model] ?? t.model}`;
  const bound = t.bound_by ? `, bound by ${BOUND[t.bound_by] ?? t.bound_by}` : "";
  const off = t.error != null ? `the model is typically ${Math.round(t.error * 100)}% off` : "";
  return line("Predicted", dotted(model + bound, off));
}

/** The evidence, under a heading; its lines of the text can be shown. */
function evidence(head, seen, goto) {
  if (!seen.length) return [];
  const items = seen.map((c) => h("li", { "data-verdict": c.verdict },
    h("b", {}, c.name), ` ${c.verdict === "passed" ? "" : `(${c.verdict}) `}· ${c.said} `, place(c.line, goto)));
  return [line(head, " · the evidence:"), h("ul", { class: "evidence" }, items)];
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
      ? [h("p", {}, standing(one)), evidence(`Verdict: ${one.judged.verdict}`, one.judged.evidence, goto)]
      : null,
  ].flat(Infinity).filter(Boolean);
}
