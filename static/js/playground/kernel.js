// A raw kernel as the way in: pasted beside its module, or an example of both. It is the session's first trial.
import { $, boot, h, request, Told } from "../page.js";
import { state, store } from "./draft.js";

const WITH = (boot.examples ?? []).filter((e) => e.kernel);

function put(text) {
  $("kernel").value = state.kernel = text;
  store();
}

/** Fills the field. `take(module)` puts the module of an example into the editor. */
export function kernelFirst(take) {
  $("kernel").value = state.kernel ?? "";
  $("kernel-first").open = Boolean(state.kernel?.trim());
  $("kernel").addEventListener("input", () => put($("kernel").value));
  $("kernel-examples").append(...WITH.map((e) =>
    h("button", { type: "button", title: `${e.title}, with a plain CUDA kernel of it`, onclick: () => {
      take(e.text);
      put(e.kernel);
    } }, e.name)));
}

/** Removes the kernel of an example when another module than its own comes into the editor. */
export function leaveKernel(module) {
  const own = WITH.find((e) => e.kernel === state.kernel);
  if (own && own.text !== module) put("");
}

/** The kernel that a module's session starts from, or null. Raises Told for a text that no engine would take. */
export async function firstKernel() {
  const text = state.kernel ?? "";
  if (state.kind !== "module" || !text.trim()) return null;
  const verdict = await request("/api/tries/check", { body: { text, language: "" } });
  if (verdict.error) throw new Told(`Your kernel: ${verdict.error}`, verdict.fix);
  if (!["cuda", "python"].includes(verdict.looks)) {
    throw new Told("Your kernel: the text is neither CUDA C++ nor Python.", "Paste a kernel, or empty the field.");
  }
  return { program: text, form: "kernel", language: verdict.looks };
}
