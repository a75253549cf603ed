// A question before an action, in the page's dialog: what happens, the action, and a way back.
import { $, explained, h, toast } from "./page.js";
import { tr } from "./texts.js";

/**
 * `body`: nodes; `verb`: the button's text; `act()`: a promise; `done`: the words after it succeeded, or a function of
 * its reply that returns them. A failure stands in the dialog, which stays open.
 */
export function ask(title, body, verb, act, done) {
  const problem = h("p", { class: "notice bad", role: "alert", hidden: true });
  const go = h("button", { type: "submit", class: "button primary" }, verb);
  const submit = async (e) => {
    e.preventDefault();
    go.disabled = true;
    try {
      const reply = await act();
      $("dialog").close();
      toast(typeof done === "function" ? done(reply) : done);
    } catch (error) {
      problem.replaceChildren(...explained(error));
      problem.hidden = false;
    } finally {
      go.disabled = false;
    }
  };
  const cancel = h("button", { type: "button", class: "button", onclick: () => $("dialog").close() }, tr("Cancel"));
  $("dialog").replaceChildren(h("form", { method: "dialog", onsubmit: submit },
    h("h2", { id: "dialog-title" }, title), body, problem, h("div", { class: "ends" }, cancel, go)));
  $("dialog").setAttribute("aria-labelledby", "dialog-title");
  $("dialog").showModal();
}

/** A stopped session cannot go on, so its owner confirms it. `rest`: a sentence on what would not run, or "". */
export function askToStop(title, rest, act) {
  const what = [tr("It cannot be continued; what it reached stays."), rest, tr("Pause it to go on later.")];
  ask(title, [h("p", {}, what.filter(Boolean).join(" "))], tr("Stop the session"), act, tr("Stopping."));
}
