// A model's opinion of the trial on show, and what it inherits, beside the verdict's evidence and never instead of it.
import { h } from "../../page.js";

const GAMING = "gaming";
const SHOWN = "script.shown";

const evidenceOf = (one) => (one?.judged ?? one?.untimed ?? one?.failed)?.evidence ?? [];
const tricks = (one) => new Set(evidenceOf(one).filter((c) => c.verdict === GAMING).map((c) => c.name));

/** The nearest ancestor with a trick of this trial: {number, names}; null if the trial inherits none. Parents have
 * lower numbers than their children, so the walk ends. */
export function inherited(trials, n) {
  const own = tricks(trials.get(n));
  for (let one = trials.get(n); own.size && one?.parent && one.parent < one.number;) {
    one = trials.get(one.parent);
    const names = [...tricks(one)].filter((name) => own.has(name));
    if (names.length) return { number: one.number, names };
  }
  return null;
}

/** The opinion of trial `n` in the log up to event `seq` (null: all), or null. */
export function opinionOf(log, n, seq = null) {
  const event = log.findLast((e) => e.kind === SHOWN && e.data.topic === "opinion" && e.data.facts?.trial === n
    && (seq === null || e.seq <= seq));
  return event?.data.facts ?? null;
}

export class Opinion {
  constructor(root) {
    this.box = h("div", { class: "resources opinion", hidden: true });
    root.append(this.box);
  }

  draw(log, view, n, seq, choose) {
    const opinion = opinionOf(log, n, seq), line = inherited(view.trials, n);
    const key = JSON.stringify([n, opinion, line]);
    if (key === this.key) return;
    this.key = key;
    this.box.hidden = !opinion && !line;
    const place = (number) =>
      h("button", { type: "button", class: "place", onclick: () => choose(number) }, `trial ${number}`);
    const model = opinion?.model ? ` (${opinion.model})` : "";
    this.box.replaceChildren(
      ...(opinion
        ? [h("p", {}, h("b", {}, `Opinion of a model${model}`), " · ", opinion.verdict || "none", " · ", opinion.reason,
          h("span", { class: "faint" }, " It changes no verdict."))]
        : []),
      ...(line
        ? [h("p", {}, h("b", {}, "Inherited"), " · the finding ", line.names.join(", "), " stands in an ancestor, ",
          place(line.number), ", too. Found from the trials' parents, without a model.")]
        : []));
  }
}
