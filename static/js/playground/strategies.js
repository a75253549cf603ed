// The strategy and its options, drawn from the server's list of strategies.
import { boot, h } from "../page.js";

/**
 * `list`: [{name, title, about, asks, options: [{name, about, default, kind, choices, low, high, longest}]}]; `state`:
 * the draft, with `strategy` and `strategyOptions` (strategy -> option -> value); `store()` saves it; `models`: the
 * running engines' [{model, host} | {missing}]. Returns a function that draws the options anew, for another device.
 */
export function drawStrategies(choices, options, list, state, store, models = []) {
  if (!list.some((s) => s.name === state.strategy)) state.strategy = list[0]?.name;
  choices.replaceChildren(...list.map((s) => h("label", { class: "choice" },
    h("input", {
      type: "radio", name: "strategy", value: s.name, checked: s.name === state.strategy,
      onchange: () => { state.strategy = s.name; drawOptions(options, s, state, store, models); store(); },
    }),
    h("span", { class: "choice-name" }, s.title),
    h("span", { class: "choice-what" }, s.about))));
  const again = () => drawOptions(options, list.find((s) => s.name === state.strategy), state, store, models);
  again();
  return again;
}

const FORMS = { program: "programs", kernel: "raw kernels" };

/** What the chosen form means on the chosen device, or "": a modelled device gives a raw kernel no time. The server
 *  says what a form means (boot.forms). */
export function formNote(form, device) {
  const { measured = {}, predicted = {} } = boot.forms ?? {};
  const isModelled = String(device ?? "").startsWith("modelled");
  if (isModelled && predicted[form] === "kernel") {
    return "This device is modelled: a raw kernel gets no time on it, and CUDA does not run at all. " +
      "Choose the form program, or a GPU.";
  }
  if (measured[form] === predicted[form]) return ""; // the form says it
  const [here, there] = [FORMS[measured[form]], FORMS[predicted[form]]];
  if (!isModelled) return `The form ${form} is ${here} on a GPU, and ${there} on a modelled device.`;
  return `This device is modelled, so the form ${form} is ${there} here. On a GPU it is ${here}.`;
}

const LINE = 500; // characters; a text that may be longer has a field of several lines

