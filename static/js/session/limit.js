// What limits the best program so far and what to try next, in one sentence. The server composes it from the log and
// the report (engine/session/fold/next_step.py); the page asks again when an event may have changed it.
import { request, throttle } from "../page.js";
import { sentence as inWords } from "../texts.js";

const PAUSE = 2000; // ms between two requests
const SHOWN = 3; // sentences of other moments that a replay shows again without a request

export class Limit {
  /** `node`: the paragraph. */
  constructor(node, id) {
    Object.assign(this, { node, id, known: new Map(), wanted: null, shown: 0 });
    this.soon = throttle(() => this.now(), PAUSE);
  }

  draw(view) {
    const stays = view.end && !view.best.size; // the end without a faster program: why PyTorch is faster
    const seq = view.best.size || view.fastest.size ? (stays ? view.seq : view.figures_seq) : 0;
    if (seq === this.wanted) return;
    this.wanted = seq;
    if (!seq || this.known.has(seq)) this.show(seq, this.known.get(seq) ?? "");
    else this.soon();
    // Before the shown event, the sentence of a later one is not true. Its room stays.
    this.node.classList.toggle("unseen", this.shown > seq);
  }

  show(seq, sentence) {
    this.shown = seq;
    this.node.textContent = sentence;
    this.node.classList.remove("unseen");
  }

  /** A failed request is repeated with the next event that changes the sentence. */
  async now() {
    const seq = this.wanted;
    if (!seq || this.known.has(seq)) return;
    const reply = await request(`/api/sessions/${this.id}/limit?seq=${seq}`).catch(() => ({ sentence: "" }));
    const sentence = inWords(reply.sentence);
    if (sentence) this.known.set(seq, sentence);
    if (this.known.size > SHOWN) this.known.delete(this.known.keys().next().value);
    if (seq === this.wanted) this.show(seq, sentence);
  }
}
