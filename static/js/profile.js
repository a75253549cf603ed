// The profile of the shown trial on the session page: on the owner's request while the session runs, and for everybody
// once it has ended. Its head says where the text comes from, when it was made and for which trial.
import { blob, boot, h, request, toast } from "./page.js";
import { tr } from "./texts.js";
import { command } from "./session/owner.js";
import { timeOf } from "./session/view.js";

const SOURCES = {
  profiler: "measured by a profiler on the GPU",
  model: "no profiler ran: the compiler’s resources, and times by the model of the GPU",
};
const clock = (t) => new Date(t * 1000).toLocaleString("en", { dateStyle: "medium", timeStyle: "medium" });

export class Profile {
  constructor(root) {
    this.shown = null; // the key of the drawn contents
    this.turn = 0;
    this.ofEnded = new Map(); // trial -> its profile, of a session that ended
    const act = { type: "button", class: "button", id: "ask-profile", onclick: () => this.press() };
    this.ask = h("button", act, tr("Profile"));
    this.about = h("p", { id: "profile-about", role: "status" });
    this.text = h("pre", { id: "profile-text", tabindex: "0", "aria-label": tr("Profile of the shown trial") });
    this.section = h("section", { class: "profile", id: "profile", hidden: true }, this.ask, this.about, this.text);
    root.append(this.section);
  }

  /** Draws the profile of trial `n` of `view`; `live`: the whole log, which the button acts on. */
  draw(view, n, live) {
    const one = view.trials.get(n);
    this.trial = n;
    this.over = Boolean(live.end);
    const known = one?.profile?.state === "ready" ? one.profile : (this.ofEnded.get(n) ?? one?.profile ?? null);
    const latest = live.trials.get(n)?.profile?.state; // a replay may show the time before
    const timed = Boolean(one?.judged && timeOf(one));
    const may = timed && (this.over || Boolean(boot.control)) && known?.state !== "ready" && latest !== "ready";
    this.ask.hidden = !may || (latest === "asked" && !this.over);
    this.section.hidden = this.ask.hidden && !known;
    const key = JSON.stringify([n, this.over, known]);
    if (key === this.shown) return;
    this.shown = key;
    this.fill(n, known);
  }

  async fill(n, known) {
    const turn = ++this.turn;
    this.about.textContent = this.words(n, known);
    this.text.hidden = known?.state !== "ready";
    if (this.text.hidden) return;
    try {
      const text = known.full ?? (await blob(known.text));
      if (turn === this.turn) this.text.textContent = text;
    } catch (e) {
      if (turn !== this.turn) return;
      this.shown = null; // drawn again with the next event
      this.about.textContent = tr("The profile did not load: {error}", { error: e.message });
    }
  }

  words(n, known) {
    if (!known) return "";
    if (known.state === "refused") return known.reason;
    if (known.state === "asked")
      return this.over ? tr("The session ended before this profile was made.")
        : tr("The profile of trial {n} is being made…", { n });
    const when = known.t ? ` · ${clock(known.t)}` : "";
    return `${tr("Profile of trial {n}", { n })} · ${tr(SOURCES[known.source] ?? known.source)}${when}`;
  }

  async press() {
    const n = this.trial;
    this.ask.disabled = true;
    try {
      if (this.over) await this.read(n);
      else {
        const reply = await command("profile", { trial: n });
        const paused = reply.waits === "paused";
        toast(paused ? "Accepted: it waits until the session resumes." : "The profile is being made.");
      }
    } catch (e) {
      toast(`${e.message} ${e.fix ?? ""}`.trim());
    } finally {
      this.ask.disabled = false;
    }
  }

  /** The profile of a trial of a session that ended. */
  async read(n) {
    const { text, ...known } = await request(`/api/sessions/${boot.session.id}/trials/${n}/profile`);
    this.ofEnded.set(n, { ...known, full: text });
    if (n !== this.trial) return;
    this.shown = null;
    this.ask.hidden = true;
    await this.fill(n, this.ofEnded.get(n));
    this.text.focus({ preventScroll: true });
  }
}
