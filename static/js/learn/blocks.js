// What stands between a step's texts: works, programs to change, figures, and what the student answered before.
import { h, request } from "../page.js";
import { drawRoofline } from "./roofline.js";
import { drawBars, drawStop, drawTrials } from "./searches.js";
import { drawWaves } from "./waves.js";
import { html, time } from "./parts.js";
import { drawRun } from "./run.js";

const FIGURES = {
  roofline: drawRoofline, waves: drawWaves, bars: drawBars, trials: drawTrials, stop: drawStop, session: drawRun,
};

/** The element of a block of a step (playground.learn.forms). */
export function drawBlock(block, runner) {
  if (block.kind === "yours") return yours(block, runner);
  if (block.kind === "work") return code(block.text, runner.word("work"));
  if (block.kind === "module") return code(block.text, runner.word("module"));
  if (block.kind === "program") return block.run ? editable(block, runner) : code(block.text, runner.word("program"));
  const figure = h("figure", { class: `lesson-figure figure-${block.figure}` });
  if (block.title) figure.append(h("p", { class: "figure-title" }, block.title));
  FIGURES[block.figure]?.(figure, block, runner);
  if (block.caption) figure.append(h("figcaption", {}, block.caption));
  return figure;
}

function code(text, label) {
  return h("pre", { class: "lesson-code", tabindex: "0", "aria-label": label }, h("code", {}, text));
}

/** What the student answered at an earlier step: the first answer, because that was the prediction. */
function yours(block, runner) {
  const step = runner.find(block.step);
  const answer = runner.answers[block.step];
  if (!answer) return h("p", { class: "yours faint" }, runner.word("no_prediction"));
  const first = answer.first ?? answer.answer;
  const picks = [first].flat().map((code_) => step?.question?.options.find((o) => o.code === code_)?.html ?? code_);
  const line = h("p", { class: "yours" }, h("strong", {}, `${runner.word("your_prediction")}: `));
  picks.forEach((pick, i) => line.append(i ? "; " : "", html(String(pick))));
  return line;
}

/** A program that the student changes; the server checks it and predicts its time. */
function editable(block, runner) {
  const word = (key) => runner.word(key);
  const rows = Math.min(24, block.text.split("\n").length + 1);
  const area = h("textarea", {
    class: "lesson-program", rows, spellcheck: "false", "aria-label": word("program"), "data-program": block.name,
  });
  area.value = block.text;
  const result = h("div", { class: "program-result", role: "status", "aria-live": "polite" });
  const run = h("button", { type: "button", class: "button primary" }, word("predict_time"));
  const reset = h("button", { type: "button", class: "button" }, word("as_it_was"));
  reset.addEventListener("click", () => {
    area.value = block.text;
    area.focus();
  });
  run.addEventListener("click", async () => {
    run.disabled = true;
    try {
      result.replaceChildren(...predicted(await request("/api/check", { body: { text: area.value } }), word));
    } catch (e) {
      result.replaceChildren(h("p", { class: "notice bad" }, e.message, " ", e.fix ?? ""));
    } finally {
      run.disabled = false;
    }
  });
  area.addEventListener("keydown", (e) => {
    if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) run.click();
  });
  return h("div", { class: "lesson-run" }, area, h("div", { class: "question-buttons" }, run, reset), result);
}

function predicted(reply, word) {
  if (!reply.ok || !reply.prediction) {
    return reply.diagnostics.slice(0, 4).map((d) => h("pre", { class: "notice bad" }, d.rendered));
  }
  const p = reply.prediction;
  const rows = p.stages.map((s) =>
    h("tr", {}, h("td", {}, s.name), h("td", {}, time(s.ms)), h("td", {}, s.bound_by), h("td", {}, s.note ?? "")));
  const head = ["stage", "time", "binds", "note"].map((key) => h("th", { scope: "col" }, word(key)));
  return [
    h("p", { class: "predicted-time" }, h("span", { class: "badge predicted" }, word("predicted")), ` ${time(p.ms)}`),
    h("div", { class: "table-wide", tabindex: "0" },
      h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows))),
  ];
}
