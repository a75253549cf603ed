// The page with the editor. The text survives a reload; mistakes are shown under the caret while typing.
import { $, arrived, boot, coded, debounce, h, request, select, tablist, toast, Told } from "../page.js";
import { about, offset, describe } from "../language/assist.js";
import { fixName, makeEditor } from "../language/editor.js";
import { carry } from "./carry.js";
import { drawExamples } from "./examples.js";
import { fromServer } from "../language/diagnostics.js";
import { remember } from "../mine/started.js";
import { sentence } from "../refusal.js";
import { begun, edited, firstVisit, keep, state, store } from "./draft.js";
import { firstKernel, kernelFirst, leaveKernel } from "./kernel.js";
import { badChoice, misplaced } from "./mistakes.js";
import { listOptions } from "./options.js";
import { Limit } from "./limit.js";
import { Preview } from "./preview.js";
import { chosenOptions, drawStrategies, ownEndpoint } from "./strategies.js";
import { closeReport, showReport, wordsTab } from "./words.js";

const LANG = { module: "python", program: "ucutlass" };
const HINT = {
  module: "Paste a PyTorch module: class Model(nn.Module), get_inputs() and get_init_inputs()",
  program: "program name(x: f16[…]) -> f16[…] { … }",
};
const editor = makeEditor($("editor"), {
  label: "Source",
  lang: "python",
  hint: "",
  onRun: () => $("form").requestSubmit(),
  onChange: (text) => {
    state[state.kind] = text;
    store();
    typed();
  },
  onLine: (n) => preview.link(n),
  onCaret: (doc, range) => {
    stand(range.head);
    explain(doc, range.head);
  },
  keys: [
    {
      key: "Shift-Alt-f",
      run: () => {
        if (state.kind !== "program") return false;
        format();
        return true;
      },
    },
  ],
});
const preview = new Preview($("preview"), editor);
const limit = new Limit($("limit"), {
  asked: () => ({ gpu: hardware(), classes: state.classes }),
  fault: (list) => { if (state.kind === "module") tell(list); },
  open: (text) => { editor.setText(text); editor.focus(); },
});

/** The GPU that the chosen device measures or models. */
function hardware() {
  const engine = (boot.engines ?? []).find((e) => e.serves === state.device);
  const modelled = String(state.device ?? "").split(":")[1];
  return modelled ?? engine?.device?.hardware ?? "h200";
}
for (const id of ["devices", "classes"]) $(id).addEventListener("change", () => limit.again());

// ---- ways in ---------------------------------------------------------------------------------------------------
function show(kind) {
  for (const tab of document.querySelectorAll(".source-bar [role=tab]"))
    if (tab.dataset.kind === kind) select(tab.parentElement, tab);
  const words = kind === "words";
  $("editor-pane").hidden = words;
  $("words-pane").hidden = !words;
  $("run").disabled = words;
  $("format").hidden = $("language").hidden = kind !== "program";
  $("algebra").hidden = kind === "program"; // a program is computed as written
  $("run").title = words ? "Write the module first, then run it" : "";
  listExamples(kind);
  showReport(kind);
  if (words) {
    preview.hide();
    limit.hide();
    return;
  }
  state.kind = kind;
  $("editor-pane").setAttribute("aria-labelledby", `tab-${kind}`);
  $("kernel-first").hidden = kind !== "module";
  editor.setText(state[kind], LANG[kind]);
  editor.hint(HINT[kind]);
  store();
  typed();
}
tablist(document.querySelector(".source-bar [role=tablist]"), (tab) => show(tab.dataset.kind));
wordsTab({
  accept: (module) => {
    show("module");
    editor.replaceText(module); // an edit, so that undo restores the draft
    editor.focus();
  },
  back: () => {
    show("words");
    $("words-text").focus();
  },
});

function listExamples(kind) {
  drawExamples(
    $("examples"),
    (boot.examples ?? []).filter((e) => e.kind === kind),
    state[kind],
    (text, typing) => {
      closeReport();
      if (kind === "module") leaveKernel(text);
      editor.setText(text);
      if (typing) editor.focus();
    },
  );
}

// ---- as you type -----------------------------------------------------------------------------------------------
let asking = null,
  errors = [];
const check = debounce(async () => {
  const text = state.program;
  asking?.abort();
  asking = new AbortController();
  try {
    const result = fromServer(await request("/api/check", { body: { text }, signal: asking.signal }));
    if (state.kind !== "program" || text !== state.program) return; // the next answer is on its way
    tell(result.diagnostics);
    if (result.ok) preview.show(text);
    else preview.stale();
  } catch (e) {
    if (e.name !== "AbortError") say("", e instanceof Told ? e.message : "The check failed.");
  }
}, 150);

