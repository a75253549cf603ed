// A student's seat: its token in this browser, and the answers, which are sent until the server has them.
import { request } from "../page.js";
import { drop, keep, recall, recallData } from "../store.js";

const FIRST_PAUSE = 1000; // ms
const LONGEST_PAUSE = 15_000;

export class Seat {
  /** `language`: of the verdicts. `onUnsent(number)`: how many answers wait to be sent. */
  constructor(code, language, onUnsent) {
    Object.assign(this, { code, language, onUnsent, name: `ucutlass-seat-${code}`, waiting: new Map() });
  }

  get token() {
    return recall(this.name) ?? "";
  }

  get headers() {
    return { "X-Seat-Token": this.token };
  }

  async join(nickname) {
    const seat = await request(this.path("seats"), { body: { name: nickname } });
    keep(this.name, seat.token);
  }

  forget() {
    drop(this.name);
    drop(this.unsent);
    drop(`${this.name}-controls`);
  }

  path(rest) {
    return `/api/rooms/${this.code}/${rest}`;
  }

  /** The control tokens of the seat's sessions: {id: token}. */
  get controls() {
    return recallData(`${this.name}-controls`, {});
  }

  /** Start a session in a step, on the seat's account: {id, control}. */
  async run(step, asked) {
    const reply = await this.post(`sessions?step=${encodeURIComponent(step)}`, asked);
    const controls = { ...this.controls, [reply.id]: reply.control_token };
    keep(`${this.name}-controls`, JSON.stringify(controls));
    return { id: reply.id, control: reply.control_token };
  }

  get unsent() {
    return `${this.name}-unsent`;
  }

  get(rest) {
    return request(this.path(rest), { headers: this.headers });
  }

  post(rest, body) {
    return request(this.path(rest), { body, headers: this.headers });
  }

  /** Send an answer until the server has it, also over a lost connection; the server counts it once. Raises Told if the
   * server refuses it. */
  async answer(step, answer, show = false) {
    const attempt = crypto.getRandomValues(new Uint32Array(3)).join("-");
    const body = { step, answer, show, attempt, lang: this.language };
    this.keep(body);
    return this.send(body);
  }

  /** Send the answers that were not sent before the page was closed. Returns why the server refused some. */
  async sendAgain() {
    const bodies = this.bodies();
    const results = await Promise.allSettled(bodies.map((body) => this.send(body)));
    return results.filter((one) => one.status === "rejected").map((one) => one.reason);
  }

  async send(body) {
    for (let pause = FIRST_PAUSE; ; pause = Math.min(LONGEST_PAUSE, 2 * pause)) {
      try {
        const reply = await this.post("answers", body);
        this.done(body);
        return reply;
      } catch (e) {
        if (e.status >= 400 && e.status < 500 && e.status !== 429) {
          this.done(body);
          throw e;
        }
        this.keep(body, true);
        await new Promise((resolve) => setTimeout(resolve, pause * (0.5 + Math.random() / 2)));
      }
    }
  }

  /** The answers that the server does not have yet. */
  bodies() {
    const bodies = recallData(this.unsent, []);
    return Array.isArray(bodies) ? bodies : [];
  }

  keep(body, late = false) {
    const bodies = this.bodies().filter((b) => b.attempt !== body.attempt);
    keep(this.unsent, JSON.stringify([...bodies, body]));
    if (late) this.onUnsent(bodies.length + 1);
  }

  done(body) {
    const bodies = this.bodies().filter((b) => b.attempt !== body.attempt);
    keep(this.unsent, JSON.stringify(bodies));
    this.onUnsent(bodies.length);
  }
}