/** The endpoints that the operator lists for visitors with an own key. */
const listed = () => boot.endpoints ?? [];
const hostOf = (address) => address.replace(/^https:\/\//, "").replace(/\/.*$/, "");

/** The visitor's own endpoint and model, for a request: {} for the operator's. */
export function ownEndpoint(state, list) {
  const asks = list.find((s) => s.name === state.strategy)?.asks;
  if (!asks || !listed().includes(state.endpoint)) return {};
  return { endpoint: state.endpoint, model: (state.model ?? "").trim() };
}

/** Fields for an endpoint of the visitor's own, where the operator lists any. `redraw()` renews the consent line. */
function ownFields(state, store, redraw) {
  if (!listed().length) return [];
  const set = (change) => { Object.assign(state, change); store(); redraw(); };
  const choices = [["", "This server's"], ...listed().map((address) => [address, `${hostOf(address)}, my key`])];
  const own = listed().includes(state.endpoint);
  return [
    h("label", { title: "Whose model the strategy asks" }, "Endpoint",
      h("select", { id: "endpoint", onchange: (e) => set({ endpoint: e.target.value }) },
        choices.map(([value, name]) => h("option", { value, selected: value === (own ? state.endpoint : "") }, name)))),
    own ? h("label", { title: "The model's name at that endpoint" }, "Model",
      h("input", {
        id: "model", type: "text", value: state.model ?? "", maxlength: 200, spellcheck: "false", autocomplete: "off",
        onchange: (e) => set({ model: e.target.value.trim() }),
      })) : "",
  ];
}

const REHEARSED = " Without a model, `python -m engine rehearse` plays one by rule.";

/** Why a strategy that asks a model would have none to ask, or null. `models`: of the running engines; without one of
 *  them nobody knows, and the session waits for an engine. */
export function noModel(models, state) {
  if (listed().includes(state.endpoint) || models.some((m) => m?.model)) return null;
  const missing = models.find((m) => m?.missing)?.missing;
  return missing ? missing + REHEARSED : null;
}

/** What is sent where, or why no model can be asked. */
function consent(models, state) {
  if (listed().includes(state.endpoint)) {
    return h("p", { class: "consent" }, "Your text, its speed-of-light report and the results of its trials go to ",
      h("b", {}, hostOf(state.endpoint)), " for the model ", h("b", {}, state.model || "that you name"),
      ", with your key. You type the key on the session's page. It is sealed for the engine, used for that session " +
      "alone and not stored.");
  }
  const ready = models.find((m) => m?.model);
  if (ready) {
    return h("p", { class: "consent" }, "Your text, its speed-of-light report and the results of its trials go to ",
      h("b", {}, ready.host), " for the model ", h("b", {}, ready.model), ". Nothing else is sent.");
  }
  return h("p", { class: "consent missing" },
    noModel(models, state) ?? "No engine is running, so it is not known whether it has a model.");
}

function drawOptions(node, strategy, state, store, models) {
  const values = valuesOf(state, strategy?.name);
  node.hidden = !strategy?.options.length && !strategy?.asks;
  const redraw = () => drawOptions(node, strategy, state, store, models);
  const form = strategy?.options.find((o) => o.name === "form");
  const note = form ? h("p", { class: "form-note", role: "status" }) : "";
  const tell = () => {
    if (!form) return;
    note.textContent = formNote(values.form ?? form.default, state.device);
    note.hidden = !note.textContent;
    note.classList.toggle("missing", (values.form ?? form.default) === "kernel");
  };
  tell();
  const asking = strategy?.asks ? [consent(models, state), ...ownFields(state, store, redraw)] : [];
  node.replaceChildren(...asking, note, ...(strategy?.options ?? []).map((o) => {
    const set = (value) => {
      if (value === null || value === o.default) delete values[o.name]; else values[o.name] = value;
      state.strategyOptions = { ...state.strategyOptions, [strategy.name]: values };
      store();
      tell();
    };
    return h("label", { title: o.about }, titleOf(o), field(o, values[o.name] ?? o.default, set));
  }), strategy?.options.length ? meanings(strategy.options) : "");
}

const titleOf = ({ name }) => name[0].toUpperCase() + name.slice(1).replaceAll("_", " ");

/** What each option means, for those who cannot hover. */
function meanings(options) {
  return h("details", { class: "options-mean" }, h("summary", {}, "What the options mean"),
    h("dl", {}, options.map((o) => [h("dt", {}, titleOf(o)), h("dd", {}, o.about)])));
}

function field(option, value, set) {
  const name = `option-${option.name}`;
  if (option.kind === "choice") {
    return h("select", { id: name, onchange: (e) => set(e.target.value) },
      option.choices.map((c) => h("option", { value: c, selected: c === value }, c)));
  }
  if (option.kind === "flag") {
    return h("input", { id: name, type: "checkbox", checked: Boolean(value), onchange: (e) => set(e.target.checked) });
  }
  if (option.kind === "number") {
    return h("input", {
      id: name, type: "number", inputmode: "numeric", step: "1", value: String(value),
      min: option.low, max: option.high,
      oninput: (e) => set(e.target.value.trim() === "" ? null : Number(e.target.value)),
    });
  }
  const oninput = (e) => set(e.target.value.trim());
  const about = { id: name, maxlength: option.longest, spellcheck: "false", oninput };
  if (option.longest > LINE) return h("textarea", { ...about, rows: 3 }, value);
  return h("input", { ...about, type: "text", value });
}

const valuesOf = (state, name) => ({ ...(state.strategyOptions?.[name] ?? {}) });

/** The options of the chosen strategy, for a request. */
export const chosenOptions = (state) => valuesOf(state, state.strategy);
