// The owner's notes on trials. Every viewer reads them; only the control link writes. They are no part of the log.
import { boot, explained, h, request, Told } from "../page.js";

const path = `/api/sessions/${boot.session.id}/notes`;
const control = boot.control;
const EVERY = 30_000; // ms between two readings while the session is live

export class Notes {
  /** `root`: where the note of the selected trial stands; `changed()` is called when notes came. */
  constructor(root, changed) {
    Object.assign(this, { changed, byTrial: {}, n: null });
    this.text = h("p", { class: "note-text" });
    this.edit = h("button", { type: "button", class: "button small", id: "note-edit", onclick: () => this.write() });
    this.box = h("div", { class: "note", id: "note", hidden: true }, this.text, control ? this.edit : null);
    root.append(this.box);
    this.read();
    this.timer = setInterval(() => document.hidden || this.read(), EVERY);
  }

  async read() {
    try {
      const { notes } = await request(path);
      if (JSON.stringify(notes) === JSON.stringify(this.byTrial)) return;
      this.byTrial = notes;
      this.changed();
    } catch {
      /* the next reading may work */
    }
  }

  /** Shows the note of trial `n`. `over`: the session has ended, so only its owner changes notes. */
  draw(n, over) {
    if (over && !control) clearInterval(this.timer);
    const text = this.byTrial[n] ?? "";
    const key = `${n} ${text}`;
    if (key === this.key) return;
    this.key = key;
    this.n = n;
    this.form?.remove();
    this.form = null;
    this.text.textContent = text;
    this.text.hidden = !text;
    this.edit.hidden = false;
    this.edit.textContent = text ? "Edit the note" : "Add a note";
    this.box.hidden = n === null || (!text && !control);
  }

  write() {
    const n = this.n;
    const area = h("textarea", { rows: 3, maxlength: 2000, "aria-label": `Note on trial ${n}` });
    area.value = this.byTrial[n] ?? "";
    const problem = h("p", { class: "notice bad", role: "alert", hidden: true });
    const close = () => { this.key = null; this.draw(n); this.edit.focus(); };
    this.form = h("form", { onsubmit: async (e) => {
      e.preventDefault();
      try {
        const { text } = await put(n, area.value);
        if (text) this.byTrial[n] = text;
        else delete this.byTrial[n];
        this.changed();
        close();
      } catch (error) {
        problem.replaceChildren(...explained(error));
        problem.hidden = false;
      }
    } }, area, problem, h("div", { class: "ends" },
      h("button", { type: "button", class: "button small", onclick: close }, "Cancel"),
      h("button", { type: "submit", class: "button small primary" }, "Save the note")));
    this.text.hidden = this.edit.hidden = true;
    this.box.append(this.form);
    area.focus();
  }
}

async function put(trial, text) {
  const reply = await fetch(`${path}/${trial}`, {
    method: "PUT",
    headers: { "Content-Type": "application/json", "X-Control-Token": control.token },
    body: JSON.stringify({ text }),
  }).catch(() => { throw new Told("The server does not answer.", "Your note is kept here. Try again."); });
  const data = await reply.json().catch(() => ({}));
  if (!reply.ok) throw new Told(data.error ?? "The note was not saved.", data.fix ?? "Try again.");
  return data;
}
