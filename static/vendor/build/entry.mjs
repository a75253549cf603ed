// What the pages use of CodeMirror 6, as one ES module. The mode for μCUTLASS is ours: static/js/ucutlass-mode.js.
export { basicSetup, minimalSetup } from "codemirror";
export { Annotation, Compartment, EditorState, Prec, RangeSetBuilder, StateEffect, StateField } from "@codemirror/state";
export { Decoration, EditorView, hoverTooltip, keymap, lineNumbers, placeholder, showPanel } from "@codemirror/view";
export { acceptCompletion, autocompletion, completionStatus, startCompletion } from "@codemirror/autocomplete";
export { indentWithTab } from "@codemirror/commands";
export { HighlightStyle, LanguageSupport, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
export { diagnosticCount, forEachDiagnostic, lintGutter, nextDiagnostic, previousDiagnostic, setDiagnostics, setDiagnosticsEffect } from "@codemirror/lint";
export { python } from "@codemirror/lang-python";
export { cpp } from "@codemirror/lang-cpp";
export { MergeView, unifiedMergeView } from "@codemirror/merge";
export { tags } from "@lezer/highlight";
