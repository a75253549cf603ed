// The list of lessons, with how far this browser's student came in each.
import { $, boot } from "../page.js";
import { fill } from "../texts.js";
import { forget, progress } from "./progress.js";

function draw() {
  let any = false;
  for (const lesson of boot.lessons) {
    const answers = progress(lesson.slug).answers ?? {};
    const done = lesson.questions.filter((id) => answers[id]?.right).length;
    const bar = document.querySelector(`[data-slug="${CSS.escape(lesson.slug)}"] progress`);
    bar.max = Math.max(1, lesson.questions.length);
    bar.value = done;
    bar.setAttribute("aria-label", fill(boot.words.progress, { done, all: lesson.questions.length }));
    any ||= Object.keys(answers).length > 0;
  }
  $("forget").hidden = !any;
}

$("forget").addEventListener("click", () => {
  forget();
  draw();
});
draw();
