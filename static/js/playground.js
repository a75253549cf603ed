// The page one types in. What is typed survives a reload; what is wrong is said under the caret as one types.
import { $, boot, debounce, h, request, select, tablist, toast, Told } from "./page.js";
import { about, offset, told } from "./assist.js";
import { fixName, makeEditor } from "./editor.js";
import { drawExamples } from "./examples.js";
import { className, deviceName } from "./format.js";
import { fromServer, Preview } from "./preview.js";
import { parts } from "./refusal.js";
import { chosenOptions, drawStrategies } from "./strategies.js";

const KEY = "ucutlass.draft";
const LANG = { module: "python", program: "ucutlass" };
const HINT = {
  module: "Paste a PyTorch module: class Model(nn.Module), get_inputs() and get_init_inputs()",
  program: "program name(x: f16[…]) -> f16[…] { … }",
};
const BUDGET = {
  trials: ["Trials", "Write how many to make at most, for example 12."],
  eps: ["Stop within", "Write a percentage, for example 25; with 0 the search never ends early for being close."],
  window: ["or after", "Write how many trials may bring nothing, for example 6."],
};
const CLASSES = { f32: "float32", tf32: "TF32", f16: "float16", bf16: "bfloat16", fp8: "FP8" };

const load = () => { try { return JSON.parse(localStorage.getItem(KEY)) ?? {}; } catch { return {}; } };
const store = debounce(() => { try { localStorage.setItem(KEY, JSON.stringify(state)); } catch { /* full or private */ } }, 200);
// The texts of both ways in are kept apart, so that looking at the other loses nothing.
const state = { kind: "module", module: "", program: "", device: null, classes: ["tf32", "f16"], trials: 12, eps: 25, window: 6, algebraic: false, strategy: "planner", strategyOptions: {}, ...load() };

const editor = makeEditor($("editor"), {
  label: "Source", lang: "python", hint: "",
  onRun: () => $("form").requestSubmit(),
  onChange: (text) => { state[state.kind] = text; store(); typed(); },
  onLine: (n) => preview.link(n),
  onCaret: (doc, range) => { stand(range.head); explain(doc, range.head); },
  keys: [{ key: "Shift-Alt-f", run: () => { if (state.kind !== "program") return false; format(); return true; } }],
});
const preview = new Preview($("preview"), editor);

// ---- ways in ---------------------------------------------------------------------------------------------------
function show(kind) {
  for (const tab of document.querySelectorAll(".source-bar [role=tab]")) if (tab.dataset.kind === kind) select(tab.parentElement, tab);
  const words = kind === "words";
  $("editor-pane").hidden = words;
  $("words-pane").hidden = !words;
  $("run").disabled = words;
  $("format").hidden = $("language").hidden = kind !== "program";
  $("algebra").hidden = kind === "program"; // a program is computed as it is written
  $("run").title = words ? "Words need a language model; write a module or a program" : "";
  listExamples(kind);
  if (words) { preview.hide(); return; }
  state.kind = kind;
  $("editor-pane").setAttribute("aria-labelledby", `tab-${kind}`);
  editor.setText(state[kind], LANG[kind]);
  editor.hint(HINT[kind]);
  store();
  typed();
}
tablist(document.querySelector(".source-bar [role=tablist]"), (tab) => show(tab.dataset.kind));
$("words-to-module").addEventListener("click", () => { show("module"); editor.focus(); });

function listExamples(kind) {
  drawExamples($("examples"), (boot.examples ?? []).filter((e) => e.kind === kind), state[kind], (text, typing) => {
    editor.setText(text);
    if (typing) editor.focus();
  });
}

// ---- as you type -----------------------------------------------------------------------------------------------
let asking = null, errors = [];
const check = debounce(async () => {
  const text = state.program;
  asking?.abort();
  asking = new AbortController();
  try {
    const found = fromServer(await request("/api/check", { body: { text }, signal: asking.signal }));
    if (state.kind !== "program" || text !== state.program) return; // the next answer is on its way
    tell(found.diagnostics);
    if (found.ok) preview.show(text); else preview.stale();
  } catch (e) {
    if (e.name !== "AbortError") say("", e instanceof Told ? e.message : "The check did not work.");
  }
}, 150);

