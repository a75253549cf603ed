// A session that a student starts in a step: it runs on the server's engine within the limits of the page, its state
// stands beside the step, and the student goes on when it has ended. A recording stands in where no engine runs.
import { h, request } from "../page.js";
import { apply, headline, initial, used } from "../session/reduce.js";
import { Stream } from "../session/stream.js";
import { launchBinds } from "../session/words.js";
import { number, pane } from "./parts.js";
import { fill } from "../texts.js";

/** Starts a session on the account of the visitor's address, as the playground does. */
export const startAlone = (asked) => request("/api/sessions", { body: asked });

/** Whether an engine runs here. */
export async function hasEngine() {
  const { engines } = await request("/healthz");
  return engines > 0;
}

/** Draws a figure of kind session. `runner.sessions`: {of(stepId), start(stepId, request), stop(session)}. */
export function drawRun(figure, data, runner) {
  return new Run(figure, data, runner);
}

class Run {
  constructor(figure, data, runner) {
    Object.assign(this, { figure, data, runner, step: runner.step.id, stream: null, session: null });
    const button = (label, style, act) =>
      h("button", { type: "button", class: `button ${style}`, onclick: () => this.guarded(act) }, this.word(label));
    this.go = button("session_run", "primary", () => this.start());
    this.halt = button("session_stop", "", () => runner.sessions.stop(this.session));
    this.recording = button("session_recording", "", () => this.replay());
    this.state = h("p", { class: "figure-words run-state", role: "status", "aria-live": "polite" });
    this.error = h("p", { class: "notice bad", role: "alert", hidden: true });
    this.place = h("div", { class: "run-pane" });
    const { trials, classes } = data.request;
    const budget = fill(this.word("session_budget"), { trials, classes: classes.join(", ") });
    figure.append(h("p", { class: "faint run-budget" }, budget),
      h("div", { class: "figure-controls" }, this.go, this.halt, this.recording), this.error, this.state, this.place);
    this.buttons();
    const before = runner.sessions.of(this.step);
    if (before) this.follow(before);
    else this.lookForEngine();
  }

  word(key) {
    return this.runner.word(key);
  }

  async guarded(act) {
    this.error.hidden = true;
    try {
      await act();
    } catch (e) {
      this.error.textContent = [e.message, e.fix].filter(Boolean).join(" ");
      this.error.hidden = false;
    }
  }

  get running() {
    return this.session !== null && !this.over;
  }

  buttons() {
    this.go.hidden = this.running;
    this.go.textContent = this.word(this.session ? "session_again" : "session_run");
    this.halt.hidden = !this.running || !this.session.control;
  }

  async lookForEngine() {
    if (await hasEngine().catch(() => true)) return;
    this.go.hidden = true;
    this.state.textContent = this.word("session_no_engine");
    this.replay();
  }

  /** The request of the lesson; a program that the student changed in this step is run as it stands now. */
  get asked() {
    const { request: asked, program } = this.data;
    const area = program && this.figure.parentElement?.querySelector(`textarea[data-program="${program}"]`);
    return area ? { ...asked, source: area.value } : asked;
  }

  async start() {
    if (this.go.disabled) return;
    this.go.disabled = true;
    try {
      this.follow(await this.runner.sessions.start(this.step, this.asked));
      (this.halt.hidden ? this.recording : this.halt).focus();
    } finally {
      this.go.disabled = false;
    }
  }

  /** Shows a session of this step, {id, control}, and holds the way on until it has ended. */
  follow(session) {
    this.stream?.stop();
    Object.assign(this, { session, over: false });
    const view = initial();
    const info = { state: "queued", queue: null };
    this.runner.hold(this.step, true);
    this.show(session.id, false);
    this.stream = new Stream(session.id, {
      seq: () => view.seq,
      onEvents: (events) => {
        if (this.left()) return;
        apply(view, events);
        if (view.gap) this.stream.again();
        this.draw(view, info);
      },
      onStatus: (status) => {
        if (status === "missing") this.lost();
      },
      onInfo: (message) => {
        if (this.left()) return;
        for (const name of ["state", "queue"]) if (name in message) info[name] = message[name];
        this.draw(view, info);
      },
    });
    this.stream.start();
    this.draw(view, info);
    this.buttons();
  }

  /** Stops to follow a session whose step is no longer on the screen. */
  left() {
    if (this.figure.isConnected) return false;
    this.stream.stop();
    return true;
  }

  /** What the session does, in the reader's words; live they say its place in the queue and its trials. */
  draw(view, info) {
    const budget = view.budget.trials ?? this.data.request.trials;
    const counted = { trials: used(view), budget };
    const begun = view.begun && info.state !== "queued";
    const queued = info.queue > 1 ? fill(this.word("session_queued"), { n: info.queue - 1 })
      : this.word("session_soon");
    const now = view.end ? fill(this.word("session_ended"), counted)
      : begun ? fill(this.word("session_running"), counted) : queued;
    const words = [now, best(view, (key) => this.word(key))].filter(Boolean).join(" ");
    if (words !== this.state.textContent) this.state.textContent = words;
    if (view.end && !this.over) this.end(view.end);
  }

  end({ state, reason }) {
    this.over = true;
    this.runner.hold(this.step, false);
    if (["refused", "failed"].includes(state) && reason) {
      this.error.textContent = reason;
      this.error.hidden = false;
    }
    this.buttons();
  }

  lost() {
    this.over = true;
    this.session = null;
    this.state.textContent = this.word("session_lost");
    this.place.replaceChildren();
    this.runner.hold(this.step, false);
    this.buttons();
  }

  /** The recording in the pane, with its replay. A session that runs goes on; nobody has to wait for it. */
  replay() {
    this.runner.hold(this.step, false);
    this.show(this.data.recording.id, true);
  }

  show(id, replay) {
    this.place.replaceChildren(pane(this.runner, id, this.data.pane, replay));
  }
}

function best(view, word) {
  const trial = headline(view);
  if (!trial) return view.end ? word("session_none") : "";
  const { speedup, gap, kind } = trial.judged;
  if (gap && launchBinds(trial.judged))
    return fill(word("session_launches"), { speedup: number(speedup), kind: word(kind) });
  const values = { speedup: number(speedup), gap: gap ? number(gap) : "–", kind: word(kind) };
  return fill(word("session_best"), values);
}
