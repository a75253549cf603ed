// A room's log as it happens, for the teacher or a seat: a WebSocket that says the token in its first message,
// acknowledges, and reconnects after a growing, jittered pause; polling if no WebSocket gets through.
import { request } from "../page.js";

const FIRST_PAUSE = 500; // ms
const LONGEST_PAUSE = 15_000;
const POLL = 2_000;
const SILENCE = 40_000; // the server sends something at least every 15 s
const REFUSED = 4403;
const UNKNOWN = 4404;

export class Channel {
  /**
   * @param code, path, token   the room, its socket, the teacher's or the seat's token
   * @param header              the name of the token's header
   * @param seq                 () => last event applied
   * @param state               async () => what the socket says beside events: {sessions?, session?}, for polling
   * @param onMessage           ({events?, online?, sessions?, session?}) => void
   * @param onStatus            ("connecting" | "live" | "reconnecting" | "refused" | "missing") => void
   */
  constructor(options) {
    Object.assign(this, options, { status: "", failures: 0, stopped: false });
    addEventListener("online", () => this.retryNow());
    addEventListener("pagehide", () => this.stop());
    addEventListener("pageshow", (e) => {
      if (!e.persisted) return;
      this.stopped = false;
      this.connect();
    });
    document.addEventListener("visibilitychange", () => document.hidden || this.retryNow());
  }

  start() {
    this.say("connecting");
    this.connect();
  }

  stop() {
    this.stopped = true;
    for (const timer of [this.timer, this.poller, this.watchdog]) clearTimeout(timer);
    this.socket?.close();
  }

  say(status) {
    if (status === this.status) return;
    this.status = status;
    this.onStatus(status);
  }

  connect() {
    if (this.stopped) return;
    clearTimeout(this.timer);
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}${this.path}`);
    this.socket = socket;
    socket.onopen = () => {
      socket.send(JSON.stringify({ token: this.token, after: this.seq() }));
      this.listen();
    };
    socket.onmessage = (e) => {
      const message = JSON.parse(e.data);
      if (message.error) return;
      this.failures = 0;
      clearTimeout(this.poller);
      this.poller = null;
      this.say("live");
      this.listen();
      this.onMessage(message);
      if (message.events && socket.readyState === WebSocket.OPEN)
        socket.send(JSON.stringify({ ack: message.events.at(-1)?.seq ?? 0 }));
    };
    socket.onclose = (e) => this.closed(socket, e.code);
  }

  closed(socket, code) {
    if (this.socket !== socket) return;
    this.socket = null;
    clearTimeout(this.watchdog);
    if (this.stopped) return;
    if (code === REFUSED || code === UNKNOWN) {
      this.stop();
      this.say(code === REFUSED ? "refused" : "missing");
      return;
    }
    this.failures += 1;
    if (!this.poller) this.say("reconnecting");
    if (this.failures >= 2 && !this.poller) this.poll();
    const pause = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (this.failures - 1));
    this.timer = setTimeout(() => this.connect(), pause * (0.5 + Math.random() / 2));
  }

  retryNow() {
    if (!this.stopped && !this.socket) this.connect();
  }

  listen() {
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => this.socket?.close(), SILENCE);
  }

  async poll() {
    try {
      const path = `/api/rooms/${this.code}/events?after=${this.seq()}`;
      const page = await request(path, { headers: { [this.header]: this.token } });
      this.onMessage({ events: page.events, ...(await this.state()) });
      this.say("live");
    } catch (e) {
      if (e.status === 403 || e.status === 404) {
        this.stop();
        this.say(e.status === 403 ? "refused" : "missing");
        return;
      }
      this.say("reconnecting");
    }
    if (!this.stopped) this.poller = setTimeout(() => this.poll(), POLL);
  }
}

const STATUS = {
  connecting: "Connecting", live: "Live", reconnecting: "Reconnecting", refused: "Ended", missing: "Gone",
};

/** The connection in words, in the element #link-state; `words`: of another language. */
export function showStatus(element, status, words = {}) {
  element.textContent = words[status] ?? STATUS[status];
  element.dataset.state = status;
}
