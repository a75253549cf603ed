// Why a session was refused, as a person reads it: the reason first, what is covered as a list to open.
import { h } from "./page.js";

/** Text with `code` between backticks as nodes. */
const marked = (text) => text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));

/** {reason, covered: [[kind, names]]} of the engine's sentence, which lists what is covered after a semicolon. */
export function parts(text) {
  const [reason, list] = text.split("; covered are: ");
  return {
    reason: list === undefined || /[.!?]$/.test(reason) ? reason : `${reason}.`,
    covered: (list ?? "").split("; ").filter(Boolean).map((row) => {
      const found = /^(.*?) \((.*)\)$/.exec(row);
      return found ? [found[1], found[2]] : [row, ""];
    }),
  };
}

function around(text, line) {
  const first = Math.max(0, line - 3);
  return text.split("\n").slice(first, line + 2).map((row, i) => {
    const shown = `${String(first + i + 1).padStart(4)}  ${row}\n`;
    return first + i + 1 === line ? h("mark", {}, shown) : shown;
  });
}

/** The whole message: `end` of the session, its source, and where its text can be put right. */
export function refusalOf(end, text, fork) {
  const { reason, covered } = parts(end.reason);
  const refused = end.state === "refused";
  return h("section", { class: "refusal", role: "alert" },
    h("h2", {}, refused ? "This cannot be optimised as it is" : "The session failed"),
    h("p", { id: "refusal-reason" }, marked(end.line && !/\bline \d/i.test(reason) ? `Line ${end.line}: ${reason}` : reason)),
    end.line ? h("pre", {}, around(text, end.line)) : null,
    covered.length ? h("details", { id: "covered" }, h("summary", {}, "What is covered"),
      h("dl", {}, covered.map(([kind, names]) => [h("dt", {}, kind), h("dd", {}, names)]))) : null,
    h("a", { class: "button primary", id: "fix-it", href: fork }, refused ? "Fix it in the editor" : "Open the text in the editor"));
}
