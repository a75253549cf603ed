// A student's page: join, then the lessons at the teacher's pace. The server checks every answer and keeps it.
import { $, answer, boot, h, request, throttle, Told } from "../page.js";
import { leadOn, mount } from "../learn/runner.js";
import { html } from "../learn/parts.js";
import { fill } from "../texts.js";
import { Channel, showStatus } from "./channel.js";
import { quiz } from "./quiz.js";
import { MySession } from "./my_session.js";
import { Seat } from "./seat.js";
import { reasonOf } from "./texts.js";
import { apply, begin, isOpen, sections, timeOf } from "./state.js";
import { tally } from "./tally.js";
import { tr } from "../texts.js";

const word = (key) => boot.words[key] ?? key;
const say = (key, values) => fill(word(key), values);
const lessons = new Map(); // its path in the API (lessons/SLUG, test/PART) -> its JSON

let room = null;
let section = null; // the part on the screen
let runner = null; // of the lesson on the screen
let test = null; // on the screen where there is no runner
let channel = null;
const seat = new Seat(boot.code, boot.language, (number) => {
  $("unsent").hidden = number === 0;
  $("unsent").textContent = say("unsent", { n: number });
});
const session = new MySession(seat, () => room, say);

function fail(e) {
  $("error").textContent = reasonOf(e);
  $("error").hidden = false;
}

// ---- joining ----------------------------------------------------------------------------------------------------
async function askName(why = "") {
  channel?.stop();
  $("room").hidden = true;
  $("join").hidden = false;
  $("join-error").hidden = !why;
  $("join-error").textContent = why;
  const about = await request(`/api/rooms/${boot.code}`);
  $("join-title").textContent = about.title;
  $("join-about").textContent = about.lessons.map((one) => boot.titles[one.slug] ?? one.title).join(" · ");
  $("nickname").focus();
}

answer($("join-form"), async () => {
  try {
    await seat.join($("nickname").value);
    await enter();
  } catch (problem) {
    $("join-error").textContent = reasonOf(problem);
    $("join-error").hidden = false;
  }
});

$("leave").addEventListener("click", () => $("leaving").showModal());
$("leaving").addEventListener("close", () => {
  if ($("leaving").returnValue !== "leave") return;
  seat.forget();
  location.reload();
});

async function enter() {
  try {
    room = begin(await seat.get("seat"), boot.titles);
  } catch (e) {
    if (e.status !== 403) throw e;
    seat.forget();
    await askName(word("not_valid"));
    return;
  }
  $("join").hidden = true;
  $("room").hidden = false;
  $("room-title").textContent = room.title;
  $("who").textContent = mine().name;
  channel = new Channel({
    code: boot.code, path: boot.ws_path, token: seat.token, header: "X-Seat-Token", seq: () => room.seq,
    state: async () => ({ session: (await seat.get("seat")).session }),
    onStatus: (status) => {
      showStatus($("link-state"), status, boot.words);
      if (status === "refused") {
        seat.forget();
        askName(word("was_reset")).catch(fail);
      } else if (status === "missing") {
        fail({ message: word("deleted") });
      }
    },
    onMessage: (message) => {
      if (message.session) session.follow(message.session);
      if (!message.events) return;
      apply(room, message.events);
      soon();
    },
  });
  channel.start();
  session.start();
  seat.sendAgain().then((refused) => {
    if (refused.length) fail({ message: say("unsent_refused", { why: reasonOf(refused[0]) }) });
  });
  const last = mine().at;
  const list = sections(room);
  await show(list.find((one) => one.steps.some((step) => step.key === last)) ?? list[0]);
}

const mine = () => room.seats.get(room.mine);

// ---- what is on the screen --------------------------------------------------------------------------------------
async function show(next, focus = false) {
  section = next;
  draw();
  const path = next.part === "lesson" ? `lessons/${next.name}` : `test/${next.part}`;
  if (!lessons.has(path)) lessons.set(path, await seat.get(`${path}?lang=${boot.language}`));
  if (section !== next) return;
  if (next.part === "lesson") showLesson(next, lessons.get(path));
  else showTest(next, lessons.get(path));
  if (focus) $("work").focus();
  draw();
}

function showLesson({ name, steps }, lesson) {
  const own = mine().answers;
  const answers = {};
  for (const { key, step } of steps)
    if (own[key]) answers[step] = { answer: own[key].last, right: own[key].right, first: own[key].first };
  const key = (id) => `${name}/${id}`;
  $("work").className = "work";
  runner = mount($("work"), lesson, {
    words: boot.words,
    progress: { step: steps.find((step) => step.key === mine().at)?.step, answers },
    locked: (id) => !isOpen(room, key(id)),
    onStep: (id) => {
      seat.post("steps", { step: key(id) }).catch(() => {});
      drawHints(key(id));
      drawTally().catch(fail);
    },
    check: (id, answer, all) => check(key(id), answer, all),
    sessions: sessions(key),
    next: following,
  });
}

/** The part of the room after the one on the screen; null after the last one, and while it is shut. */
function following() {
  const list = sections(room);
  const next = list[list.findIndex((one) => one.name === section.name) + 1];
  if (!next || !isOpen(room, next.steps[0].key)) return null;
  return { title: titleOf(next), open: () => show(next, true).catch(fail) };
}

