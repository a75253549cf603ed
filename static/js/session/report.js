// What the compiler, the judge and the clock said of a trial, in lines.
import { h } from "../page.js";
import { BOUND, bytes, deviceName, duration, error, time } from "../format.js";
import { standing } from "./words.js";

const MODELS = { t_attainable: "a model of tiles, waves and memory" };
const HOW = {
  "machine code": "Compiled to machine code",
  "host check": "Checked on the host, not compiled for the GPU",
  "not compiled": "Not compiled here",
};

const line = (head, ...rest) => h("p", {}, h("b", {}, head), ...rest);
const dotted = (...parts) => parts.filter(Boolean).map((p) => ` · ${p}`).join("");

function compiled(c) {
  const head = HOW[c.how] ?? c.how;
  const lines = [line(head, dotted(c.backend, duration(c.seconds), c.cached ? "from the cache" : "", c.note))];
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

/** Where the error is the largest of several: on which family of inputs (engine/words.py says the same). */
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

function failed(f) {
  const log = { href: `/api/blobs/${f.detail}`, target: "_blank", rel: "noopener" };
  return [line("Failed", dotted(f.reason)), f.detail ? h("p", {}, h("a", log, "The whole log")) : null];
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

function evidence(judged) {
  if (!judged.evidence.length) return [];
  const items = judged.evidence.map((c) => h("li", { "data-verdict": c.verdict },
    h("b", {}, c.name), ` ${c.verdict === "passed" ? "" : `(${c.verdict}) `}· ${c.said}`));
  return [line(`Verdict: ${judged.verdict}`, " · what was looked at:"), h("ul", { class: "evidence" }, items)];
}

/** How a trial was built, verified, timed and judged: nodes, one a line. */
export function report(one) {
  return [
    one.compiled ? compiled(one.compiled) : null,
    one.validated ? validated(one.validated) : null,
    one.failed ? failed(one.failed) : null,
    one.measured ? measured(one.measured) : null,
    one.judged ? [h("p", {}, standing(one)), evidence(one.judged)] : null,
  ].flat(Infinity).filter(Boolean);
}
