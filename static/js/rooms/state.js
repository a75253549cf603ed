// What a room's events mean, as playground/rooms/state.py has it. The page begins with the server's state and applies
// the events that come after it.

/** The state of an answer of the API, with the seats as a Map by number. `titles`: of lessons and of their steps
 * (LESSON, LESSON/STEP) and of the test's skills (test:SKILL) in the reader's language. */
export function begin(data, titles = {}) {
  const seats = data.seats ?? [data.seat];
  const name = (one) => (one.part === "lesson" ? `${one.lesson}/${one.step}` : `test:${one.step}`);
  const steps = data.steps.map((one) => ({ ...one, title: titles[name(one)] ?? one.title }));
  const lessons = data.lessons.map((one) => ({ ...one, title: titles[one.slug] ?? one.title }));
  const byNumber = new Map(seats.map((seat) => [seat.number, seat]));
  return { ...data, steps, lessons, seats: byNumber, mine: data.seat?.number ?? null };
}

/** Apply the next events of the log. Events that were applied before change nothing. */
export function apply(room, events) {
  for (const e of events) {
    if (e.seq <= room.seq) continue;
    room.seq = e.seq;
    if (e.seat !== null) ofSeat(room, e);
    else if (CHANGES[e.kind]) CHANGES[e.kind](room, e.data);
  }
}

const CHANGES = {
  "room.paced": (room, data) => {
    room.open_to = data.step ? room.steps.findIndex((step) => step.key === data.step) : null;
  },
  "room.paused": (room) => (room.paused = true),
  "room.resumed": (room) => (room.paused = false),
  "room.message": (room, data) => (room.message = data.text),
  "room.hint": (room, data) => (room.hints = [...room.hints.filter((key) => key !== data.step), data.step]),
  "room.projected": (room, data) => (room.projected = data.number),
  "room.ended": (room) => (room.ended = true),
};

function ofSeat(room, { kind, seat: number, t, data }) {
  if (kind === "seat.joined") {
    const seat = room.seats.get(number) ?? fresh(number, data.name, t);
    Object.assign(seat, { name: data.name, free: false });
    room.seats.set(number, seat);
    return;
  }
  const seat = room.seats.get(number);
  if (!seat) return;
  if (kind === "seat.reset") {
    if (data.keep) seat.free = true;
    else room.seats.set(number, { ...fresh(number, seat.name, seat.joined), free: true });
    if (room.projected === number) room.projected = null;
  } else if (kind === "seat.step") seat.at = data.step;
  else if (kind === "seat.session") seat.sessions.push({ session: data.session, step: data.step });
  else if (kind === "seat.answered") {
    const answers = (seat.answers[data.step] ??= { tries: 0, first: data.answer, first_right: data.right });
    Object.assign(answers, { tries: answers.tries + 1, last: data.answer, right: data.right, why: data.why, t });
    seat.at = data.step;
  }
}

const fresh = (number, name, joined) => ({
  number, name, joined, at: "", free: false, answers: {}, sessions: [],
});

/** Whether students may work on a step now. */
export const isOpen = (room, key) =>
  room.open_to === null || room.steps.findIndex((step) => step.key === key) <= room.open_to;

/** A time in the reader's words, with its day: 25 Nov, 16:00. */
export const timeOf = (t, language) => new Date(t * 1000).toLocaleString(language,
  { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

export const PARTS = { before: "Test before", lesson: "Lesson", after: "Test after" };

/** The parts of a room, each with its steps: the tests as one part each, every lesson as its own. */
export function sections(room) {
  const list = [];
  for (const step of room.steps) {
    const name = step.part === "lesson" ? step.lesson : step.part;
    if (list.at(-1)?.name !== name) {
      const lesson = room.lessons.find((one) => one.slug === step.lesson);
      list.push({ name, part: step.part, title: step.part === "lesson" ? lesson.title : PARTS[step.part], steps: [] });
    }
    list.at(-1).steps.push(step);
  }
  return list;
}
