// Replay of a finished session: the same log, folded up to the slider's position.
import { $, h } from "../page.js";
import { duration } from "../format.js";
import { tr } from "../texts.js";

const LONGEST = 30_000; // ms that a whole replay takes at most

export class Replay {
  /** `show(seq | null)`: the view up to an event, or the whole. */
  constructor(show) {
    this.show = show;
    this.slider = h("input", {
      type: "range",
      min: 0,
      step: 1,
      "aria-label": tr("Event"),
      id: "scrub",
      oninput: () => {
        this.pause();
        this.go(Number(this.slider.value));
      },
    });
    this.button = h(
      "button",
      { type: "button", class: "button", id: "play", onclick: () => (this.timer ? this.pause() : this.play()) },
      tr("▶ Replay"),
    );
    this.at = h("span", { class: "at", role: "status", "aria-live": "off" });
    $("replay").append(this.button, this.slider, this.at);
  }

  ready(log) {
    if (this.log === log && this.slider.max === String(log.length)) return;
    this.log = log;
    this.slider.max = log.length;
    this.slider.value = log.length;
    this.say(log.length);
    $("replay").hidden = log.length < 2;
  }

  say(n) {
    const t = n ? this.log[n - 1].t - this.log[0].t : 0;
    this.at.textContent = tr("{time} · event {n} of {all}", { time: duration(t), n, all: this.log.length });
    this.slider.setAttribute("aria-valuetext", this.at.textContent);
  }

  go(n) {
    this.slider.value = n;
    this.say(n);
    this.show(n >= this.log.length ? null : (this.log[n - 1]?.seq ?? 0));
  }

  /** At the session's own pace, faster if that takes longer than half a minute; long waits are shortened. */
  play() {
    this.button.textContent = tr("❚❚ Pause");
    let n = Number(this.slider.value) >= this.log.length ? 0 : Number(this.slider.value);
    const length = (this.log.at(-1).t - this.log[0].t) * 1000;
    const pace = Math.max(1, length / LONGEST);
    const step = () => {
      n += 1;
      this.go(n);
      if (n >= this.log.length) {
        this.pause();
        return;
      }
      const wait = ((this.log[n].t - this.log[n - 1].t) * 1000) / pace;
      this.timer = setTimeout(step, Math.min(1500, Math.max(40, wait)));
    };
    this.timer = setTimeout(step, 0);
  }

  pause() {
    clearTimeout(this.timer);
    this.timer = null;
    this.button.textContent = tr("▶ Replay");
  }
}
