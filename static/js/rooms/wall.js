// The teacher's wall: every seat as it works, and the controls of the room. The token comes with the teacher's link,
// stays in this browser, and leaves the address at once, because the address stands on the projector.
import { $, boot, copy, h, request, throttle } from "../page.js";
import { drop, keep, recall } from "../store.js";
import { Channel, showStatus } from "./channel.js";
import { controls, shortcut } from "./controls.js";
import { answerList } from "./answers.js";
import { drawForms, drawMoved } from "./moved.js";
import { drawProjected } from "./projected.js";
import { counted, tally } from "./tally.js";
import { apply, begin, timeOf } from "./state.js";
import { tr } from "../texts.js";
import { inLanguage, reasonOf } from "./texts.js";
import { Tiles, nameOf, stateOf } from "./tiles.js";

const NAME = `ucutlass-teacher-${boot.code}`;
const ANONYMOUS = "ucutlass-wall-anonymous";
if (boot.token) {
  const here = keep(NAME, boot.token);
  if (here) history.replaceState(null, "", inLanguage(`/w/${boot.code}/wall`)); // else a reload would lose the wall
}
const token = boot.token ?? recall(NAME) ?? "";
const headers = { "X-Teacher-Token": token };

const wall = {
  room: null, online: [], sessions: {}, anonymous: recall(ANONYMOUS) === "1", channel: null,
  tally: "", // the step whose answers the teacher shows
};

function fail(e) {
  $("error").textContent = reasonOf(e);
  $("error").hidden = false;
}

/** A command of the teacher; its event comes back over the socket. */
async function order(kind, data = {}) {
  $("error").hidden = true;
  try {
    await request(`/api/rooms/${boot.code}/commands`, { body: { kind, data }, headers });
  } catch (e) {
    fail(e);
  }
}

/** A dialog with a text, a field perhaps, and buttons: {name: [label, class, action]}. */
function ask(title, content, buttons, away = tr("Cancel")) {
  const close = () => $("dialog").close();
  $("dialog").replaceChildren(
    h("h2", {}, title), ...content,
    h("div", { class: "dialog-acts" },
      buttons.map(([label, style, action]) =>
        h("button", { type: "button", class: `button ${style}`, onclick: () => (close(), action()) }, label)),
      h("button", { type: "button", class: "button", onclick: close }, away)));
  $("dialog").showModal();
}

function reset(seat) {
  const name = nameOf(seat, wall.anonymous);
  ask(tr("Reset the seat of {name}", { name }), [
    h("p", {}, tr("The browser that has the seat loses it, and the nickname can be taken again.")),
  ], [
    [tr("Keep the answers"), "primary", () => order("reset", { seat: seat.number, keep: true })],
    [tr("Delete the answers"), "danger", () => order("reset", { seat: seat.number, keep: false })],
  ]);
}

/** Everything that a seat answered. */
async function answers(seat) {
  try {
    const list = await answerList(wall.room, seat, { lessonOf, tests: true });
    ask(tr("Answers of {name}", { name: nameOf(seat, wall.anonymous) }), [list], [], tr("Close"));
  } catch (e) {
    fail(e);
  }
}

const project = (seat) => order("project", wall.room.projected === seat.number ? {} : { seat: seat.number });

function message() {
  const field = h("input", { id: "message-text", maxlength: 400, value: wall.room.message, autocomplete: "off" });
  const label = h("label", { for: "message-text" }, tr("Text; an empty one takes the last away"));
  ask(tr("Message to everybody"), [label, field], [
    [tr("Show it"), "primary", () => order("message", { text: field.value })],
  ]);
  field.focus();
}

function end() {
  const why = tr("It takes no more answers. The results stay until you delete the room.");
  ask(tr("End the room"), [h("p", {}, why)], [
    [tr("End the room"), "danger", () => order("end")],
  ]);
}

function remove() {
  const field = h("input", { id: "confirm", autocomplete: "off", maxlength: 12 });
  ask(tr("Delete the room"), [
    h("p", {}, tr("All answers, nicknames and sessions of the room are deleted for ever. Export the results first.")),
    h("label", { for: "confirm" }, tr("Type the code {code}", { code: boot.code })), field,
  ], [[tr("Delete everything"), "danger", () => destroy(field.value)]]);
  field.focus();
}

