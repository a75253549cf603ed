// /learn/own: a teacher's own lesson, checked as it is written and shown as a student sees it. Kept in this browser.
import { $, boot, debounce, h, request } from "../page.js";
import { takeDrops } from "../drop.js";
import { fill, sentence } from "../texts.js";
import { mount } from "./runner.js";

const KEY = "ucutlass.own-lesson";
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

/** Keeps the text in this browser; the example is not kept, since it is in the page's language. */
function keep() {
  try {
    if (area.value === boot.text) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, area.value);
  } catch {
    /* private mode */
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

/** An English text of the server in the reader's language; one without a translation is marked as English. */
function words(text) {
  const translated = sentence(text);
  return h("span", { lang: translated === text ? "en" : null }, translated);
}

function count(n) {
  return n === 1 ? boot.words.one_mistake : fill(boot.words.mistakes, { n });
}

function draw(reply) {
  const rows = reply.mistakes.map((m) =>
    h("li", {}, h("button", { type: "button", onclick: () => goTo(m.line) }, fill(boot.words.line_n, { n: m.line })),
      ": ", words(m.text), " ", m.fix ? words(m.fix) : null));
  const box = rows.length
    ? h("div", { class: "notice bad" }, h("strong", {}, count(rows.length)),
      h("ol", { class: "mistakes" }, rows))
    : h("p", { class: "notice good" }, boot.words.no_mistake);
  $("verdict").replaceChildren(box);
  if (!reply.lesson) {
    $("lesson").replaceChildren();
    return;
  }
  const text = area.value;
  runner = mount($("lesson"), reply.lesson, {
    words: boot.words,
    progress: { step: runner?.step.id },
    check: (step, answer, show) => request("/api/own-lesson/answers", { body: { text, step, answer, show } }),
  });
}

async function check() {
  latest += 1;
  const turn = latest;
  keep();
  try {
    const reply = await request("/api/own-lesson", { body: { text: area.value } });
    if (turn === latest) draw(reply);
  } catch (e) {
    const problem = h("p", { class: "notice bad" }, words(e.message), " ", words(e.fix));
    if (turn === latest) $("verdict").replaceChildren(problem);
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
takeDrops(area, ([file]) => take(file));
check();
