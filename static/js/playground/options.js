// The options of a session: device, precisions, budget.
import { $, boot, h } from "../page.js";
import { deviceName } from "../format.js";
import { state, store } from "./draft.js";

export const CLASSES = { f32: "float32", tf32: "TF32", f16: "float16", bf16: "bfloat16", fp8: "FP8" };
/** Each number: its label, its range (of trials, the server may allow fewer) and what to write. */
export const BUDGET = {
  trials: {
    label: "Trials", least: 1, most: 1000, whole: true, unit: "",
    example: "Write the maximum number of trials, for example 12.",
  },
  eps: {
    label: "Stop within", least: 0, most: 10000, whole: false, unit: " %",
    example: "Write a percentage, for example 25; with 0 the search does not end early near the limit.",
  },
  window: {
    label: "or after", least: 1, most: 1000, whole: true, unit: "",
    example: "Write a number of trials without gain, for example 6.",
  },
};

function engineChoice(engine) {
  const d = engine.device ?? {};
  const measured = (d.kind ?? (engine.serves === "cuda" ? "measured" : "predicted")) === "measured";
  return {
    value: engine.serves,
    kind: measured ? "measured" : "predicted",
    name: d.title ?? d.gpu ?? deviceName(measured ? d.name : engine.serves),
    what: measured ? "Timed on the GPU of this server." : "No GPU here: times are marked predictions of a model.",
  };
}

const PREDICTED = {
  value: "modelled:h200", kind: "predicted", name: "H200", what: "Predicted by a model; runs no kernel.",
};
const NOBODY = {
  value: "auto", kind: null, name: "Any engine",
  what: "No engine is running now; a session waits for one.",
};

function deviceRow(choice) {
  const onchange = () => { state.device = choice.value; store(); };
  const checked = choice.value === state.device;
  return h("label", { class: "choice" },
    h("input", { type: "radio", name: "device", value: choice.value, checked, onchange }),
    h("span", { class: "choice-name" }, choice.name,
      choice.kind ? h("span", { class: `badge ${choice.kind}` }, choice.kind) : null),
    h("span", { class: "choice-what" }, choice.what));
}

function listDevices() {
  const seen = new Map((boot.engines ?? []).map((engine) => [engine.serves, engineChoice(engine)]));
  if (seen.has("cuda") && !seen.has(PREDICTED.value)) seen.set(PREDICTED.value, PREDICTED);
  if (!seen.size) seen.set(NOBODY.value, NOBODY);
  const first = (choice) => (choice.kind === "measured" ? -1 : 0);
  const choices = [...seen.values()].sort((a, b) => first(a) - first(b));
  if (!seen.has(state.device)) state.device = choices[0].value;
  $("devices").replaceChildren(...choices.map(deviceRow));
  $("queue-note").textContent = boot.queued ? `${boot.queued} waiting before you` : "";
}

function listClasses() {
  const onchange = () => {
    state.classes = [...document.querySelectorAll("#classes input:checked")].map((input) => input.value);
    store();
  };
  const row = ([cls, name]) => {
    const input = h("input", { type: "checkbox", value: cls, checked: state.classes.includes(cls), onchange });
    return h("label", { class: "chip" }, input, name);
  };
  $("classes").replaceChildren(...Object.entries(CLASSES).map(row));
}

/** Fills the form from the draft, and stores changes. */
export function listOptions() {
  for (const name of Object.keys(BUDGET)) {
    $(name).value = state[name] ?? "";
    // An empty field is no number, because 0 would mean something else.
    $(name).addEventListener("input", () => {
      state[name] = $(name).value.trim() === "" ? null : Number($(name).value);
      store();
    });
  }
  if (boot.limits?.trials) $("trials").max = boot.limits.trials;
  $("algebraic").checked = state.algebraic === true;
  $("algebraic").addEventListener("change", () => { state.algebraic = $("algebraic").checked; store(); });
  listDevices();
  listClasses();
}