async function destroy(code) {
  const path = `/api/rooms/${boot.code}?confirm=${encodeURIComponent(code)}`;
  const reply = await fetch(path, { method: "DELETE", headers });
  if (!reply.ok) {
    const { error, fix } = await reply.json();
    fail({ message: error, fix });
    return;
  }
  drop(NAME);
  location.assign(inLanguage("/w"));
}

const FILES = { csv: "results.csv", json: "results", "moved.csv": "moved.csv" };

/** The results as a file, without names where the wall hides them; the token is in a header, so no link brings them. */
async function save(form) {
  const path = `${FILES[form]}?anonymous=${wall.anonymous}`;
  const reply = await fetch(`/api/rooms/${boot.code}/${path}`, { headers });
  if (!reply.ok) {
    fail({ message: tr("The results could not be read."), fix: tr("Try again.") });
    return;
  }
  const link = h("a", { href: URL.createObjectURL(await reply.blob()), download: `room-${boot.code}.${form}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function hideNames() {
  wall.anonymous = !wall.anonymous;
  keep(ANONYMOUS, wall.anonymous ? "1" : "0");
  draw();
}

/** The questions of the test: the teacher opens them, because the projector shows the answers too. */
async function showForms() {
  try {
    drawForms((await request(`/api/rooms/${boot.code}/test?lang=${boot.language}`, { headers })).forms);
  } catch (e) {
    fail(e);
  }
}

const lessons = new Map(); // slug -> a promise of its JSON
function lessonOf(slug) {
  if (!lessons.has(slug)) {
    const wanted = request(`/api/rooms/${boot.code}/lessons/${slug}?lang=${boot.language}`, { headers });
    wanted.catch(() => lessons.delete(slug));
    lessons.set(slug, wanted);
  }
  return lessons.get(slug);
}

/** How the room answered the step that it is at, until the teacher hides it or the room goes on. */
function showAnswers() {
  const { key } = now(wall.room);
  wall.tally = wall.tally === key ? "" : key;
  draw();
}

async function drawTally(room) {
  const step = now(room);
  $("tally").hidden = wall.tally !== step.key;
  if ($("tally").hidden) return;
  const { question } = (await lessonOf(step.lesson)).steps.find((one) => one.id === step.step);
  const rows = counted([...room.seats.values()].map((seat) => seat.answers[step.key]).filter(Boolean));
  const text = JSON.stringify([step.key, rows]);
  if ($("tally").dataset.drawn === text) return;
  $("tally").dataset.drawn = text;
  $("tally").replaceChildren(h("h2", {}, tr("How the room answered")),
    rows.length ? tally(question, rows) : h("p", { class: "faint" }, tr("Nobody has answered this step yet.")));
}

/** The step that the room is at: the last open one, or the one where most seats are. */
function now(room) {
  if (room.open_to !== null) return room.steps[room.open_to];
  const votes = new Map();
  for (const seat of room.seats.values()) votes.set(seat.at, (votes.get(seat.at) ?? 0) + 1);
  const most = [...votes].filter(([key]) => key).sort((a, b) => b[1] - a[1])[0]?.[0];
  return room.steps.find((step) => step.key === most) ?? room.steps[0];
}

const acts = {
  pause: () => order(wall.room.paused ? "resume" : "pause"),
  next: () => {
    const place = wall.room.open_to ?? wall.room.steps.length;
    order("pace", place + 1 < wall.room.steps.length ? { step: wall.room.steps[place + 1].key } : {});
  },
  all: () => order("pace", wall.room.open_to === null ? { step: now(wall.room).key } : {}),
  hint: () => order("hint", { step: now(wall.room).key }),
  anonymous: hideNames, message, end, remove,
  tally: showAnswers,
  csv: () => save("csv"),
  json: () => save("json"),
  moved: () => save("moved.csv"),
  link: () => copy(`${location.origin}/w/${boot.code}/wall/${token}`,
    tr("Teacher's link copied. Keep it to yourself.")),
};
const tiles = new Tiles($("tiles"), { answers, project, reset });

function draw() {
  const { room } = wall;
  const seats = [...room.seats.values()].filter((seat) => !seat.free);
  $("room-title").textContent = room.title;
  $("present").textContent = tr("{here} here of {joined} joined, {seats} seats",
    { here: wall.online.length, joined: seats.length, seats: room.seats_limit });
  $("nobody").hidden = room.seats.size > 0;
  const closed = room.deadline !== null && Date.now() / 1000 >= room.deadline;
  $("state").hidden = !(room.paused || room.ended || closed || room.message);
  $("state").textContent = room.ended ? tr("The room has ended.") : closed ? tr("The deadline has passed.")
    : room.paused ? tr("The room is paused: answers are refused.")
      : tr("Everybody reads: {text}", { text: room.message });
  $("until").hidden = room.deadline === null;
  if (room.deadline !== null)
    $("until").textContent = tr("Answers until {time}", { time: timeOf(room.deadline, boot.language) });
  drawNow(room, seats);
  drawTally(room).catch(fail);
  controls($("acts"), wall, now(room), acts);
  tiles.draw(room, wall);
  drawProjected(room, wall, { lessonOf, takeDown: () => order("project") }).catch(fail);
  drawMoved(room, wall);
}
const soon = throttle(draw, 60);

function drawNow(room, seats) {
  const step = now(room);
  const place = room.steps.indexOf(step) + 1;
  $("now-title").textContent = step.title;
  const answers = seats.filter((seat) => seat.answers[step.key]).length;
  const right = seats.filter((seat) => stateOf(seat, step) === "right").length;
  const share = seats.length ? answers / seats.length : 0;
  $("now-bar").hidden = !step.question;
  $("now-bar").replaceChildren(h("span", { style: { width: `${100 * share}%` } }));
  const values = { valuemin: 0, valuemax: seats.length, valuenow: answers };
  for (const [name, value] of Object.entries(values)) $("now-bar").setAttribute(`aria-${name}`, value);
  const count = { n: place, all: room.steps.length };
  const about = room.open_to === null ? tr("Step {n} of {all}, all open", count) : tr("Step {n} of {all}", count);
  const counted = { about, n: answers, all: seats.length, right };
  $("now-text").textContent = !step.question ? about
    : step.part === "before" ? tr("{about}. {n} of {all} answered.", counted)
      : tr("{about}. {n} of {all} answered, {right} right.", counted);
}

// ---- beginning --------------------------------------------------------------------------------------------------
async function start() {
  if (!token) {
    $("no-token").hidden = false;
    return;
  }
  const data = await request(`/api/rooms/${boot.code}/results`, { headers });
  wall.room = begin(data, boot.titles);
  wall.sessions = data.sessions;
  $("wall").hidden = false;
  $("lonely").hidden = !boot.lonely;
  draw();
  wall.channel = new Channel({
    code: boot.code, path: boot.ws_path, token, header: "X-Teacher-Token", seq: () => wall.room.seq,
    state: async () => ({ sessions: (await request(`/api/rooms/${boot.code}/results`, { headers })).sessions }),
    onStatus: (status) => {
      showStatus($("link-state"), status, boot.words);
      if (status === "missing") fail({ message: tr("This room was deleted.") });
    },
    onMessage: (news) => {
      if (news.events) apply(wall.room, news.events);
      if (news.online) wall.online = news.online;
      if (news.sessions) wall.sessions = news.sessions;
      soon();
    },
  });
  wall.channel.start();
  setInterval(soon, 5000); // a deadline comes without an event
  $("moved-csv").addEventListener("click", acts.moved);
  $("questions").addEventListener("toggle", showForms, { once: true });
  addEventListener("keydown", (e) => shortcut(e, acts));
}

start().catch((e) => {
  $("no-token").hidden = e.status !== 403;
  $("no-token-why").textContent = reasonOf(e);
  if (e.status !== 403) {
    $("wall").hidden = false;
    fail(e);
  }
});
