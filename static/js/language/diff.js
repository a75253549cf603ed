// Two texts compared, loaded when a diff is asked for.
import { EditorState, EditorView } from "../../vendor/codemirror-6.0.2/codemirror.js";
import { MergeView, unifiedMergeView } from "../../vendor/codemirror-6.0.2/merge.js";
import { common, language } from "./editor.js";

// Removed and added lines differ by a sign before the line as well as by colour.
const clothes = EditorView.theme({
  "&.cm-merge-a .cm-line, &.cm-merge-b .cm-line, .cm-deletedChunk": { paddingLeft: "20px" },
  ".cm-changedLine, .cm-deletedLine": { position: "relative" },
  "&.cm-merge-a .cm-changedLine, .cm-deletedChunk": { backgroundColor: "var(--diff-gone) !important" },
  "&.cm-merge-b .cm-changedLine": { backgroundColor: "var(--diff-line) !important" },
  "&.cm-merge-a .cm-changedText, .cm-deletedText": {
    background: "var(--diff-gone-text) !important", borderRadius: "2px",
  },
  "&.cm-merge-b .cm-changedText": { background: "var(--diff-text) !important", borderRadius: "2px" },
  ".cm-changedLine::before, .cm-deletedLine::before": { position: "absolute", left: "6px", fontWeight: "700" },
  "&.cm-merge-a .cm-changedLine::before": { content: "'−'", color: "var(--bad)" },
  ".cm-deletedLine::before": { content: "'−'", color: "var(--bad)", left: "-14px" },
  "&.cm-merge-b .cm-changedLine::before": { content: "'+'", color: "var(--good)" },
  "&.cm-merge-a .cm-changedLineGutter, .cm-deletedLineGutter": { background: "var(--bad) !important" },
  "&.cm-merge-b .cm-changedLineGutter": { background: "var(--good) !important" },
  ".cm-collapsedLines": { background: "var(--sunken) !important", color: "var(--muted)" },
});

/** Two texts compared in `parent`: side by side if there is room, else one above the other. */
export function makeDiff(parent, { a, b, lang, labelA, labelB }) {
  const fixed = (label) => [common(label), clothes, language(lang), EditorState.readOnly.of(true)];
  const collapseUnchanged = { margin: 4, minSize: 8 };
  if (parent.clientWidth >= 620)
    return new MergeView({
      parent,
      a: { doc: a, extensions: fixed(labelA) },
      b: { doc: b, extensions: fixed(labelB) },
      collapseUnchanged,
    });
  return new EditorView({
    parent,
    state: EditorState.create({
      doc: b,
      extensions: [fixed(labelB), unifiedMergeView({ original: a, mergeControls: false, collapseUnchanged })],
    }),
  });
}
