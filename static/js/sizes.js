// The sizes that a module's text names, and the form in which other values are given to one of them.
import { h } from "./page.js";
import { tr } from "./texts.js";

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

/** A table that scrolls sideways within its place. `label`: what it is, read aloud; `heads`: of the first column, then
    of the figures; `body`: its tbody. */
export function wideTable(label, heads, body, caption = "") {
  const cells = heads.map((head, i) => h("th", { scope: "col", class: i ? "num" : null }, head));
  return h("div", { class: "wide", tabindex: "0", role: "group", "aria-label": label },
    h("table", {}, caption ? h("caption", {}, caption) : "", h("thead", {}, h("tr", {}, cells)), body));
}

/** A form for one of `sizes` and a list of values: `submit(size, values, {state, rows})`, whose `state` is a line of
    text that is read aloud and `rows` the place of the answer. `title`, `button`: their words. */
export function sizeForm(sizes, { title, button, submit }) {
  const pick = h("select", { id: "size-name", name: "size" },
    sizes.map((size, i) => h("option", { value: i }, `${size.name} = ${size.value}`)));
  const list = h("input", { id: "size-values", inputmode: "numeric", autocomplete: "off" });
  const propose = () => { list.value = around(sizes[pick.value].value).join(", "); };
  pick.addEventListener("change", propose);
  propose();
  const state = h("p", { class: "help", role: "status", id: "size-state" });
  const rows = h("div", { id: "size-table", class: "limit-tables" });
  const form = h("form", { class: "sizes", id: "sizes" },
    title ? h("h3", {}, title) : "",
    h("div", { class: "sizes-fields" },
      h("div", {}, h("label", { for: "size-name" }, tr("Size")), pick),
      h("div", {}, h("label", { for: "size-values" }, tr("Values")), list),
      h("button", { class: "button", type: "submit" }, button)),
    state, rows);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const values = valuesOf(list.value);
    if (values) {
      submit(sizes[pick.value], values, { state, rows });
      return;
    }
    state.textContent = tr("Values are one to {n} whole numbers from 1, such as 1024, 2048.", { n: MOST });
    list.focus();
  });
  return form;
}
