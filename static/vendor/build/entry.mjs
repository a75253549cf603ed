// What the pages use of CodeMirror 6, as one ES module. The mode for μCUTLASS is ours: static/js/ucutlass-mode.js.
export { basicSetup, minimalSetup } from "codemirror";
export { Annotation, Compartment, EditorState, Prec, RangeSetBuilder, StateEffect, StateField } from "@codemirror/state";
export { Decoration, EditorView, hoverTooltip, keymap, lineNumbers, placeholder, showPanel, ViewPlugin } from "@codemirror/view";
export { acceptCompletion, autocompletion, completionStatus, startCompletion } from "@codemirror/autocomplete";
export { indentWithTab } from "@codemirror/commands";
export { HighlightStyle, LanguageSupport, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
export { diagnosticCount, forEachDiagnostic, lintGutter, nextDiagnostic, previousDiagnostic, setDiagnostics, setDiagnosticsEffect } from "@codemirror/lint";
export { python } from "@codemirror/lang-python";
// and what cpp.mjs and merge.mjs are made with
export { ChangeSet, EditorSelection, Facet, RangeSet, Text } from "@codemirror/state";
export { gutter, GutterMarker, WidgetType } from "@codemirror/view";
export { continuedIndent, delimitedIndent, flatIndent, foldInside, foldNodeProp, highlightingFor, indentNodeProp, language, LRLanguage } from "@codemirror/language";
export { highlightTree, styleTags, tags } from "@lezer/highlight";
export { ExternalTokenizer, LocalTokenGroup, LRParser } from "@lezer/lr";
