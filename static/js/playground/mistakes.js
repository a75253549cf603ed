// What can be told of the form without the server: a text that belongs elsewhere, a number out of range, no model.
import { boot } from "../page.js";
import { className } from "../format.js";
import { BUDGET, CLASSES } from "./options.js";
import { noModel } from "./strategies.js";

const KERNEL = /^\s*(#\s*(include|pragma)\b|__(global|device)__\b|extern\s+"C"|template\s*<|using\s+namespace\b)/;
const PROSE = /^[A-Za-z][\w\s,.;'’×-]*$/; // words and sizes; Python of several words has = ( [ : or a keyword in front
const KEYWORD = /^(import|from|class|def|return|pass|if|for|while|with|raise|del|assert|global|print)\b/;

const words = (text) => PROSE.test(text.trim()) && /\w\s+\w+\s+\w/.test(text) && !KEYWORD.test(text.trim());

/** Where a text belongs that is not of `kind`: [what it is, what to do], or null. */
export function misplaced(kind, text) {
  const first = text.split("\n").find((row) => row.trim() && !/^\s*(#(?!\s*(include|pragma)\b)|\/\/)/.test(row)) ?? "";
  if (kind === "module" && /^\s*program\s+\w+\s*\(/.test(first))
    return ["This is a μCUTLASS program.", "Choose “μCUTLASS program” above and paste it there."];
  if (kind === "program" && /^\s*(import|from)\s+\w|^\s*class\s+\w+.*:\s*$/.test(first))
    return ["This is Python.", "Choose “PyTorch module” above and paste it there."];
  if (KERNEL.test(first))
    return ["This is CUDA C++.",
      "Paste the PyTorch module that it computes here, and the kernel under “Start from a kernel of yours”."];
  if (words(text)) return ["These are words.", "Choose “Words” above and write them there."];
  return null;
}

/** The first mistake among the choices: {message, fix, field}, or null. */
export function badChoice(state) {
  const most = Object.fromEntries(Object.entries(BUDGET).map(([name, row]) => [name, row.most]));
  if (boot.limits?.trials) most.trials = boot.limits.trials;
  for (const [field, { label, example, least, whole, unit }] of Object.entries(BUDGET)) {
    const n = state[field];
    if (!Number.isFinite(n)) return { message: `“${label}” is empty.`, fix: example, field };
    if (n < least || n > most[field] || (whole && !Number.isInteger(n))) {
      const range = `from ${least} to ${most[field]}${unit}`;
      return { message: `“${label}” takes ${whole ? "a whole number" : "a number"} ${range}.`, fix: example, field };
    }
  }
  if (!state.classes.length) {
    const all = Object.keys(CLASSES).map(className).join(", ");
    return { message: "No precision is allowed.", fix: `Tick at least one: ${all}.` };
  }
  const chosen = (boot.strategies ?? []).find((s) => s.name === state.strategy);
  const missing = chosen?.asks ? noModel((boot.engines ?? []).map((e) => e.device?.model), state) : null;
  if (missing) return { message: `“${chosen.title}” asks a model, and there is none.`, fix: missing };
  return null;
}
