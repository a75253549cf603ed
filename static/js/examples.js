// Texts to begin with: a few as buttons, every one in a list. Sixty buttons would be sixty stops of the Tab key.
import { h } from "./page.js";

/** What a button says: the title without where it is from, cut at a word. */
export function short(title, most = 44) {
  const bare = title.replace(/\s*\(suite59 [^)]*\)$/, "");
  return bare.length <= most ? bare : `${bare.slice(0, bare.lastIndexOf(" ", most))}…`;
}

/** Fills `box` with `examples` (of one kind); `current` is the text in the editor, `choose(text)` takes one. */
export function drawExamples(box, examples, current, choose) {
  if (!examples.length) { box.replaceChildren(); return; }
  const now = examples.findIndex((e) => e.text === current);
  const list = h("select", { "aria-label": "All examples", onchange: () => { if (list.value) choose(examples[Number(list.value)].text); } },
    h("option", { value: "" }, `all ${examples.length}…`),
    examples.map((e, i) => h("option", { value: i }, e.title)));
  list.value = now < 0 ? "" : String(now);
  box.replaceChildren(list, ...examples.filter((e) => e.featured).map((e) =>
    h("button", { type: "button", title: e.title, "aria-pressed": String(e.text === current), onclick: () => choose(e.text) }, short(e.title))));
}
