// A notice when a session ends: in the tab's title, and by the browser if a person allows it.
import { $, boot, h, toast } from "../page.js";
import { endWords } from "../session/words.js";

export class Notice {
  constructor() {
    this.live = false; // it was under way while this page was open
    this.title = null;
    if (!("Notification" in window) || boot.session.state === "ended") return;
    this.ask = h("button", { type: "button", class: "button", id: "notify", onclick: () => this.allow() },
      "Tell me when it ends");
    $("share").append(this.ask);
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.seen(); });
  }

  async allow() {
    if (Notification.permission === "default") await Notification.requestPermission();
    this.wanted = Notification.permission === "granted";
    this.ask.hidden = this.wanted;
    toast(this.wanted ? "Your browser will tell you when this session ends." : "Your browser does not allow notices.");
  }

  draw(view) {
    if (!view.end) { this.live ||= view.begun; return; }
    this.ask?.classList.add("over"); // its room stays
    if (!this.live) return;
    this.live = false;
    this.text = endWords(view);
    if (document.hidden) this.mark();
    if (!this.wanted) return;
    const notice = new Notification(`Ended: ${view.title}`, { body: this.text, tag: boot.session.id });
    notice.onclick = () => { window.focus(); notice.close(); };
  }

  /** The title of a tab that nobody looks at. */
  mark() {
    this.title = document.title;
    document.title = `Ended · ${this.title}`;
  }

  /** The title stays marked until somebody looks; the header would overwrite it. */
  keep() {
    if (this.title !== null && document.hidden) document.title = `Ended · ${this.title}`;
  }

  seen() {
    if (this.title === null) return;
    document.title = this.title;
    this.title = null;
  }
}
