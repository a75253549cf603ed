// The limit of a module at other sizes: a whole number that has a name at the top of the text is given other values.
import { explained, h } from "../page.js";
import { className, digits, time } from "../format.js";
import { sizeForm, sizesOf, wideTable, withSize } from "../sizes.js";
import { read } from "./reading.js";

/** The form and its table, for the text that was read. `asked()`: {gpu, classes}; `open(text)` edits that text. */
export class Sizes {
  constructor(asked, open) {
    this.asked = asked;
    this.open = open;
    this.own = null;
  }

  stop() {
    this.own?.abort();
    this.own = null;
  }

  /** The element for a text, whose reading is known. */
  draw(text, reading) {
    this.stop();
    const sizes = sizesOf(text);
    if (!sizes.length) {
      return h("p", { class: "help" }, "To see the limit at other sizes, give the sizes names at the top, such as ",
        h("code", {}, "N = 4096"), ".");
    }
    return sizeForm(sizes, {
      title: "At other sizes",
      button: "Show the limits",
      submit: (size, values, shown) => this.compare(text, size, values, reading, shown),
    });
  }

  async compare(text, size, values, reading, { state, rows }) {
    this.stop();
    const own = (this.own = new AbortController());
    const classes = reading.limits.map((limit) => limit.cls);
    const body = h("tbody");
    const caption = `On ${reading.gpu}: the limit, and how many times it PyTorch takes as our model predicts it`;
    const heads = [size.name, ...classes.map(className), h("span", { class: "sr" }, "Text")];
    rows.replaceChildren(wideTable("The limit at other sizes", heads, body, caption));
    for (const [i, value] of values.entries()) {
      state.textContent = `Reading ${size.name} = ${value}, ${i + 1} of ${values.length} …`;
      const changed = withSize(text, size, value);
      try {
        const answer = value === size.value ? reading : await read(changed, this.asked, own.signal);
        body.append(this.row(size, value, changed, answer, classes));
      } catch (e) {
        if (e.name === "AbortError") return;
        state.replaceChildren(...explained(e));
        return;
      }
    }
    state.textContent = "";
  }

  row(size, value, text, answer, classes) {
    const edit = h("button", { class: "button small", type: "button" }, "Edit",
      h("span", { class: "sr" }, ` with ${size.name} = ${value}`));
    edit.addEventListener("click", () => this.open(text));
    const limits = new Map((answer.limits ?? []).map((limit) => [limit.cls, limit]));
    const cells = answer.state === "failed"
      ? [h("td", { colspan: classes.length }, answer.error)]
      : classes.map((cls) => h("td", { class: "num" }, cell(limits.get(cls))));
    const here = value === size.value;
    return h("tr", { class: here ? "here" : "" }, h("th", { scope: "row" }, String(value)), cells,
      h("td", { class: "num" }, here ? "this text" : edit));
  }
}

const cell = (limit) =>
  !limit ? "–" : limit.gap === null ? time(limit.ms) : `${time(limit.ms)} · ${digits(limit.gap)}×`;
