// Which trials the list shows, and in which order: a search, a choice and an order, kept in the page's address.
import { h, debounce } from "../../page.js";
import { className } from "../../format.js";
import { tr } from "../../texts.js";
import { allClasses } from "../reduce.js";
import { outcome } from "../view.js";

const byNumber = (a, b) => a.number - b.number;
/** The larger value first, a trial without one last. */
const falling = (value) => (a, b) => (value(b) ?? -Infinity) - (value(a) ?? -Infinity) || byNumber(a, b);
export const ORDERS = {
  "": ["as they came", null],
  newest: ["newest first", (a, b) => byNumber(b, a)],
  speedup: ["largest speedup", falling((one) => one.judged?.speedup)],
  limit: ["closest to the limit", falling((one) => (one.judged?.gap ? -one.judged.gap : null))],
};
const ENDED = ["failed", "undecided", "stopped"];
export const SHOWS = {
  "": ["all trials", () => true],
  results: ["results", (one) => ["counted", "verified"].includes(outcome(one))],
  better: ["each new best", (one) => Boolean(one.judged?.best)],
  failed: ["failed", (one) => ENDED.includes(outcome(one))],
  flagged: ["flagged", (one) => ["flagged", "unverified"].includes(outcome(one))],
  owner: ["the owner’s", (one) => one.by === "owner"],
};

const words = (one) =>
  [one.number, one.change, one.why, one.structure, one.settings, one.failed?.reason, one.judged?.verdict]
    .filter(Boolean).join(" ").toLowerCase();

/** The trials of `view` to show, in order. `show`: of SHOWS, or a precision class; `find`: words that all occur. */
export function arranged(view, { order = "", show = "", find = "" } = {}) {
  const fits = SHOWS[show]?.[1] ?? ((one) => one.cls === show);
  const sought = find.toLowerCase().split(/\s+/).filter(Boolean);
  const list = [...view.trials.values()].filter((one) => {
    if (!fits(one)) return false;
    const text = sought.length ? words(one) : "";
    return sought.every((word) => text.includes(word));
  });
  const rule = ORDERS[order]?.[1];
  return rule ? list.sort(rule) : list;
}

const option = (value, text) => h("option", { value }, text);

/** The controls of the list. */
export class Arrangement {
  /** `root`: where they stand; `place`: {order, show, find}, which they change; `changed()` is called then. */
  constructor(root, place, changed) {
    this.place = place;
    const say = (name) => (e) => { place[name] = e.target.value; changed(); };
    this.order = h("select", { id: "trials-order", "aria-label": tr("Order of the trials"), onchange: say("order") },
      Object.entries(ORDERS).map(([value, [text]]) => option(value, tr(text))));
    this.classes = h("optgroup", { label: tr("Precision class") });
    this.show = h("select", { id: "trials-show", "aria-label": tr("Trials to show"), onchange: say("show") },
      h("optgroup", { label: tr("Outcome") },
        Object.entries(SHOWS).map(([value, [text]]) => option(value, tr(text)))),
      this.classes);
    this.find = h("input", { type: "search", id: "trials-find", placeholder: tr("Find"),
      "aria-label": tr("Find trials"), oninput: debounce(() => say("find")({ target: this.find }), 120) });
    root.append(this.find, this.show, this.order);
  }

  draw(view) {
    const classes = allClasses(view), key = classes.join();
    if (key !== this.key) {
      this.key = key;
      this.classes.replaceChildren(...classes.map((cls) => option(cls, className(cls))));
    }
    this.order.disabled = this.place.as === "tree"; // its order is its own
    for (const name of ["order", "show", "find"])
      if (this[name] !== document.activeElement) this[name].value = this.place[name] ?? "";
  }
}
