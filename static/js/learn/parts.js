// Small helpers of the lessons: HTML that the server made safe, SVG, tables, numbers as people read them.
import { h } from "../page.js";

/** A fragment of HTML from playground.learn.markdown, which has no scripts, pictures or raw HTML in it. */
export function html(text) {
  const template = document.createElement("template");
  template.innerHTML = text;
  return template.content;
}

export const NS = "http://www.w3.org/2000/svg";

/** An SVG element with children. */
export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) node.setAttribute(name, String(value));
  node.append(...children.flat().filter((c) => c !== null && c !== undefined));
  return node;
}

/** 0.1388 -> "0.139", 4096 -> "4,096". */
export function number(x) {
  if (x === null || x === undefined || !Number.isFinite(x)) return "–";
  if (Number.isInteger(x) || Math.abs(x) >= 1000) return Math.round(x).toLocaleString("en");
  return String(Number(x.toPrecision(3)));
}

/** A time in ms, as µs below 0.1 ms. */
export const time = (ms) => (ms === null ? "–" : ms >= 0.1 ? `${number(ms)} ms` : `${number(ms * 1e3)} µs`);
export const percent = (x) => `${Math.round(x * 100)}%`;

/** One pane of a session's page in the step, in the step's language, and a link to the whole page. `replay`: of a
 *  recording, which plays. */
export function pane(runner, id, name, replay) {
  const query = new URLSearchParams({ pane: name, lang: runner.step.language, ...(replay ? { replay: 1 } : {}) });
  const address = `/embed/${encodeURIComponent(id)}?${query}`;
  const title = runner.word(replay ? "recorded_pane" : "live_pane");
  const frame = h("iframe", { title, loading: "lazy", "data-session": id });
  const link = h("a", { href: `/s/${id}`, target: "_blank", rel: "noopener" },
    runner.word(replay ? "open_session" : "whole_session"));
  const place = h("div", { class: "session-pane" }, frame, link);
  const show = () => {
    frame.src = address;
    if (frame.parentNode !== place) place.replaceChildren(frame, link);
  };
  if (replay) whenLoaded(runner, place, address, show);
  else show();
  return place;
}

/** Shows a recording if this server has it; else says what is missing and how it comes here. Its frame stands there
 *  already, so that nothing moves under a finger. */
async function whenLoaded(runner, place, address, show) {
  const reply = await fetch(address, { method: "HEAD" }).catch(() => null);
  if (reply?.status !== 404) {
    show();
    return;
  }
  const again = () => whenLoaded(runner, place, address, show);
  place.replaceChildren(h("p", { class: "notice", role: "status" },
    `${runner.word("not_loaded")} ${runner.word("load_it")} `, h("code", {}, "python manage.py load_recordings")),
  h("button", { type: "button", class: "button", onclick: again }, runner.word("look_again")));
  place.dispatchEvent(new CustomEvent("notloaded", { bubbles: true }));
}

/** A table under a figure, closed at first: {head: [text], rows: [[text]]}. */
export function table(runner, head, rows) {
  return h("details", { class: "figure-table" }, h("summary", {}, runner.word("as_table")),
    h("div", { class: "table-wide", tabindex: "0" }, h("table", {},
      h("thead", {}, h("tr", {}, head.map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((text) => h("td", {}, text))))))));
}
