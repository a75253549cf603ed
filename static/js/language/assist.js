// Help while a program is typed, from the language itself: completion with valid values (/api/complete) and the word
// under the pointer (/api/hover). Places are sent to the server as lines and characters (code points), 1-based.
import { autocompletion, hoverTooltip, startCompletion } from "../../vendor/codemirror-6.0.2/codemirror.js";
import { h, request } from "../page.js";
import { words } from "./ucutlass-mode.js";

const ICONS = {
  stage: "class",
  clause: "property",
  function: "function",
  type: "type",
  value: "constant",
  axis: "enum",
  name: "variable",
  keyword: "keyword",
};
const PATIENCE = 120; // ms without a key press before a request

/** {line, col} of an offset, and back: a column counts characters, an offset counts UTF-16 units. */
export function place(doc, offset) {
  const row = doc.lineAt(offset);
  return { line: row.number, col: [...row.text.slice(0, offset - row.from)].length + 1 };
}
export function offset(doc, line, col) {
  const row = doc.line(Math.min(Math.max(1, line || 1), doc.lines));
  return Math.min(row.to, row.from + [...row.text].slice(0, Math.max(0, (col || 1) - 1)).join("").length);
}

/** Where completion opens by itself, before any letter of a word. */
const opens = (before) =>
  /(?:[([,]|=\s|\.)$/.test(before) || (/(\w+)\s$/.test(before) && valued(/(\w+)\s$/.exec(before)[1]));
const FLAGS = new Set(["prepack", "pairs", "interleave", "keepdim", "reverse", "let", "also"]);
const valued = (word) =>
  (words.clauses?.has(word) && !FLAGS.has(word)) ||
  word === "arch" ||
  word === "launch" ||
  word === "guard" ||
  word === "return";

const pause = (ms) => new Promise((go) => setTimeout(go, ms));

async function complete(context) {
  const word = context.matchBefore(/[A-Za-z0-9_]*/);
  const before = context.state.doc
    .lineAt(context.pos)
    .text.slice(0, context.pos - context.state.doc.lineAt(context.pos).from);
  if (!context.explicit && word.from === word.to && !opens(before)) return null;
  if (!context.explicit) await pause(PATIENCE);
  if (context.aborted) return null;
  const abort = new AbortController();
  context.addEventListener("abort", () => abort.abort());
  const { doc } = context.state;
  let completion;
  try {
    completion = await request("/api/complete", {
      body: { text: doc.toString(), ...place(doc, context.pos) },
      signal: abort.signal,
    });
  } catch {
    return null;
  }
  if (!completion.options.length) return null;
  return {
    from: offset(doc, place(doc, context.pos).line, completion.start),
    options: completion.options.map((o, i) => option(o, i)),
    validFor: completion.options.length < 60 ? /^[A-Za-z0-9_]*$/ : undefined,
  };
}

function option({ label, kind, doc }, i) {
  const call = label.endsWith("(");
  const name = call ? label.slice(0, -1) : label;
  return {
    label: name,
    type: ICONS[kind] ?? "text",
    boost: Math.max(-99, 99 - i),
    info: doc ? () => h("div", { class: "about" }, doc) : undefined,
    apply(view, _, from, to) {
      const open = call && view.state.sliceDoc(to, to + 1) !== "(";
      const wants = kind === "clause" && valued(name);
      const insert = name + (open ? "()" : wants ? " " : "");
      view.dispatch({
        changes: { from, to, insert },
        selection: { anchor: from + name.length + (open || wants ? 1 : 0) },
        userEvent: "input.complete",
      });
      if (wants || open) startCompletion(view);
    },
  };
}

const answers = new WeakMap(); // the last answer of each document, so that the pointer and the caret share a request

/** The word at an offset: {word, kind, use, doc, values, from, to} or null. */
export async function about(doc, at) {
  const where = place(doc, at);
  const key = `${where.line}:${where.col}`;
  const known = answers.get(doc) ?? answers.set(doc, new Map()).get(doc);
  if (!known.has(key)) {
    try {
      const answer = await request("/api/hover", { body: { text: doc.toString(), ...where } });
      known.set(
        key,
        answer && {
          ...answer,
          from: offset(doc, answer.line, answer.col),
          to: offset(doc, answer.end_line, answer.end_col),
        },
      );
    } catch {
      return null;
    }
  }
  return known.get(key);
}

/** The answer as a line of a page: syntax, description, values, and a link to its own page. */
export function describe(entry, short = false) {
  const of = entry.kind !== "name";
  return [
    h("code", { class: "use" }, of && short ? entry.word : entry.use),
    h("span", { class: "doc" }, of ? entry.doc : `, ${entry.doc}`),
    !short && entry.values?.length
      ? h("span", { class: "values" }, entry.values.slice(0, 14).join(" "), entry.values.length > 14 ? " …" : "")
      : null,
    of && entry.word !== "T"
      ? h("a", { href: `/language/${entry.word}`, target: "_blank", rel: "noopener" }, "Reference")
      : null,
  ];
}

const hover = hoverTooltip(
  async (view, pos) => {
    const entry = await about(view.state.doc, pos);
    if (!entry) return null;
    return {
      pos: entry.from,
      end: entry.to,
      above: true,
      create: () => ({ dom: h("div", { class: "about" }, describe(entry)) }),
    };
  },
  { hoverTime: 350 },
);

/** The extensions of an editor of programs, which a view of code lacks. */
export const assistance = () => [
  autocompletion({ override: [complete], icons: true, maxRenderedOptions: 60 }),
  hover,
];
