// The tab Words: a description in English becomes a module in the editor. The reader confirms it.
// Nothing runs by itself.
import { $, boot, coded, h, request, Told } from "../page.js";
import { state, store } from "./draft.js";
import { author, help, offer, stopWriting } from "./words_model.js";

/** `accept(module)` puts a written module into the editor; `back()` opens the tab Words. */
export function wordsTab({ accept, back }) {
  const field = $("words-text"),
    button = $("words-write");
  let asking = null;
  field.value = state.words ?? "";
  $("words-more").textContent = help();
  field.addEventListener("input", () => {
    state.words = field.value;
    store();
    stopWriting();
    $("words-error").hidden = true;
  });
  field.addEventListener("keydown", (e) => {
    if (e.key !== "Enter" || !(e.ctrlKey || e.metaKey)) return;
    e.preventDefault(); // the page would run the module of the other tab
    write();
  });
  button.addEventListener("click", write);
  $("words-examples").append(
    ...(boot.descriptions ?? []).map((text) =>
      h(
        "button",
        {
          type: "button",
          onclick: () => {
            field.value = state.words = text;
            store();
            stopWriting();
            $("words-error").hidden = true;
            field.focus();
          },
        },
        text,
      ),
    ),
  );

  async function write() {
    asking?.abort();
    stopWriting();
    const text = field.value;
    const own = (asking = new AbortController());
    button.setAttribute("aria-busy", "true");
    try {
      const written = await request("/api/words", { body: { text }, signal: own.signal });
      $("words-error").hidden = true;
      report(written, text);
      accept(written.module);
    } catch (e) {
      if (e.name !== "AbortError") fail(e, text);
    } finally {
      if (asking === own) button.removeAttribute("aria-busy");
    }
  }

  /** A module of the model goes the way of the rules' own: into the editor, for the reader to confirm. */
  function byModel(written) {
    $("words-error").hidden = true;
    reportOf(
      [
        h("strong", {}, `Written by ${author(written.model)}. `),
        "Read the module, change it if needed, then press Run.",
      ],
      [row("Computes", [written.sentence]), row("Assumed", [written.assumed.join("; ")].filter(Boolean))],
    );
    accept(written.module);
  }

  function fail(e, text) {
    const words = e instanceof Told ? (e.data.not_understood ?? []) : [];
    $("words-error").replaceChildren(
      h("strong", {}, e instanceof Told ? coded(e.message) : "The module was not written."),
      " ",
      coded(e.fix ?? "Try again."),
      words.length ? h("p", {}, "Not understood: ", places(words)) : "",
      e instanceof Told && e.status === 422 && text.trim() ? offer(text, byModel) : "",
    );
    $("words-error").hidden = false;
    field.focus();
  }

  function report(written, text) {
    reportOf(
      [h("strong", {}, "Written from your words. "), "Read the module, then press Run."],
      [
        row("Understood", [written.understood.join("; ")]),
        row("Assumed", written.assumed.length ? [written.assumed.join("; ")] : []),
        row("Not understood", places(written.not_understood), true),
      ],
      written.not_understood.length ? offer(text, byModel) : "",
    );
  }

  function reportOf(head, rows, more = "") {
    $("words-report").replaceChildren(
      h("p", {}, head),
      h("dl", {}, rows),
      more,
      h(
        "div",
        { class: "acts" },
        h("button", { type: "button", class: "button small", onclick: back }, "Change the words"),
        h("button", { type: "button", class: "button small", onclick: closeReport }, "Close"),
      ),
    );
    $("words-report").dataset.open = "true";
  }
}

const row = (title, items, warn) =>
  items.length ? [h("dt", { class: warn ? "warn" : null }, title), h("dd", {}, items)] : [];

const places = (words) =>
  words.map((w, i) => [i ? "; " : "", `“${w.text}” (line ${w.line}, column ${w.col})`, w.fix ? `: ${w.fix}` : ""]);

/** Shows what the words gave beside the module that they became, and nowhere else. */
export function showReport(kind) {
  $("words-report").hidden = kind !== "module" || $("words-report").dataset.open !== "true";
}

export function closeReport() {
  stopWriting();
  delete $("words-report").dataset.open;
  $("words-report").hidden = true;
}