const titleOf = (one) => (one.part === "lesson" ? one.title : word(`test_${one.part}`));

/** The sessions of a lesson's steps, with the room's quota. */
function sessions(key) {
  return {
    of(id) {
      const last = mine().sessions.findLast((one) => one.step === key(id));
      return last ? { id: last.session, control: seat.controls[last.session] } : null;
    },
    async start(id, asked) {
      try {
        return await seat.run(key(id), { ...asked, trials: Math.min(asked.trials, room.trials) });
      } catch (e) {
        throw new Told(reasonOf(e), "", e.status);
      }
    },
    stop: ({ id, control }) =>
      request(`/api/sessions/${id}/commands`, { body: { kind: "stop", control_token: control } }),
  };
}

function showTest({ part, steps }, questions) {
  runner = null;
  $("work").className = "panel pad work";
  test = quiz($("work"), {
    steps: steps.map(({ key, step }) => ({ key, step: questions.steps.find((s) => s.id === step) })),
    answers: mine().answers,
    locked: (key) => !isOpen(room, key),
    check: (key, answer) => check(key, answer),
    word,
    intro: word(`once_${part}`),
    end: () => leadOn(following(), boot.words),
  });
  if (steps.some((step) => isOpen(room, step.key))) seat.post("steps", { step: steps[0].key }).catch(() => {});
}

/** The server's verdict on an answer. One that is right already is not sent again. */
async function check(key, answer, all = false) {
  const before = mine().answers[key];
  if (before?.right && JSON.stringify(before.last) === JSON.stringify(answer))
    return { right: true, code: "right", html: before.why, known: true, answer: "" };
  try {
    const reply = await seat.answer(key, answer, all);
    return reply.outcome ?? { right: null, code: "stored", html: "" };
  } catch (e) {
    if (e.status !== 422) throw new Told(reasonOf(e), "", e.status);
    return { right: false, code: "unreadable", html: h("span", {}, e.message).innerHTML };
  }
}

let open = null;
function draw() {
  $("state").hidden = !(room.paused || room.ended || late());
  $("state").textContent = room.ended ? word("ended")
    : late() ? say("too_late", { time: timeOf(room.deadline, boot.language) }) : word("paused");
  $("until").hidden = room.deadline === null || late();
  if (room.deadline !== null)
    $("until").textContent = tr("Answers until {time}", { time: timeOf(room.deadline, boot.language) });
  $("message").hidden = !room.message;
  $("message").textContent = room.message;
  $("sections").replaceChildren(...sections(room).map(link));
  if (open !== room.open_to) {
    open = room.open_to;
    (runner ?? test)?.refresh();
  }
  if (runner) drawHints(`${section.name}/${runner.step.id}`);
  drawTally().catch(fail);
  session.draw();
}
const soon = throttle(draw, 60);

function link(one) {
  const questions = one.steps.filter((step) => step.question);
  const answered = questions.filter((step) => mine().answers[step.key]).length;
  return h("button", {
    type: "button", class: "button small", "aria-current": one.name === section?.name ? "true" : null,
    disabled: !isOpen(room, one.steps[0].key), onclick: () => show(one, true).catch(fail),
  }, titleOf(one),
  h("span", { class: "faint" }, ` ${say("answered", { done: answered, all: questions.length })}`));
}

/** The hints that the teacher shows to everybody, of the step on the screen. */
function drawHints(key) {
  const shown = room.hints.includes(key) && section.part === "lesson";
  const step = shown && lessons.get(`lessons/${section.name}`).steps.find((s) => key === `${section.name}/${s.id}`);
  const texts = step ? step.hints : [];
  if ($("hints").dataset.key === `${key} ${texts.length}`) return;
  $("hints").dataset.key = `${key} ${texts.length}`;
  $("hints").replaceChildren(...texts.map((text) => {
    const item = h("p", { class: "notice" }, h("strong", {}, word("hint_of_teacher")));
    item.append(html(text));
    return item;
  }));
}

/** How the room answered the step on the screen, for a student who has it right. */
async function drawTally() {
  const step = runner?.step;
  const key = step && `${section.name}/${step.id}`;
  const own = key && mine().answers[key];
  const shown = own?.right ? `${key} ${own.tries}` : "";
  if ($("tally").dataset.shown === shown) return;
  $("tally").dataset.shown = shown;
  $("tally").hidden = true;
  if (!shown) return;
  const { answers } = await seat.get(`answers?step=${encodeURIComponent(key)}`);
  if ($("tally").dataset.shown !== shown) return;
  const last = JSON.stringify(own.last);
  const rows = answers.map((row) => ({ ...row, right: JSON.stringify(row.answer) === last }));
  $("tally").replaceChildren(h("h2", {}, tr("How the room answered")), tally(step.question, rows));
  $("tally").hidden = false;
}

const late = () => room.deadline !== null && Date.now() / 1000 >= room.deadline;

setInterval(() => room && soon(), 5000); // a deadline comes without an event
(seat.token ? enter() : askName()).catch((e) => {
  $("room").hidden = false;
  fail(e);
});
