// Colours for μCUTLASS text. A tokenizer only: what is right and wrong is dsl/check.py's word, through /api/check.
import { StreamLanguage } from "../vendor/codemirror-6.0.2/codemirror.js";

const KEYWORDS = new Set(["program", "return", "let", "also"]);
const CLAUSES = new Set([
  "arch", "compute", "accumulate", "tile", "cluster", "schedule", "scheduler", "stages", "epilogue", "store", "backend",
  "to", "layout", "prepack", "raster", "swizzle", "align", "epilogue_tile", "stride", "padding",
]);
const ATOMS = new Set([
  "auto", "cooperative", "pingpong", "persistent", "stream_k", "split_k", "sm_90a", "sm_80", "sm_89", "sm_100a", "cute", "cpp",
]);
const TYPES = /^(?:f64|f32|tf32|f16|bf16|e4m3|e5m2|fp8|i8|int8|i32|bool)\b/;

export const ucutlass = StreamLanguage.define({
  name: "ucutlass",
  startState: () => ({}),
  token(stream) {
    if (stream.eatSpace()) return null;
    if (stream.match(/^#.*/)) return "comment";
    if (stream.match(/^\d+(?:x\d+)+\b/)) return "number";
    if (stream.match(/^\d+(?:\.\d+)?(?:e[+-]?\d+)?/i)) return "number";
    if (stream.match(TYPES)) return "typeName";
    const word = stream.match(/^[A-Za-z_]\w*/);
    if (word) {
      if (KEYWORDS.has(word[0])) return "keyword";
      if (word[0] === "acc") return "variableName.special";
      if (stream.peek() === "(" && word[0] !== "split_k") return "variableName.function";
      if (CLAUSES.has(word[0])) return "propertyName";
      if (ATOMS.has(word[0])) return "atom";
      return "variableName";
    }
    if (stream.match(/^(?:->|[-+*/=])/)) return "operator";
    stream.next();
    return "punctuation";
  },
  languageData: { commentTokens: { line: "#" } },
});