/** A text of the other language: [what it is, what to do], or null. */
function misplaced(kind, text) {
  const first = text.split("\n").find((row) => row.trim() && !/^\s*(#|\/\/)/.test(row)) ?? "";
  if (kind === "module" && /^\s*program\s+\w+\s*\(/.test(first)) return ["This is a μCUTLASS program.", "Choose “μCUTLASS program” above and paste it there."];
  if (kind === "program" && /^\s*(import|from)\s+\w|^\s*class\s+\w+.*:\s*$/.test(first)) return ["This is Python.", "Choose “PyTorch module” above and paste it there."];
  return null;
}

function typed() {
  $("form-error").hidden = true;
  if (state.kind === "program" && state.program.trim() && !misplaced("program", state.program)) { check(); return; }
  asking?.abort();
  tell([]);
  const elsewhere = misplaced(state.kind, state[state.kind]);
  if (elsewhere) say("bad", elsewhere.join(" "));
  else say("", state.kind === "module" ? "The module is traced in a sandbox when you press Run." : "");
  preview.hide();
}

function say(mark, text) { $("check-state").dataset.state = mark; $("check-state").textContent = text; }

function tell(list) {
  errors = list;
  const of = editor.view.state.doc;
  editor.diagnose(list);
  $("diagnostics").hidden = list.length === 0;
  $("diagnostics").replaceChildren(...list.map((d) => h("div", { class: "diagnostic", onclick: (e) => { if (!e.target.closest("a, .fix")) editor.goto(d.line, d.column); } },
    d.code ? h("a", { class: "code", href: `/language/${d.code}`, target: "_blank", rel: "noopener", title: `What ${d.code} means` }, d.code) : null,
    h("button", { type: "button", class: "told" }, h("span", { class: "where" }, `line ${d.line}`), d.title),
    d.more ? h("span", { class: "more" }, d.more) : null,
    d.fix ? h("button", { type: "button", class: "button fix", onclick: () => editor.fix(d.fix, of) }, fixName(d.fix)) : null)));
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
  const here = errors.findIndex((d) => d.line === row.number && offset(editor.view.state.doc, d.line, d.column) <= at && at <= Math.max(offset(editor.view.state.doc, d.endLine, d.endColumn), offset(editor.view.state.doc, d.line, d.column)));
  [...$("diagnostics").children].forEach((node, i) => {
    if (i !== here) { node.removeAttribute("aria-current"); return; }
    if (node.getAttribute("aria-current") === "true") return;
    node.setAttribute("aria-current", "true");
    const list = $("diagnostics"); // by hand: scrollIntoView would move the page as well
    if (node.offsetTop < list.scrollTop || node.offsetTop + node.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = node.offsetTop;
  });
}
$("next-error").addEventListener("click", () => editor.nextError());
addEventListener("keydown", (e) => {
  if (e.key !== "F8" || e.defaultPrevented || state.kind !== "program" || !errors.length) return;
  e.preventDefault();
  if (e.shiftKey) editor.previousError(); else editor.nextError();
});

/** The word at the caret, in a line under the editor: for a keyboard and a finger, which cannot hover. */
const explain = debounce(async (doc, at) => {
  if (state.kind !== "program" || doc !== editor.view.state.doc) return;
  const found = doc.length ? await about(doc, at) ?? (at > 0 ? await about(doc, at - 1) : null) : null;
  if (doc === editor.view.state.doc && at === editor.view.state.selection.main.head) $("about").replaceChildren(...(found ? told(found, true).filter(Boolean) : []));
}, 250);

async function format() {
  const text = state.program;
  try {
    const laid = await request("/api/format", { body: { text } });
    if (text !== state.program) return;
    if (laid.ok) editor.replaceText(laid.text);
    else toast(laid.diagnostics.length === 1 ? "Correct the error first." : "Correct the errors first.");
  } catch (e) { toast(e.message); }
}
$("format").addEventListener("click", format);

// ---- how to run it ---------------------------------------------------------------------------------------------
function listDevices() {
  const seen = new Map();
  for (const engine of boot.engines ?? []) {
    const d = engine.device ?? {};
    const measured = (d.kind ?? (engine.serves === "cuda" ? "measured" : "predicted")) === "measured";
    seen.set(engine.serves, {
      value: engine.serves, kind: measured ? "measured" : "predicted", name: d.title ?? d.gpu ?? deviceName(measured ? d.name : engine.serves),
      what: measured ? "Timed on the GPU of this server." : "No GPU here: times are predicted by a model, and say so.",
    });
  }
  if ([...seen.keys()].includes("cuda") && !seen.has("modelled:h200"))
    seen.set("modelled:h200", { value: "modelled:h200", kind: "predicted", name: "H200", what: "Predicted by a model; runs no kernel." });
  const none = seen.size === 0;
  if (none) seen.set("auto", { value: "auto", kind: null, name: "Whichever engine comes", what: "No engine is running now; a session waits until one does." });
  const choices = [...seen.values()].sort((a, b) => (a.kind === "measured" ? -1 : 0) - (b.kind === "measured" ? -1 : 0));
  if (!seen.has(state.device)) state.device = choices[0].value;
  $("devices").replaceChildren(...choices.map((c) => h("label", { class: "choice" },
    h("input", { type: "radio", name: "device", value: c.value, checked: c.value === state.device, onchange: () => { state.device = c.value; store(); } }),
    h("span", { class: "choice-name" }, c.name, c.kind ? h("span", { class: `badge ${c.kind}` }, c.kind) : null),
    h("span", { class: "choice-what" }, c.what))));
  $("queue-note").textContent = boot.queued ? `${boot.queued} waiting before you` : "";
}

function listClasses() {
  $("classes").replaceChildren(...Object.entries(CLASSES).map(([cls, name]) => h("label", { class: "chip" },
    h("input", { type: "checkbox", value: cls, checked: state.classes.includes(cls), onchange: () => {
      state.classes = [...document.querySelectorAll("#classes input:checked")].map((i) => i.value);
      store();
    } }), name)));
}

for (const name of Object.keys(BUDGET)) {
  $(name).value = state[name] ?? "";
  // An empty field is no number: 0 would mean something else.
  $(name).addEventListener("input", () => { state[name] = $(name).value.trim() === "" ? null : Number($(name).value); store(); });
}
if (boot.limits?.trials) $("trials").max = boot.limits.trials;

$("algebraic").addEventListener("change", () => { state.algebraic = $("algebraic").checked; store(); });

// ---- run -------------------------------------------------------------------------------------------------------
function fail(message, fix, field) {
  $("form-error").replaceChildren(h("strong", {}, message), " ", fix ?? "");
  $("form-error").hidden = false;
  $("form-error").scrollIntoView({ block: "nearest" });
  if (field && $(field) instanceof HTMLInputElement) $(field).focus();
}

$("form").addEventListener("submit", async (e) => {
  e.preventDefault();
  if ($("run").disabled) return;
  if (!state[state.kind].trim())
    return fail(state.kind === "module" ? "There is no module yet." : "There is no program yet.", "Paste one, or pick an example above the editor.");
  const elsewhere = misplaced(state.kind, state[state.kind]);
  if (elsewhere) return fail(...elsewhere);
  for (const [name, [what, example]] of Object.entries(BUDGET))
    if (!Number.isFinite(state[name])) return fail(`“${what}” is empty.`, example, name);
  if (!state.classes.length) return fail("No precision is allowed.", `Tick at least one: ${Object.keys(CLASSES).map(className).join(", ")}.`);
  $("form-error").hidden = true;
  $("run").disabled = true;
  $("run").firstElementChild.textContent = "Starting…";
  try {
    const made = await request("/api/sessions", { body: {
      source: state[state.kind], source_kind: state.kind, device: state.device, classes: state.classes,
      trials: state.trials, eps: state.eps / 100, window: state.window, algebraic: state.algebraic === true && state.kind === "module",
      strategy: state.strategy, options: chosenOptions(state),
    } });
    try { localStorage.setItem(KEY, JSON.stringify(state)); } catch { /* the text is in the session too */ }
    location.assign(new URL(made.control_url, location.href).pathname);
  } catch (error) {
    fail(error.message, error.fix, error.data?.field);
    $("run").disabled = false;
    $("run").firstElementChild.textContent = "Run";
  }
});
addEventListener("keydown", (e) => { if (e.key === "Enter" && (e.ctrlKey || e.metaKey) && !e.defaultPrevented) { e.preventDefault(); $("form").requestSubmit(); } });
addEventListener("pageshow", () => { if (document.querySelector('[role=tab][aria-selected=true]')?.dataset.kind !== "words") $("run").disabled = false; $("run").firstElementChild.textContent = "Run"; });
if (/Mac|iPhone|iPad/.test(navigator.platform)) $("run-key").textContent = "⌘ ↵";

// ---- begin -----------------------------------------------------------------------------------------------------
if (boot.fork) {
  const { text, source_kind: kind, spec = {} } = boot.fork;
  state.kind = kind;
  state[kind] = text;
  if (spec.classes) state.classes = spec.classes;
  for (const name of ["trials", "window"]) if (spec[name]) { state[name] = spec[name]; $(name).value = spec[name]; }
  state.algebraic = spec.algebraic === true;
  if (spec.strategy) state.strategy = spec.strategy;
  if (spec.options) state.strategyOptions = { ...state.strategyOptions, [state.strategy]: { ...spec.options } };
  if (Number.isFinite(spec.eps)) { state.eps = Math.round(spec.eps * 100); $("eps").value = state.eps; }
}
$("algebraic").checked = state.algebraic === true;
listDevices();
listClasses();
drawStrategies($("strategies"), $("strategy-options"), boot.strategies ?? [], state, store);
show(state.kind);
/** #program=TEXT, as the reference links its examples: an edit of the draft, so that undo brings the draft back. */
function fromHash() {
  if (!location.hash.startsWith("#program=")) return;
  let text = "";
  try { text = decodeURIComponent(location.hash.slice(9)); } catch { /* no text of ours */ }
  history.replaceState(null, "", location.pathname + location.search);
  if (!text) return;
  show("program");
  editor.replaceText(`${text.trimEnd()}\n`);
}
fromHash();
addEventListener("hashchange", fromHash);
/** Why the session that this text is from was refused, at its line: a program's check says the same by itself. */
function toldBefore({ reason, line }) {
  const why = parts(reason).reason;
  if (!line || state.kind === "program") { fail("This was refused:", why); editor.focus(); return; }
  tell([{ line, column: 1, endLine: line, endColumn: 400, title: why, message: why }]);
  editor.goto(line);
}
if (boot.fork?.refused) toldBefore(boot.fork.refused); else editor.focus();
