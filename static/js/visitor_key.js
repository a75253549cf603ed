// The field for a visitor's own key, while a session waits for it. The key goes from the field into one request; no
// storage of the browser and no variable of this page keeps it.
import { boot, explained, h, request, toast } from "./page.js";

const clock = (t) => new Date(t * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });

export class KeyForm {
  /** `node`: the section of the page. */
  constructor(node) {
    Object.assign(this, { node, asked: "" });
    addEventListener("pagehide", () => this.clear()); // a page in the browser's cache holds no key
  }

  clear() {
    for (const field of this.node.querySelectorAll("input")) field.value = "";
  }

  /** Shows the field for the key that `view` waits for, or nothing. A field that is being typed in stays. */
  draw(view) {
    const key = view.end ? null : view.key;
    this.node.hidden = !key;
    const asked = key ? `${key.claim}|${key.until}` : "";
    if (asked === this.asked) return;
    this.asked = asked;
    this.clear();
    this.node.replaceChildren(...(key ? this.content(key) : []));
  }

  content(key) {
    const host = key.endpoint.replace(/^https:\/\//, "").replace(/\/.*$/, "");
    const until = Number.isFinite(key.until) ? `, until ${clock(key.until)}` : "";
    const again = key.again ? "Another engine continues this session and does not have the key. " : "";
    if (!boot.control) {
      return [h("p", { id: "key-waits" }, again, "This session waits for the key of ", h("b", {}, host),
        `${until}. Only its owner can give it, on the page of the control link.`)];
    }
    const problem = h("p", { class: "notice bad", role: "alert", hidden: true });
    const field = h("input", {
      id: "key-field", type: "password", autocomplete: "off", autocapitalize: "off", spellcheck: "false",
      maxlength: 400, required: true, "data-1p-ignore": "", "data-lpignore": "true",
    });
    const go = h("button", { type: "submit", class: "button primary" }, "Give the key");
    return [h("form", { autocomplete: "off", onsubmit: (e) => this.give(e, field, go, problem) },
      h("label", { for: "key-field" }, again, "Your key for ", h("b", {}, host), ` for this session${until}`),
      h("div", { class: "key-row" }, field, go),
      h("p", { class: "faint" }, "It is sealed for the engine that asks ", h("b", {}, key.model),
        ", used for this session alone, and stored neither here nor in this browser. Viewers do not see it."),
      problem)];
  }

  async give(event, field, go, problem) {
    event.preventDefault();
    const sending = request(`/api/sessions/${boot.session.id}/key`, {
      body: { key: field.value }, headers: { "X-Control-Token": boot.control.token },
    });
    field.value = "";
    go.disabled = true;
    problem.hidden = true;
    try {
      await sending;
      toast("The key is on its way to the engine.");
    } catch (e) {
      problem.replaceChildren(...explained(e));
      problem.hidden = false;
    } finally {
      go.disabled = false;
    }
  }
}
