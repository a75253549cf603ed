// "Run again here" on the page of an ended session, and on the page of the run what it says of the original.
import { $, boot, coded, explained, h, request } from "../page.js";
import { baselineName, className, deviceName, time, times } from "../format.js";

const path = `/api/sessions/${boot.session.id}/again`;
const RETRY = 4000; // ms until a server that did not answer is asked again
const TONE = { reproduced: "good", "same prediction": "good", "not reproduced": "bad" };
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const sentence = (text) => `${capital(text).replace(/\.$/, "")}.`;

/** "2.41× [2.38×, 2.45×] over PyTorch in f16, 0.132 ms, measured on NVIDIA H100", as far as there is something. */
function facts(one) {
  if (!one.kind) return "no time";
  const interval = one.low && one.high ? ` [${times(one.low)}, ${times(one.high)}]` : "";
  const device = one.device ? ` on ${deviceName(one.device)}` : "";
  return `${times(one.ratio)}${interval} over ${baselineName(one.baseline)}, ${time(one.ms)}, ${one.kind}${device}`;
}

const listed = (trials) => `trial${trials.length > 1 ? "s" : ""} ${trials.join(", ")}`;

export class Again {
  constructor() {
    this.started = $("again-start");
    this.asked = false;
    if (boot.again) this.show(h("p", {}, "This session runs ", ...this.original(), " again: the same programs, fresh " +
      "inputs, the same checks, nothing searched. The comparison appears when it has ended."));
  }

  /** `live`: the view of the whole log. */
  draw(live) {
    if (!boot.again || !live.end || this.asked) return;
    this.asked = true;
    request(path).then((run) => this.compare(run), (e) => {
      if (e.status) this.show(h("p", {}, explained(e)));
      else setTimeout(() => { this.asked = false; this.draw(live); }, RETRY);
    });
  }

  async start() {
    const error = $("again-error");
    this.started.disabled = true;
    error.hidden = true;
    try {
      location.assign((await request(path, { body: {} })).control_url);
    } catch (e) {
      error.replaceChildren(...explained(e));
      error.hidden = false;
      this.started.disabled = false;
    }
  }

  /** "trials 3, 5 of TITLE" with the link to it. */
  original() {
    const { of, title, trials } = boot.again;
    return [`${listed(trials)} of `, of ? h("a", { href: `/s/${of}` }, title) : `${title} (deleted since)`];
  }

  show(...parts) {
    $("again").replaceChildren(h("header", { class: "pane-head" }, h("h2", {}, "Run again")), ...parts);
  }

  compare(run) {
    this.show(
      h("p", {}, "This session ran ", ...this.original(), " again, with fresh inputs."),
      h("ul", { class: "again-trials" }, run.trials.map((one) => this.row(one))));
  }

  row({ trial, verdict, why, recorded, again }) {
    const cls = recorded.cls ? ` in ${className(recorded.cls)}` : "";
    return h("li", { "data-verdict": verdict },
      h("p", {},
        h("b", { class: `again-verdict ${TONE[verdict] ?? ""}` }, capital(verdict)), ` · trial ${trial}${cls}`),
      h("p", {}, coded(sentence(why))),
      h("dl", {}, h("div", {}, h("dt", {}, "Original"), h("dd", {}, facts(recorded))),
        h("div", {}, h("dt", {}, "Here"), h("dd", {}, facts(again)))));
  }
}
