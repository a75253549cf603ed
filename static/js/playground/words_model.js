// Words that the rules do not read can go to a model. The reader sees first what is sent where, and presses a button.
import { boot, explained, h, request } from "../page.js";

const EVERY = 1000; // ms between two looks for the answer: an engine stops the model when nobody looks
const REHEARSED = "rehearsed"; // the model's name where rules play one

/** {model, host} of the model that an engine asks for modules, or {missing}. */
function model() {
  const known = (boot.engines ?? []).map((engine) => engine.device?.words).filter(Boolean);
  return known.find((m) => m.model) ?? known.find((m) => m.missing) ?? {};
}

/** Says in one sentence what a model adds, or that one is there. */
export const help = () =>
  model().model
    ? "Words beyond these rules can go to a language model, if you press its button."
    : "With a language model set on the server, words beyond these rules would work too.";

/** Who wrote a module, in words. */
export const author = (name) => (name === REHEARSED ? "a rehearsal: rules, and no model" : name);

let stop = null; // ends the writing that is under way

/** Stops the model, where one writes. */
export const stopWriting = () => stop?.();

addEventListener("pagehide", stopWriting);

/**
 * The offer to send `text` to the model: what is sent where, and a button; "" where there is no model.
 * `accept(written)` gets {module, sentence, assumed, model}.
 */
export function offer(text, accept) {
  const ready = model();
  if (!ready.model) return "";
  const state = h("p", { class: "words-state", role: "status" });
  const button = h("button", { type: "button", class: "button small" }, "Let the model write it");
  const cancel = h("button", { type: "button", class: "button small", hidden: true }, "Cancel");
  const node = h("div", { class: "words-offer" },
    h("p", { class: "consent" }, "A language model may read these words. They go to ", h("b", {}, ready.host),
      " for the model ", h("b", {}, ready.model), ", and nothing else is sent. ",
      "You see its module before anything runs."),
    state, h("div", { class: "acts" }, button, cancel));
  const writing = (on) => { button.hidden = on; cancel.hidden = !on; };
  cancel.addEventListener("click", () => stop?.());
  button.addEventListener("click", async () => {
    stopWriting();
    writing(true);
    state.className = "words-state";
    state.textContent = "Waiting for an engine …";
    const own = new AbortController();
    let id = null;
    const end = (stop = () => {
      own.abort();
      if (id) fetch(path(id), { method: "DELETE", keepalive: true }).catch(() => {});
    });
    try {
      const asked = await request("/api/words/model", { body: { text } });
      id = asked.id;
      if (own.signal.aborted) { end(); throw new DOMException("", "AbortError"); }
      const written = await answer(id, own.signal, () => { state.textContent = `${author(asked.model)} writes …`; });
      state.textContent = "";
      accept(written);
    } catch (e) {
      const aborted = e.name === "AbortError";
      state.replaceChildren(...(aborted ? ["Stopped. Nothing was written."] : explained(e)));
      state.classList.toggle("bad", !aborted);
    } finally {
      if (stop === end) stop = null;
      writing(false);
    }
  });
  return node;
}

const path = (id) => `/api/words/model/${encodeURIComponent(id)}`;

/** The model's module, when it is there. Raises an Error with `fix`, and AbortError. */
async function answer(id, signal, begun) {
  for (;;) {
    const now = await request(path(id), { signal });
    if (now.state === "done") return now;
    if (now.state === "failed") throw Object.assign(new Error(now.error), { fix: now.fix });
    if (now.state === "writing") begun();
    await new Promise((resolve, reject) => {
      const timer = setTimeout(resolve, EVERY);
      signal.addEventListener("abort", () => { clearTimeout(timer); reject(new DOMException("", "AbortError")); },
        { once: true });
    });
  }
}
