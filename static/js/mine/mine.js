// My sessions: owner tokens and the sessions that were started with them. This browser keeps the tokens' key, which
// lists and revokes them and stops their sessions; a token itself is shown once and kept by nobody.
import { $, answer, boot, copy, explained, h, request, Told } from "../page.js";
import { askToStop } from "../dialog.js";
import { keep, recall } from "../store.js";
import { around, logged, tr } from "../texts.js";
import { forget, started } from "./started.js";

const KEY = "ucutlass-owner-key";
const KOREAN = document.documentElement.lang === "ko"; // else as the browser writes dates
const REFRESH = 5000; // ms
const COLUMNS = [tr("Session"), tr("State"), tr("Started"), h("span", { class: "sr" }, tr("Actions"))];
const head = () => h("thead", {}, h("tr", {}, COLUMNS.map((name) => h("th", { scope: "col" },
  name.cloneNode?.(true) ?? name))));

const key = () => recall(KEY) ?? "";
const withKey = () => ({ "X-Owner-Key": key() });
const when = (t) => (t ? new Date(t * 1000).toLocaleString(KOREAN ? "ko" : undefined) : tr("never"));

function fail(e) {
  $("error").replaceChildren(...explained({ message: tr(e.message), fix: e.fix && tr(e.fix) }));
  $("error").hidden = false;
}

/** An action of a button. Shows a failure, then the new list. */
async function act(action) {
  $("error").hidden = true;
  try {
    await action();
    await show();
  } catch (e) {
    fail(e);
  }
}

async function make() {
  const body = { label: $("label").value.trim() };
  const answer = await request("/api/tokens", { body, headers: key() ? withKey() : {} });
  keep(KEY, answer.key);
  const header = `Authorization: Bearer ${answer.token}`;
  $("token").textContent = answer.token;
  $("claude").textContent = `claude mcp add --transport http ucutlass ${boot.mcp_url} --header "${header}"`;
  const server = { type: "http", url: boot.mcp_url, headers: { Authorization: `Bearer ${answer.token}` } };
  $("json").textContent = JSON.stringify({ mcpServers: { ucutlass: server } }, null, 2);
  $("made").hidden = false;
}

async function revoke(id) {
  const reply = await fetch(`/api/tokens/${id}`, { method: "DELETE", headers: withKey() });
  if (!reply.ok) throw new Told("The token was not revoked.", "Try again.");
}

/** Asks, and then stops a session with the token that controls it. */
const stop = (id, title, token) => askToStop(around("Stop “{title}”?", "title", logged(title)), "", async () => {
  await request(`/api/sessions/${id}/commands`, { body: { kind: "stop" }, headers: { "X-Control-Token": token } });
  await show();
});
const stopButton = (...what) =>
  h("button", { type: "button", class: "button small", onclick: () => stop(...what) }, tr("Stop"));

const STATE = { queued: "queued", running: "running", ended: "ended", deleted: "deleted" };
const stateOf = (state) => tr(STATE[state] ?? state);

const rowOf = (s) =>
  h("tr", {},
    h("td", {}, h("a", { href: new URL(s.view_url, location.href).pathname }, logged(s.title))),
    h("td", {}, stateOf(s.state)),
    h("td", {}, when(s.created)),
    h("td", {}, s.state === "ended" ? null : stopButton(s.id, s.title, key())));

const tokenOf = (t) =>
  h("article", { class: "token" },
    h("header", {},
      h("h3", {}, t.label || tr("without a name")),
      h("span", { class: "faint" },
        tr("made {when}, last used {last}", { when: when(t.created), last: when(t.last_used) })),
      t.revoked ? h("span", {}, tr("revoked {when}", { when: when(t.revoked) }))
        : h("button", { type: "button", class: "button small", onclick: () => act(() => revoke(t.id)) }, tr("Revoke"))),
    t.sessions.length
      ? h("div", { class: "table" }, h("table", {},
          head(),
          h("tbody", {}, t.sessions.map(rowOf))))
      : h("p", { class: "faint" }, tr("No session yet.")));

// ---- sessions that were started on the page, each with its own control link ----

const tokenFrom = (control) => control.split("/").at(-1);
const states = new Map(); // id -> what the server says of it

async function ask(row) {
  if (states.get(row.id)?.state === "ended") return;
  try {
    states.set(row.id, await request(`/api/sessions/${row.id}`));
  } catch (e) {
    if (e.status === 404) states.set(row.id, { state: "deleted" });
  }
}

function startedRow(row) {
  const known = states.get(row.id);
  const state = known?.state ?? "…";
  const best = known?.summary?.best;
  const button = (text, action) =>
    h("button", { type: "button", class: "button small", onclick: () => act(action) }, text);
  const link = new URL(row.control, location.href).href;
  return h("tr", {},
    h("td", {}, state === "deleted" ? logged(row.title)
      : h("a", { href: row.control }, logged(known?.title || row.title))),
    h("td", {}, stateOf(state),
      best ? h("span", { class: "faint" }, ` ${best.speedup.toFixed(2)}× ${tr(best.kind)}`) : null),
    h("td", {}, when(row.created)),
    h("td", {}, h("span", { class: "row-acts" },
      ["queued", "running"].includes(state)
        ? stopButton(row.id, known.title || row.title, tokenFrom(row.control)) : null,
      state === "deleted" ? null
        : button(tr("Copy control link"),
          () => copy(link, tr("Control link copied: whoever has it can stop this session."))),
      button(tr("Forget"), () => forget(row.id)))));
}

async function showStarted() {
  const rows = started();
  $("started-none").hidden = rows.length > 0;
  for (let i = 0; i < rows.length; i += 8) await Promise.all(rows.slice(i, i + 8).map(ask));
  $("started").replaceChildren(...(rows.length
    ? [h("div", { class: "table" }, h("table", {},
        head(),
        h("tbody", {}, rows.map(startedRow))))]
    : []));
}

async function show() {
  await showStarted();
  if (!key()) return;
  const { tokens } = await request("/api/tokens", { headers: withKey() });
  $("none").hidden = tokens.length > 0;
  $("tokens").replaceChildren(...tokens.map(tokenOf));
}

answer($("make"), () => act(make));
show().catch(fail);
setInterval(() => document.hidden || show().catch(() => {}), REFRESH);
