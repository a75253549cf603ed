// The limit of a module at other sizes: a whole number that has a name at the top of the text is given other values.
import { h } from "../page.js";
import { className, digits, time } from "../format.js";
import { read } from "./reading.js";

const MOST = 8; // values at once
const LONGEST = 200; // characters of a line that is looked at
const NAMES = /^([A-Za-z_]\w*(?: *, *[A-Za-z_]\w*)*) *= *(?=\d)/;
const NUMBER = /^\d[\d_]*(?: *\* *\d[\d_]*)*$/;

/** The sizes that a module's text names: [{name, value, from, to}], `from` to `to` being the value's place. Only lines
    at the left margin that give names to whole numbers, such as `N = 4096` or `M, N = 2 * 1024, 512`. */
export function sizesOf(text) {
  const sizes = [];
  let at = 0, quoted = false;
  for (const line of text.split("\n")) {
    const quotes = line.split('"""').length - 1;
    const names = !quoted && !quotes && line.length <= LONGEST && NAMES.exec(line);
    if (names) {
      const values = line.slice(names[0].length).split("#")[0];
      const parts = values.split(",");
      const keys = names[1].split(",").map((name) => name.trim());
      if (parts.length === keys.length && parts.every((part) => NUMBER.test(part.trim()))) {
        let from = at + names[0].length;
        parts.forEach((part, i) => {
          const start = from + part.length - part.trimStart().length;
          const value = part.replaceAll("_", "").split("*").reduce((all, n) => all * Number(n), 1);
          sizes.push({ name: keys[i], value, from: start, to: start + part.trim().length });
          from += part.length + 1;
        });
      }
    }
    if (quotes % 2) quoted = !quoted;
    at += line.length + 1;
  }
  return sizes;
}

export const withSize = (text, size, value) => text.slice(0, size.from) + value + text.slice(size.to);

/** Whole numbers from a list such as "1024, 2048"; null if it is something else. */
export function valuesOf(list) {
  const parts = list.split(/[\s,]+/).filter(Boolean);
  const good = parts.length && parts.length <= MOST && parts.every((part) => /^[1-9]\d{0,8}$/.test(part));
  return good ? [...new Set(parts.map(Number))] : null;
}

const around = (value) => [...new Set([value / 4, value / 2, value, value * 2].filter((n) => n >= 1).map(Math.floor))];

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
    const pick = h("select", { id: "size-name", name: "size" },
      sizes.map((size, i) => h("option", { value: i }, `${size.name} = ${size.value}`)));
    const list = h("input", { id: "size-values", inputmode: "numeric", autocomplete: "off" });
    const propose = () => { list.value = around(sizes[pick.value].value).join(", "); };
    pick.addEventListener("change", propose);
    propose();
    const state = h("p", { class: "help", role: "status", id: "size-state" });
    const rows = h("div", { id: "size-table", class: "limit-tables" });
    const form = h("form", { class: "sizes", id: "sizes" },
      h("h3", {}, "At other sizes"),
      h("div", { class: "sizes-fields" },
        h("div", {}, h("label", { for: "size-name" }, "Size"), pick),
        h("div", {}, h("label", { for: "size-values" }, "Values"), list),
        h("button", { class: "button", type: "submit" }, "Show the limits")),
      state, rows);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const values = valuesOf(list.value);
      if (!values) {
        state.textContent = `Values are one to ${MOST} whole numbers from 1, such as 1024, 2048.`;
        list.focus();
        return;
      }
      this.compare(text, sizes[pick.value], values, reading, { state, rows });
    });
    return form;
  }

  async compare(text, size, values, reading, { state, rows }) {
    this.stop();
    const own = (this.own = new AbortController());
    const classes = reading.limits.map((limit) => limit.cls);
    const body = h("tbody");
    const caption = `On ${reading.gpu}: the limit, and how many times it PyTorch takes as our model predicts it`;
    const head = h("tr", {}, h("th", { scope: "col" }, size.name),
      classes.map((cls) => h("th", { scope: "col", class: "num" }, className(cls))),
      h("th", { scope: "col" }, h("span", { class: "sr" }, "Text")));
    rows.replaceChildren(
      h("div", { class: "wide", tabindex: "0", role: "group", "aria-label": "The limit at other sizes" },
        h("table", {}, h("caption", {}, caption), h("thead", {}, head), body)));
    for (const [i, value] of values.entries()) {
      state.textContent = `Reading ${size.name} = ${value}, ${i + 1} of ${values.length} …`;
      const changed = withSize(text, size, value);
      try {
        const answer = value === size.value ? reading : await read(changed, this.asked, own.signal);
        body.append(this.row(size, value, changed, answer, classes));
      } catch (e) {
        if (e.name === "AbortError") return;
        state.textContent = `${e.message} ${e.fix ?? ""}`;
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
