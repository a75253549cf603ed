// Example texts: a few as buttons, all in a list by topic. Sixty buttons would be sixty stops of the Tab key.
import { h } from "../page.js";

/** [[topic, [[example, its place in `examples`]]]], the largest topic first and what has none last. */
function byTopic(examples) {
  const topics = new Map();
  for (const [i, e] of examples.entries()) topics.set(e.topic, [...(topics.get(e.topic) ?? []), [e, i]]);
  return [...topics].sort(([a, of], [b, others]) => (a === "Others") - (b === "Others") || others.length - of.length);
}

/** Fills `box` with `examples` (of one kind); `current` is the text in the editor. `choose(text, typing)` takes one;
 * `typing`: the reader may go on in the editor. The list keeps the focus, for its arrow keys choose at every press. */
export function drawExamples(box, examples, current, choose) {
  if (!examples.length) {
    box.replaceChildren();
    return;
  }
  const list = h(
    "select",
    {
      "aria-label": "All examples",
      onchange: () => {
        if (list.value) take(examples[Number(list.value)].text, false);
      },
    },
    h("option", { value: "" }, `all ${examples.length}…`),
    byTopic(examples).map(([topic, own]) =>
      h("optgroup", { label: topic }, own.map(([e, i]) => h("option", { value: i, title: e.title }, e.name))),
    ),
  );
  const buttons = examples
    .filter((e) => e.featured)
    .map((e) => [
      e.text,
      h("button", { type: "button", title: e.title, onclick: () => take(e.text, true) }, e.name),
    ]);
  const mark = (text) => {
    const now = examples.findIndex((e) => e.text === text);
    list.value = now < 0 ? "" : String(now);
    for (const [own, button] of buttons) button.setAttribute("aria-pressed", String(own === text));
  };
  const take = (text, typing) => {
    choose(text, typing);
    mark(text);
  };
  mark(current);
  box.replaceChildren(list, ...buttons.map(([, button]) => button));
}
