// The buttons above the wall, and their keys.
import { h } from "../page.js";
import { tr } from "../texts.js";

const KEYS = { p: "pause", n: "next", h: "hint", a: "anonymous", m: "message", r: "tally" };

/** [act, label, key, style] of the buttons in a state of the room. */
function buttons(wall, step) {
  const { room } = wall;
  const paced = room.open_to !== null;
  const last = paced && room.open_to + 1 >= room.steps.length;
  const run = [
    ["pause", room.paused ? tr("Resume") : tr("Pause"), "p", room.paused ? "primary" : ""],
    paced ? ["next", last ? tr("Open all") : tr("Open the next step"), "n", "primary"] : null,
    ["all", paced ? tr("Let them run") : tr("Pace the room"), "", ""],
    step.part === "lesson" ? ["hint", tr("Hint for all"), "h", ""] : null,
    step.part === "lesson" && step.question
      ? ["tally", wall.tally === step.key ? tr("Hide the answers") : tr("Show the answers"), "r", ""] : null,
    ["message", tr("Message…"), "m", ""],
  ];
  return [
    ...(room.ended ? [] : run),
    ["anonymous", wall.anonymous ? tr("Show names") : tr("Hide names"), "a", ""],
    ["csv", tr("Results (CSV)"), "", ""],
    ["json", tr("Results (JSON)"), "", ""],
    ["link", tr("Copy the teacher's link"), "", ""],
    room.ended ? null : ["end", tr("End…"), "", ""],
    ["remove", tr("Delete…"), "", "danger"],
  ].filter(Boolean);
}

/** Draw the toolbar; a button that stays keeps the focus. */
export function controls(bar, wall, step, acts) {
  const rows = buttons(wall, step);
  const text = JSON.stringify(rows);
  if (bar.dataset.rows === text) return;
  bar.dataset.rows = text;
  const focus = bar.contains(document.activeElement) ? document.activeElement.dataset.act : null;
  bar.replaceChildren(...rows.map(([act, label, key, style]) =>
    h("button", { type: "button", class: `button ${style}`, "data-act": act, "aria-keyshortcuts": key || null,
      onclick: () => acts[act]() }, label, key ? h("kbd", { "aria-hidden": "true" }, key) : null)));
  if (focus) bar.querySelector(`[data-act="${focus}"]`)?.focus();
}

/** A key alone is a button's, outside of fields and dialogs. */
export function shortcut(e, acts) {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest?.("input, textarea, select, dialog, iframe")) return;
  const act = KEYS[e.key];
  const button = act && document.querySelector(`#acts [data-act="${act}"]`);
  if (!button) return;
  e.preventDefault();
  acts[act]();
}
