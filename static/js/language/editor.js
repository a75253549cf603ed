// CodeMirror in the style of the page: one function makes an editor or a read-only view of code.
import {
  basicSetup,
  Compartment,
  Decoration,
  EditorState,
  EditorView,
  HighlightStyle,
  indentWithTab,
  keymap,
  lintGutter,
  nextDiagnostic,
  placeholder,
  Prec,
  previousDiagnostic,
  python,
  setDiagnostics,
  StateEffect,
  StateField,
  syntaxHighlighting,
  tags as t,
  ViewPlugin,
} from "../../vendor/codemirror-6.0.2/codemirror.js";
import { coded, h } from "../page.js";
import { assistance, offset, place } from "./assist.js";
import { ucutlass } from "./ucutlass-mode.js";

const colours = HighlightStyle.define([
  {
    tag: [t.keyword, t.controlKeyword, t.definitionKeyword, t.moduleKeyword, t.operatorKeyword],
    color: "var(--syn-keyword)",
  },
  { tag: [t.string, t.special(t.string)], color: "var(--syn-string)" },
  { tag: [t.number, t.bool, t.atom, t.null], color: "var(--syn-number)" },
  { tag: [t.comment, t.lineComment, t.blockComment], color: "var(--syn-comment)", fontStyle: "italic" },
  {
    tag: [t.function(t.variableName), t.function(t.definition(t.variableName)), t.function(t.propertyName)],
    color: "var(--syn-function)",
  },
  { tag: [t.typeName, t.className, t.namespace], color: "var(--syn-type)" },
  { tag: [t.propertyName], color: "var(--syn-property)" },
  {
    tag: [t.special(t.variableName), t.self, t.meta, t.processingInstruction, t.macroName],
    color: "var(--syn-meta)",
  },
  { tag: [t.invalid], color: "var(--bad)" },
]);

