// Why a session was refused, for a person: the reason first, then a list of what a module may hold.
import { h } from "./page.js";

/** Text with `code` between backticks as nodes. */
const marked = (text) => text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));

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
  return h("section", { class: "refusal", role: "alert" },
    h("h2", {}, unasked ? "The model could not be asked"
      : refused ? "This cannot be optimised as it is"
      : end.state === "done" ? "No part of this is a program yet, so PyTorch stays" : "The session failed"),
    h("p", { id: "refusal-reason" }, marked(sentence(end.reason))),
    end.line ? h("figure", {}, h("figcaption", {}, `Line ${end.line}`), h("pre", {}, around(text, end.line))) : null,
    listed.length ? h("details", { id: "covered" }, h("summary", {}, "What is covered"), h("dl", {}, listed)) : null,
    h("a", { class: "button primary", id: "fix-it", href: fork },
      unasked ? "Start it again" : refused ? "Fix it in the editor" : "Open the text in the editor"));
}
