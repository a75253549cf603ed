// The sessions that a student starts on the seat's account: a module, the search, and how far it is from the limit.
import { $, h, request } from "../page.js";
import { launchBinds } from "../session/words.js";
import { reasonOf } from "./texts.js";

export class MySession {
  /** `say(key, values)`: the page's words. */
  constructor(seat, room, say) {
    Object.assign(this, { seat, room, say, state: null });
  }

  /** Fill the form, and show the newest session. */
  async start() {
    $("run-form").onsubmit = (e) => {
      e.preventDefault();
      this.run().catch((problem) => this.fail(problem));
    };
    const { examples } = await request("/api/examples");
    const modules = examples.filter((one) => one.kind === "module");
    $("example").replaceChildren(...modules.map((one, i) => h("option", { value: i }, one.title)));
    const choose = () => ($("source").value = modules[Number($("example").value)]?.text ?? "");
    $("example").onchange = choose;
    choose();
    this.follow(this.room().session);
  }

  fail(e) {
    $("my-session").replaceChildren(h("p", { class: "notice bad", role: "alert" }, reasonOf(e)));
  }

  async run() {
    const body = { source: $("source").value, title: "", trials: this.room().trials };
    await this.seat.post("sessions", body);
  }

  /** The newest session of the seat, as the room's socket says it. */
  follow(state) {
    this.state = state;
    this.draw();
  }

  draw() {
    const s = this.state;
    if (!s) return;
    const { say } = this;
    const gap = s.gap === null ? say("no_time_yet") : launchBinds(s) ? say("by_launches", { kind: say(s.kind) })
      : say("times_limit", { gap: s.gap.toFixed(2), kind: say(s.kind) });
    const state = say(s.state === "ended" ? "is_ended" : s.state);
    $("my-session").replaceChildren(
      h("p", {}, say("session", { state, trials: s.trials, gap }), " ",
        h("a", { href: `/s/${s.session}`, target: "_blank", rel: "noopener" }, say("open_session"))));
  }
}
