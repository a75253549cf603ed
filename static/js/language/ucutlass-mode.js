// Colours for μCUTLASS text. Only a tokenizer, with the language's own words (dsl/editor/vocabulary.py, in boot):
// dsl/check/program.py finds the mistakes, through /api/check.
import { StreamLanguage } from "../../vendor/codemirror-6.0.2/codemirror.js";
import { boot } from "../page.js";

/** {kind: set of words}: keywords, stages, clauses, functions, types, values, axes. */
export const words = Object.fromEntries(
  Object.entries(boot.words ?? {}).map(([kind, list]) => [kind, new Set(list)]),
);
const is = (kind, word) => words[kind]?.has(word) ?? false;
const PARTS = new Set(["let", "also"]); // clauses that name something

/** The colour of a word, by its position: a call before a clause, for `abs(` and the like. */
function colour(word, called) {
  if (word === "acc" || word === "acc2") return "variableName.special";
  if (called && (is("stages", word) || is("functions", word))) return "variableName.function";
  if (PARTS.has(word) || word === "program" || word === "return") return "keyword";
  if (is("clauses", word) || is("keywords", word)) return word === "auto" ? "atom" : "propertyName";
  if (is("types", word)) return "typeName";
  if (is("values", word)) return "atom";
  return "variableName";
}

export const ucutlass = StreamLanguage.define({
  name: "ucutlass",
  startState: () => ({ depth: 0 }),
  token(stream, state) {
    if (stream.eatSpace()) return null;
    if (stream.match(/^#.*/)) return "comment";
    if (stream.match(/^\d+(?:x\d+)+\b/)) return "number";
    if (stream.match(/^\d+(?:\.\d+)?(?:e[+-]?\d+)?/i)) return "number";
    const word = stream.match(/^[A-Za-z_]\w*/);
    if (word) return colour(word[0], stream.peek() === "(");
    if (stream.match(/^(?:->|[-+*/=])/)) return "operator";
    const sign = stream.next();
    if ("([{".includes(sign)) state.depth += 1;
    else if (")]}".includes(sign)) state.depth = Math.max(0, state.depth - 1);
    return "punctuation";
  },
  indent: (state, after, context) => Math.max(0, state.depth - (/^\s*[)\]}]/.test(after) ? 1 : 0)) * context.unit,
  // Braces are not closed automatically: blocks span lines, and the brace typed at their end would be one too many.
  languageData: {
    commentTokens: { line: "#" },
    indentOnInput: /^\s*[)\]}]$/,
    closeBrackets: { brackets: ["(", "["] },
  },
});
