// /learn/<slug>: a lesson for one person. The server checks each answer and stores none; the browser keeps them.
import { $, boot, request } from "../page.js";
import { progress, store } from "./progress.js";
import { mount } from "./runner.js";

const { lesson, words, language } = boot;
const address = `/api/lessons/${encodeURIComponent(lesson.slug)}/answers?lang=${language}`;
const asked = new URLSearchParams(location.search).get("step");
const before = progress(lesson.slug);
mount($("lesson"), lesson, {
  words,
  progress: { ...before, step: asked ?? before.step },
  check: async (step, answer, show) => {
    const outcome = await request(address, { body: { step, answer, show } });
    if (outcome.code !== "unreadable" && !show) {
      const answers = progress(lesson.slug).answers ?? {};
      const first = answers[step]?.first ?? answer;
      const right = outcome.right || (answers[step]?.right && answers[step].answer === answer) || false;
      store(lesson.slug, { answers: { ...answers, [step]: { answer, right, first } } });
    }
    return outcome;
  },
  onStep: (step) => {
    store(lesson.slug, { step });
    const url = new URL(location.href);
    url.searchParams.set("step", step);
    history.replaceState(null, "", url);
    for (const link of document.querySelectorAll(".languages a"))
      link.search = `?${new URLSearchParams({ lang: link.hreflang, step })}`;
  },
});