function typed() {
  $("form-error").hidden = true;
  if (state.kind === "program") limit.hide();
  if (state.kind === "program" && state.program.trim() && !misplaced("program", state.program)) {
    check();
    return;
  }
  asking?.abort();
  tell([]);
  const elsewhere = misplaced(state.kind, state[state.kind]);
  if (elsewhere) say("bad", elsewhere.join(" "));
  else say("", "");
  preview.hide();
  if (state.kind === "module") limit.typed(elsewhere ? "" : state.module);
}

function say(mark, text) {
  $("check-state").dataset.state = mark;
  $("check-state").replaceChildren(...coded(text));
}

function tell(list) {
  errors = list;
  const of = editor.view.state.doc;
  editor.diagnose(list);
  $("diagnostics").hidden = list.length === 0;
  $("diagnostics").replaceChildren(
    ...list.map((d) =>
      h(
        "div",
        {
          class: "diagnostic",
          onclick: (e) => {
            if (!e.target.closest("a, .fix")) editor.goto(d.line, d.column);
          },
        },
        d.code
          ? h(
              "a",
              {
                class: "code",
                href: `/language/${d.code}`,
                target: "_blank",
                rel: "noopener",
                title: `What ${d.code} means`,
              },
              d.code,
            )
          : null,
        h("button", { type: "button", class: "told" },
          d.title.startsWith(`Line ${d.line}`) ? null : h("span", { class: "where" }, `line ${d.line}`),
          coded(d.title)),
        d.more ? h("span", { class: "more" }, coded(d.more)) : null,
        d.fix
          ? h("button", { type: "button", class: "button fix", onclick: () => editor.fix(d.fix, of) }, fixName(d.fix))
          : null,
      ),
    ),
  );
  stand(editor.view.state.selection.main.head);
  if (state.kind === "program") {
    if (list.length) say("bad", list.length === 1 ? "1 error" : `${list.length} errors`);
    else if (state.program.trim()) say("ok", "The program is correct");
  }
  $("next-error").hidden = list.length === 0;
}

/** Marks, in the list, the error at the caret. */
function stand(at) {
  const row = editor.view.state.doc.lineAt(at);
  const here = errors.findIndex(
    (d) =>
      d.line === row.number &&
      offset(editor.view.state.doc, d.line, d.column) <= at &&
      at <=
        Math.max(
          offset(editor.view.state.doc, d.endLine, d.endColumn),
          offset(editor.view.state.doc, d.line, d.column),
        ),
  );
  [...$("diagnostics").children].forEach((node, i) => {
    if (i !== here) {
      node.removeAttribute("aria-current");
      return;
    }
    if (node.getAttribute("aria-current") === "true") return;
    node.setAttribute("aria-current", "true");
    const list = $("diagnostics"); // scrollIntoView would move the page as well
    if (node.offsetTop < list.scrollTop || node.offsetTop + node.offsetHeight > list.scrollTop + list.clientHeight)
      list.scrollTop = node.offsetTop;
  });
}
$("next-error").addEventListener("click", () => editor.nextError());
addEventListener("keydown", (e) => {
  if (e.key !== "F8" || e.defaultPrevented || state.kind !== "program" || !errors.length) return;
  e.preventDefault();
  if (e.shiftKey) editor.previousError();
  else editor.nextError();
});

/** The word at the caret, in a line under the editor: for keyboards and touch screens, which cannot hover. */
const explain = debounce(async (doc, at) => {
  if (state.kind !== "program" || doc !== editor.view.state.doc) return;
  const entry = doc.length ? ((await about(doc, at)) ?? (at > 0 ? await about(doc, at - 1) : null)) : null;
  if (doc === editor.view.state.doc && at === editor.view.state.selection.main.head)
    $("about").replaceChildren(...(entry ? describe(entry, true).filter(Boolean) : []));
}, 250);

async function format() {
  const text = state.program;
  try {
    const laid = await request("/api/format", { body: { text } });
    if (text !== state.program) return;
    if (laid.ok) editor.replaceText(laid.text);
    else toast(laid.diagnostics.length === 1 ? "Correct the error first." : "Correct the errors first.");
  } catch (e) {
    toast(e.message);
  }
}
$("format").addEventListener("click", format);

// ---- run -------------------------------------------------------------------------------------------------------
function fail(message, fix, field) {
  $("form-error").replaceChildren(h("strong", {}, coded(message)), " ", ...coded(fix ?? ""));
  $("form-error").hidden = false;
  $("form-error").scrollIntoView({ block: "nearest" });
  if (field && $(field) instanceof HTMLInputElement) $(field).focus();
}

