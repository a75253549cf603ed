// /learn/own: a teacher's own lesson, checked as it is written and shown as a student sees it. Kept in this browser.
import { $, boot, debounce, h, request } from "../page.js";
import { fill } from "../texts.js";
import { mount } from "./runner.js";

const KEY = "ucutlass.own-lesson";
const { words } = boot;
const area = $("text");
let runner = null;
let latest = 0;

function stored() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

/** Puts the caret at the start of a line and scrolls there. */
function goTo(line) {
  const lines = area.value.split("\n");
  const at = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  area.focus();
  area.setSelectionRange(at, at + (lines[line - 1]?.length ?? 0));
  area.scrollTop = Math.max(0, (line - 4) * parseFloat(getComputedStyle(area).lineHeight));
}

function draw(reply) {
  const rows = reply.mistakes.map((m) =>
    h("li", {}, h("button", { type: "button", onclick: () => goTo(m.line) }, fill(words.line_n, { n: m.line })),
      h("span", { lang: "en" }, `: ${m.text} ${m.fix}`)));
  const box = rows.length
    ? h("div", { class: "notice bad" }, h("strong", {}, fill(words.mistakes, { n: rows.length })),
      h("ol", { class: "mistakes" }, rows))
    : h("p", { class: "notice good" }, words.no_mistake);
  $("verdict").replaceChildren(box);
  if (!reply.lesson) {
    $("lesson").replaceChildren();
    return;
  }
  const text = area.value;
  runner = mount($("lesson"), reply.lesson, {
    words,
    progress: { step: runner?.step.id },
    check: (step, answer, show) => request("/api/own-lesson/answers", { body: { text, step, answer, show } }),
  });
}

async function check() {
  latest += 1;
  const turn = latest;
  try {
    localStorage.setItem(KEY, area.value);
  } catch {
    /* private mode */
  }
  try {
    const reply = await request("/api/own-lesson", { body: { text: area.value } });
    if (turn === latest) draw(reply);
  } catch (e) {
    if (turn === latest) $("verdict").replaceChildren(h("p", { class: "notice bad" }, `${e.message} ${e.fix}`));
  }
}

async function take(file) {
  if (!file) return;
  area.value = await file.text();
  check();
}

area.value = stored() ?? boot.text;
area.addEventListener("input", debounce(check, 400));
$("file").addEventListener("change", (e) => take(e.target.files[0]));
area.addEventListener("dragover", (e) => {
  e.preventDefault();
  area.classList.add("over");
});
area.addEventListener("dragleave", () => area.classList.remove("over"));
area.addEventListener("drop", (e) => {
  e.preventDefault();
  area.classList.remove("over");
  take(e.dataTransfer.files[0]);
});
check();
