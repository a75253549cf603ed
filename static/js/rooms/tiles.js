// One tile a seat: the step it is at, its answers as marks with a shape each, and its gap to the limit as a bar.
import { h } from "../page.js";
import { isOpen } from "./state.js";
import { launchBinds } from "../session/words.js";
import { tr } from "../texts.js";

const MARKS = { right: "✓", wrong: "✗", open: "·", stored: "●" };

/** The name of a seat on the wall; the projector may hide names. */
export const nameOf = (seat, anonymous) => (anonymous ? tr("Seat {n}", { n: seat.number }) : seat.name);

/** What a seat did with a question: right | wrong | stored (a test's answer) | open. */
export function stateOf(seat, step) {
  const answer = seat.answers[step.key];
  if (!answer) return "open";
  if (step.part === "before") return "stored";
  return answer.right ? "right" : "wrong";
}

/** The tiles of a room. `acts`: {answers, project, reset}(seat); `online`: numbers of the seats whose page is open. */
export class Tiles {
  constructor(list, acts) {
    Object.assign(this, { list, acts, drawn: new Map() });
    list.addEventListener("keydown", (e) => this.key(e));
  }

  draw(room, { anonymous, online, sessions }) {
    const seats = [...room.seats.values()].sort((a, b) => a.number - b.number);
    const wanted = new Set(seats.map((seat) => seat.number));
    for (const [number, { node }] of this.drawn) if (!wanted.has(number)) this.remove(number, node);
    for (const seat of seats) {
      const session = sessions[seat.number] ?? null;
      const here = online.includes(seat.number);
      const step = room.steps.find((one) => one.key === seat.at);
      const view = { anonymous, here, session, answers: seat.answers, at: seat.at, free: seat.free, name: seat.name,
        open_to: room.open_to, projected: room.projected === seat.number };
      const text = JSON.stringify(view);
      const before = this.drawn.get(seat.number);
      if (before?.text === text) continue;
      const node = before?.node ?? h("li", { class: "tile", "data-seat": seat.number });
      const focus = node.contains(document.activeElement) ? document.activeElement.dataset.act : null;
      node.className = `tile${view.projected ? " projected-seat" : ""}${here ? "" : " away"}`;
      node.replaceChildren(...this.parts(room, seat, step, view));
      if (!before) this.list.append(node);
      if (focus) node.querySelector(`[data-act="${focus}"]`)?.focus();
      this.drawn.set(seat.number, { node, text });
    }
  }

  remove(number, node) {
    node.remove();
    this.drawn.delete(number);
  }

  parts(room, seat, step, view) {
    const name = nameOf(seat, view.anonymous);
    const state = seat.free ? tr("free to take again") : view.here ? tr("here") : tr("away");
    return [
      h("header", {},
        h("strong", { class: "tile-name" }, name),
        h("span", { class: "faint" }, state)),
      h("p", { class: "tile-step" }, step ? step.title : tr("Has not begun")),
      marks(room, seat, step),
      gapOf(view.session),
      h("div", { class: "tile-acts" },
        this.button("answers", tr("Answers…"), tr("Answers of {name}", { name }), seat),
        this.button("project", view.projected ? tr("Take down") : tr("Project"),
          tr("{name} on the projector", { name }), seat),
        this.button("reset", tr("Reset…"), tr("Reset the seat of {name}", { name }), seat)),
    ].filter(Boolean);
  }

  button(act, text, label, seat) {
    return h("button", {
      type: "button", class: "button small", "data-act": act, "aria-label": `${text} – ${label}`,
      onclick: () => this.acts[act](seat),
    }, text);
  }

  /** The arrow keys go from tile to tile, with the same button. */
  key(e) {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
    const act = e.target.dataset?.act;
    if (!by || !act) return;
    const buttons = [...this.list.querySelectorAll(`[data-act="${act}"]`)];
    e.preventDefault();
    buttons[buttons.indexOf(e.target) + by]?.focus();
  }
}

/** A mark for each question of the part that the seat is in. */
function marks(room, seat, at) {
  const questions = room.steps.filter(
    (step) => step.question && step.part === (at?.part ?? room.steps[0].part)
      && (step.part !== "lesson" || step.lesson === (at?.lesson ?? room.steps[0].lesson)),
  );
  const words = { right: tr("right"), wrong: tr("wrong"), stored: tr("answered"), open: tr("not answered") };
  return h("ol", { class: "marks", "aria-label": tr("Answers") }, questions.map((step) => {
    const state = stateOf(seat, step);
    const tries = seat.answers[step.key]?.tries ?? 0;
    const label = `${step.title}: ${words[state]}${tries > 1 ? tr(", {tries} tries", { tries }) : ""}`;
    return h("li", { class: `mark ${state}${step === at ? " now" : ""}${isOpen(room, step.key) ? "" : " shut"}`,
      title: label }, h("span", { "aria-hidden": "true" }, MARKS[state]), h("span", { class: "sr" }, label));
  }));
}

function gapOf(session) {
  if (!session) return null;
  if (session.gap === null) return h("p", { class: "faint tile-gap" },
    tr("{state}, trials: {trials}", { state: tr(session.state), trials: session.trials }));
  if (launchBinds(session))
    return h("p", { class: "faint tile-gap" }, tr("bound by launches ({kind})", { kind: tr(session.kind) }));
  const share = Math.min(1, 1 / session.gap);
  const text = tr("{gap}× the limit ({kind})", { gap: session.gap.toFixed(2), kind: tr(session.kind) });
  const bar = h("div", { class: `gap-meter ${session.kind}`, role: "meter",
    "aria-label": tr("Share of the speed of light"),
    "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(100 * share), "aria-valuetext": text },
  h("span", { style: { width: `${100 * share}%` } }));
  return h("div", { class: "tile-gap" }, bar, h("span", { class: "faint" }, text));
}