$("form").addEventListener("submit", async (e) => {
  e.preventDefault();
  if ($("run").disabled) return;
  if (!state[state.kind].trim())
    return fail(
      state.kind === "module" ? "There is no module yet." : "There is no program yet.",
      "Paste one, or pick an example above the editor.",
    );
  const elsewhere = misplaced(state.kind, state[state.kind]);
  if (elsewhere) return fail(...elsewhere);
  const wrong = badChoice(state);
  if (wrong) return fail(wrong.message, wrong.fix, wrong.field);
  $("form-error").hidden = true;
  $("run").disabled = true;
  $("run").firstElementChild.textContent = "Starting…";
  try {
    const first = await firstKernel();
    const session = await request(`/api/sessions?fork_of=${boot.fork?.id ?? ""}`, {
      body: {
        source: state[state.kind],
        source_kind: state.kind,
        device: state.device,
        classes: state.classes,
        trials: state.trials,
        eps: state.eps / 100,
        window: state.window,
        algebraic: state.algebraic === true && state.kind === "module",
        strategy: state.strategy,
        options: chosenOptions(state),
        ...ownEndpoint(state, boot.strategies ?? []),
      },
    });
    const started = { id: session.id, title: "A session", created: Date.now() / 1000 };
    remember({ session: started, control: { url: session.control_url } }); // also if its kernel is refused below
    if (first) {
      await request(`/api/sessions/${session.id}/commands`, {
        body: { kind: "try", data: first, control_token: session.control_token },
      });
    }
    keep();
    location.assign(new URL(session.control_url, location.href).pathname);
  } catch (error) {
    fail(error.message, error.fix, error.data?.field);
    $("run").disabled = false;
    $("run").firstElementChild.textContent = "Run";
  }
});
kernelFirst((module) => {
  closeReport();
  editor.setText(module);
});
addEventListener("keydown", (e) => {
  if (e.key === "Enter" && (e.ctrlKey || e.metaKey) && !e.defaultPrevented) {
    e.preventDefault();
    $("form").requestSubmit();
  }
});
addEventListener("pageshow", () => {
  if (document.querySelector("[role=tab][aria-selected=true]")?.dataset.kind !== "words") $("run").disabled = false;
  $("run").firstElementChild.textContent = "Run";
});
if (/Mac|iPhone|iPad/.test(navigator.platform))
  for (const key of document.querySelectorAll("#run-key, #words-write kbd")) key.textContent = "⌘ ↵";

// ---- begin -----------------------------------------------------------------------------------------------------
if (boot.fork && !edited) {
  const { text, source_kind: kind, spec = {} } = boot.fork;
  state.kind = kind;
  state[kind] = text;
  if (spec.classes) state.classes = spec.classes;
  for (const name of ["trials", "window"]) if (spec[name]) state[name] = spec[name];
  state.algebraic = spec.algebraic === true;
  if (spec.strategy) state.strategy = spec.strategy;
  Object.assign(state, { endpoint: spec.endpoint ?? "", model: spec.model ?? "" });
  if (spec.options) state.strategyOptions = { ...state.strategyOptions, [state.strategy]: { ...spec.options } };
  if (Number.isFinite(spec.eps)) state.eps = Math.round(spec.eps * 100);
}
const example = (boot.examples ?? []).find((e) => e.kind === "module");
if (firstVisit && !boot.fork && example) state.module = example.text;
listOptions();
const redrawOptions = drawStrategies($("strategies"), $("strategy-options"), boot.strategies ?? [], state, store,
  (boot.engines ?? []).map((e) => e.device?.model));
$("devices").addEventListener("change", redrawOptions);
show(state.kind);
begun();
// A text from a link or a file is an edit of the draft, so undo restores the draft.
carry(
  (kind, text, foreign) => {
    closeReport();
    show(kind);
    const other = state[kind].trim() && state[kind].trim() !== text.trim();
    editor.replaceText(text);
    listExamples(kind);
    if (foreign && other) toast("The text is in the editor. Undo brings yours back.");
  },
  () => ({ kind: state.kind, text: state[state.kind] }),
);
/** Why the session of this text was refused, at its line. A program's check reports the same itself. */
function toldBefore({ reason, line }) {
  const why = sentence(reason);
  if (!line || state.kind === "program") {
    fail("This was refused:", why);
    editor.focus();
    return;
  }
  tell([{ line, column: 1, endLine: line, endColumn: 400, title: why, message: why }]);
  editor.goto(line);
}
arrived().then(() => {
  if (boot.fork?.refused && !edited) toldBefore(boot.fork.refused);
  else editor.focus();
});