const clothes = EditorView.theme({
  "&": { fontSize: "var(--code-size)", backgroundColor: "transparent", color: "var(--ink)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-content": { padding: "10px 0", caretColor: "var(--ink)" },
  ".cm-line": { padding: "0 12px 0 6px" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--faint)", border: "none" },
  ".cm-lineNumbers .cm-gutterElement": { padding: "0 8px 0 12px", minWidth: "34px" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--line-active)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground, ::selection": {
    backgroundColor: "var(--selection) !important",
  },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "var(--selection)", outline: "none" },
  ".cm-selectionMatch": { backgroundColor: "var(--line-linked)" },
  ".cm-linked": { backgroundColor: "var(--line-linked)", boxShadow: "inset 3px 0 0 var(--accent)" },
  ".cm-placeholder": { color: "var(--faint)" },
  ".cm-tooltip": {
    backgroundColor: "var(--panel)",
    color: "var(--ink)",
    border: "1px solid var(--line)",
    borderRadius: "6px",
    boxShadow: "var(--shadow)",
    maxWidth: "min(620px, 90vw)",
  },
  ".cm-diagnostic": { fontFamily: "var(--mono)", fontSize: "12px", whiteSpace: "pre-wrap", padding: "6px 10px" },
  ".cm-diagnosticAction": {
    font: "inherit",
    fontFamily: "var(--sans)",
    margin: "6px 0 0",
    padding: "2px 9px",
    width: "max-content",
    maxWidth: "100%",
    whiteSpace: "normal",
    textAlign: "left",
    borderRadius: "6px",
    border: "1px solid var(--line-strong)",
    backgroundColor: "var(--panel)",
    color: "var(--ink)",
    display: "block",
    cursor: "pointer",
  },
  ".cm-diagnosticAction:hover": { borderColor: "var(--accent)", color: "var(--accent)" },
  ".cm-tooltip .about": {
    padding: "7px 11px",
    fontSize: "13px",
    lineHeight: "1.45",
    display: "grid",
    gap: "3px",
    maxWidth: "min(520px, 86vw)",
  },
  ".cm-tooltip .about code": {
    fontFamily: "var(--mono)",
    fontSize: "12px",
    fontWeight: "600",
    overflowWrap: "anywhere",
  },
  ".cm-tooltip .about .values": { color: "var(--muted)", fontFamily: "var(--mono)", fontSize: "11.5px" },
  ".cm-tooltip .about a": { fontSize: "12px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": {
    fontFamily: "var(--mono)",
    maxWidth: "min(420px, 90vw)",
    maxHeight: "13em",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "2px 8px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": {
    backgroundColor: "var(--accent)",
    color: "var(--accent-ink)",
  },
  ".cm-completionInfo": { padding: "0" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "700" },
  ".cm-diagnostic-error": { borderLeft: "4px solid var(--bad)" },
  ".cm-panels": { backgroundColor: "var(--panel)", color: "var(--ink)", borderColor: "var(--line)" },
  ".cm-panel input, .cm-panel button": { fontSize: "13px" },
  ".cm-foldPlaceholder": { backgroundColor: "var(--line)", border: "none", color: "var(--muted)", padding: "0 6px" },
});

let cpp = null; // what its file exports, once it is there
/** C++, which comes when a text of it is shown. */
function cuda() {
  if (cpp) return cpp();
  const later = new Compartment();
  const arrives = ViewPlugin.define((view) => {
    let shown = true;
    import("../../vendor/codemirror-6.0.2/cpp.js").then(
      (file) => {
        cpp = file.cpp;
        if (shown) view.dispatch({ effects: later.reconfigure(cpp()) });
      },
      () => {}, // offline: the text is there, in one colour
    );
    return { destroy: () => (shown = false) };
  });
  return [later.of([]), arrives];
}
const languages = { python: () => python(), ucutlass: () => ucutlass, cuda, text: () => [] };
export const language = (name) => (languages[name] ?? languages.text)();
/** The language with its help, for editors. */
const tongueOf = (name, readOnly) => [language(name), name === "ucutlass" && !readOnly ? assistance() : []];

const link = StateEffect.define(); // [[first, last], ...], 1-based and inclusive
const linked = StateField.define({
  create: () => Decoration.none,
  update(value, tr) {
    value = value.map(tr.changes);
    for (const effect of tr.effects) {
      if (!effect.is(link)) continue;
      const lines = new Set();
      for (const [first, last] of effect.value)
        for (let n = Math.max(1, first); n <= Math.min(last, tr.state.doc.lines); n += 1) lines.add(n);
      value = Decoration.set(
        [...lines]
          .sort((a, b) => a - b)
          .map((n) => Decoration.line({ class: "cm-linked" }).range(tr.state.doc.line(n).from)),
      );
    }
    return value;
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** What every view of code has; `label`: its name for a screen reader. */
export function common(label) {
  const nonce = document.querySelector('meta[name="style-nonce"]')?.content;
  return [
    basicSetup,
    clothes,
    syntaxHighlighting(colours),
    nonce ? EditorView.cspNonce.of(nonce) : [],
    EditorView.contentAttributes.of({
      "aria-label": label,
      tabindex: "0", // it is reached by Tab, read-only too, and scrolls by the arrow keys
      spellcheck: "false",
      autocapitalize: "off",
      autocorrect: "off",
    }),
  ];
}

/** The one change that makes `text` of `old`, without what they begin and end with alike; null if they are equal. */
function difference(old, text) {
  if (old === text) return null;
  const most = Math.min(old.length, text.length);
  let from = 0, last = 0;
  while (from < most && old[from] === text[from]) from += 1;
  while (last < most - from && old[old.length - 1 - last] === text[text.length - 1 - last]) last += 1;
  return { from, to: old.length - last, insert: text.slice(from, text.length - last) };
}

/** The label of a fix's button. */
export const fixName = ({ title }) => title[0].toUpperCase() + title.slice(1);

/** An editor in `parent`. `onLine(line | null)` gets the line under the pointer or, with the keyboard, the caret;
 *  `onCaret(doc, offset)` the caret alone; `keys`: more of CodeMirror's key bindings. */
export function makeEditor(
  parent,
  {
    doc = "",
    lang = "text",
    label,
    readOnly = false,
    wrap = false,
    hint = "",
    keys = [],
    onChange,
    onRun,
    onLine,
    onCaret,
  },
) {
  const tongue = new Compartment(),
    prompt = new Compartment();
  let over = null;
  const say = (line) => {
    if (line !== over) {
      over = line;
      onLine(line);
    }
  };
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc,
      extensions: [
        Prec.highest(
          keymap.of(
            onRun
              ? [
                  {
                    key: "Mod-Enter",
                    run: () => {
                      onRun();
                      return true;
                    },
                  },
                  {
                    key: "Ctrl-Enter",
                    run: () => {
                      onRun();
                      return true;
                    },
                  },
                ]
              : [],
          ),
        ),
        keymap.of([...keys, { key: "Shift-F8", run: previousDiagnostic }]),
        common(label),
        linked,
        wrap ? EditorView.lineWrapping : [],
        tongue.of(tongueOf(lang, readOnly)),
        readOnly
          ? [EditorState.readOnly.of(true)]
          : [keymap.of([indentWithTab]), lintGutter(), prompt.of(placeholder(hint))],
        EditorView.updateListener.of((update) => {
          if (update.docChanged) onChange?.(update.state.doc.toString());
          if (onCaret && (update.selectionSet || update.docChanged))
            onCaret(update.state.doc, update.state.selection.main);
          if (onLine && update.selectionSet) say(update.state.doc.lineAt(update.state.selection.main.head).number);
        }),
        onLine
          ? EditorView.domEventHandlers({
              mousemove(e, v) {
                const at = v.posAtCoords({ x: e.clientX, y: e.clientY }, false);
                say(v.state.doc.lineAt(at).number);
              },
              mouseleave() {
                say(null);
              },
            })
          : [],
      ],
    }),
  });
  // CodeMirror's styles may apply after it measured a line; then line numbers would not stand beside their lines.
  new ResizeObserver(() => {
    if (parseFloat(getComputedStyle(view.contentDOM).lineHeight) !== view.defaultLineHeight) view.requestMeasure();
  }).observe(view.contentDOM);
  return {
    view,
    text: () => view.state.doc.toString(),
    /** Another text, in another language if `name` is given. Lines that stay are neither parsed nor drawn anew. */
    setText(text, name = lang) {
      const changes = difference(view.state.doc.toString(), text);
      const effects = changes ? [link.of([])] : [];
      if (name !== lang) effects.push(tongue.reconfigure(tongueOf(name, readOnly)));
      lang = name;
      if (effects.length) view.dispatch({ changes: changes ?? [], effects });
    },
    link(ranges, scroll = false) {
      view.dispatch({ effects: link.of(ranges) });
      if (!scroll || !ranges.length) return;
      // CodeMirror's own scrollIntoView would move the whole page, away from under the pointer.
      const line = Math.min(Math.max(1, ranges[0][0]), view.state.doc.lines);
      const block = view.lineBlockAt(view.state.doc.line(line).from),
        box = view.scrollDOM;
      if (block.top < box.scrollTop || block.bottom > box.scrollTop + box.clientHeight)
        box.scrollTop = block.top - box.clientHeight / 3;
    },
    /** Diagnostics as {line, column, endLine, endColumn, message, fix}, 1-based; shown under the text they name. */
    diagnose(list) {
      const of = view.state.doc;
      view.dispatch(
        setDiagnostics(
          view.state,
          list.map((d) => {
            const from = offset(of, d.line, d.column);
            const to = Math.max(from, offset(of, d.endLine ?? d.line, d.endColumn ?? (d.column ?? 1) + 1));
            const actions = d.fix ? [{ name: fixName(d.fix), apply: () => this.fix(d.fix, of) }] : [];
            return { from, to, severity: d.severity ?? "error", message: d.message, actions,
              renderMessage: () => h("span", {}, coded(d.message)) };
          }),
        ),
      );
    },
    /** Applies an edit that the server made for the document `of`, unless the text has changed. */
    fix({ line, col, end_line: endLine, end_col: endCol, text }, of = view.state.doc) {
      if (!of.eq(view.state.doc)) return;
      const from = offset(of, line, col),
        to = offset(of, endLine, endCol);
      view.dispatch({
        changes: { from, to, insert: text },
        selection: { anchor: from + text.length },
        scrollIntoView: true,
        userEvent: "input.fix",
      });
      view.focus();
    },
    /** Replaces the whole text by changing only the differences, so that the caret and the history stay. */
    replaceText(text) {
      const changes = difference(view.state.doc.toString(), text);
      if (changes) view.dispatch({ changes, userEvent: "input.format" });
    },
    nextError() {
      view.focus();
      return nextDiagnostic(view);
    },
    previousError() {
      view.focus();
      return previousDiagnostic(view);
    },
    caret: () => place(view.state.doc, view.state.selection.main.head),
    goto(line, column = 1) {
      const row = view.state.doc.line(Math.min(Math.max(1, line), view.state.doc.lines));
      const at = Math.min(row.to, row.from + Math.max(0, column - 1));
      view.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: "center" }) });
      view.focus();
    },
    hint(text) {
      view.dispatch({ effects: prompt.reconfigure(placeholder(text)) });
    },
    focus: () => view.focus(),
    destroy: () => view.destroy(),
  };
}
