// The buttons above the wall, and their keys.
import { h } from "../page.js";

const KEYS = { p: "pause", n: "next", h: "hint", a: "anonymous", m: "message" };

/** [act, label, key, style] of the buttons in a state of the room. */
function buttons(wall, step) {
  const { room } = wall;
  const paced = room.open_to !== null;
  const last = paced && room.open_to + 1 >= room.steps.length;
  const run = [
    ["pause", room.paused ? "Resume" : "Pause", "p", room.paused ? "primary" : ""],
    paced ? ["next", last ? "Open all" : "Open the next step", "n", "primary"] : null,
    ["all", paced ? "Let them run" : "Pace the room", "", ""],
    step.part === "lesson" ? ["hint", "Hint for all", "h", ""] : null,
    ["message", "Message…", "m", ""],
  ];
  return [
    ...(room.ended ? [] : run),
    ["anonymous", wall.anonymous ? "Show names" : "Hide names", "a", ""],
    ["csv", "Results (CSV)", "", ""],
    ["json", "Results (JSON)", "", ""],
    ["link", "Copy the teacher's link", "", ""],
    room.ended ? null : ["end", "End…", "", ""],
    ["remove", "Delete…", "", "danger"],
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
