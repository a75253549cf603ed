// /learn/<slug>: a lesson for one person. The server checks each answer and stores none; the browser keeps them.
import { $, boot, request } from "../page.js";
import { progress, store } from "./progress.js";
import { remember } from "../mine/started.js";
import { startAlone } from "./run.js";
import { mount } from "./runner.js";

const { lesson, next, words, language } = boot;
const address = `/api/lessons/${encodeURIComponent(lesson.slug)}/answers?lang=${language}`;
const asked = new URLSearchParams(location.search).get("step");
const before = progress(lesson.slug);

/** The sessions of this lesson's steps: kept with the progress, and on the page of the visitor's sessions. */
const sessions = {
  of: (step) => progress(lesson.slug).sessions?.[step] ?? null,
  async start(step, asked) {
    const reply = await startAlone(asked);
    const session = { id: reply.id, control: reply.control_token };
    store(lesson.slug, { sessions: { ...progress(lesson.slug).sessions, [step]: session } });
    const row = { id: reply.id, title: asked.title, created: Date.now() / 1000 };
    remember({ session: row, control: { url: reply.control_url } });
    return session;
  },
  stop: ({ id, control }) =>
    request(`/api/sessions/${id}/commands`, { body: { kind: "stop", control_token: control } }),
};

mount($("lesson"), lesson, {
  sessions,
  next: () => next && { title: next.title, href: `/learn/${next.slug}?lang=${language}` },
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
