// Example texts: a few as buttons, all in a list. Sixty buttons would be sixty stops of the Tab key.
import { h } from "../page.js";

/** A button's label: the title without its source, cut at a word. */
export function short(title, most = 44) {
  const bare = title.replace(/\s*\(suite59 [^)]*\)$/, "");
  return bare.length <= most ? bare : `${bare.slice(0, bare.lastIndexOf(" ", most))}…`;
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
    examples.map((e, i) => h("option", { value: i }, e.title)),
  );
  const buttons = examples
    .filter((e) => e.featured)
    .map((e) => [
      e.text,
      h("button", { type: "button", title: e.title, onclick: () => take(e.text, true) }, short(e.title)),
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
