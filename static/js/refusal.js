// Why a session was refused, for a person: the reason first, then a list of what a module may hold.
import { coded, h } from "./page.js";
import { tr } from "./texts.js";

/** A reason as a whole sentence. */
export const sentence = (reason) => (/[.!?]$/.test(reason) ? reason : `${reason}.`);

function around(text, line) {
  const first = Math.max(0, line - 3);
  const rows = text.split("\n").slice(first, line + 2);
  return rows.map((row, i) => {
    const shown = `${String(first + i + 1).padStart(4)}  ${row}\n`;
    return first + i + 1 === line ? h("mark", {}, shown) : shown;
  });
}

/** The whole message, also of a session whose module has no program: `end` of the session, its source, and the link to
 * correct its text. */
export function refusalOf(end, text, fork) {
  const refused = end.state === "refused";
  const listed = end.covered.map(({ kind, names }) => [h("dt", {}, kind), h("dd", {}, names)]);
  const unasked = ["no_key", "endpoint"].includes(end.code); // nothing is wrong with the text
  const head = unasked ? tr("The model could not be asked") : refused ? tr("This cannot be optimised as it is")
    : end.state === "done" ? tr("No part of this is a program yet, so PyTorch stays") : tr("The session failed");
  const act = unasked ? tr("Start it again") : refused ? tr("Fix it in the editor") : tr("Open the text in the editor");
  return h("section", { class: "refusal", role: "alert" },
    h("h2", {}, head),
    h("p", { id: "refusal-reason", lang: "en" }, coded(sentence(end.reason))),
    end.line ? h("figure", {}, h("figcaption", {}, tr("Line {n}", { n: end.line })),
      h("pre", {}, around(text, end.line))) : null,
    listed.length ? h("details", { id: "covered" }, h("summary", {}, tr("What is covered")),
      h("dl", {}, listed)) : null,
    h("a", { class: "button primary", id: "fix-it", href: fork }, act));
}
