// The strategy and its options, drawn from the server's list of strategies.
import { h } from "../page.js";

/**
 * `list`: [{name, title, about, options: [{name, about, default, kind, choices, low, high}]}]; `state`: the draft, with
 * `strategy` and `strategyOptions` (strategy -> option -> value); `store()` saves it.
 */
export function drawStrategies(choices, options, list, state, store) {
  if (!list.some((s) => s.name === state.strategy)) state.strategy = list[0]?.name;
  choices.replaceChildren(...list.map((s) => h("label", { class: "choice" },
    h("input", {
      type: "radio", name: "strategy", value: s.name, checked: s.name === state.strategy,
      onchange: () => { state.strategy = s.name; drawOptions(options, s, state, store); store(); },
    }),
    h("span", { class: "choice-name" }, s.title),
    h("span", { class: "choice-what" }, s.about))));
  drawOptions(options, list.find((s) => s.name === state.strategy), state, store);
}

function drawOptions(node, strategy, state, store) {
  const values = valuesOf(state, strategy?.name);
  node.hidden = !strategy?.options.length;
  node.replaceChildren(...(strategy?.options ?? []).map((o) => {
    const set = (value) => {
      if (value === null || value === o.default) delete values[o.name]; else values[o.name] = value;
      state.strategyOptions = { ...state.strategyOptions, [strategy.name]: values };
      store();
    };
    const title = o.name[0].toUpperCase() + o.name.slice(1);
    return h("label", { title: o.about }, title, field(o, values[o.name] ?? o.default, set));
  }));
}

function field(option, value, set) {
  const name = `option-${option.name}`;
  if (option.kind === "choice") {
    return h("select", { id: name, onchange: (e) => set(e.target.value) },
      option.choices.map((c) => h("option", { value: c, selected: c === value }, c)));
  }
  if (option.kind === "number") {
    return h("input", {
      id: name, type: "number", inputmode: "numeric", step: "1", value: String(value),
      min: option.low, max: option.high,
      oninput: (e) => set(e.target.value.trim() === "" ? null : Number(e.target.value)),
    });
  }
  return h("input", {
    id: name, type: "text", value, maxlength: 64, spellcheck: "false", oninput: (e) => set(e.target.value.trim()),
  });
}

const valuesOf = (state, name) => ({ ...(state.strategyOptions?.[name] ?? {}) });

/** The options of the chosen strategy, for a request. */
export const chosenOptions = (state) => valuesOf(state, state.strategy);
