// One session's events as they happen. A WebSocket requests all events after the last applied one, acknowledges them,
// and reconnects after a growing, jittered pause. If no WebSocket gets through, the page polls the same log. The status
// is true: "live" only while a channel answers.

const FIRST_PAUSE = 500; // ms
const LONGEST_PAUSE = 20_000;
const POLL = 2_000;
// An acknowledgement follows so many events or characters, or so many ms after the last one.
const ACK_EVENTS = 64, ACK_SIZE = 1 << 18, ACK = 1_000;
const SILENCE = 40_000; // the server sends something at least every 15 s; after this long the connection is dead

export class Stream {
  /**
   * @param id       session id
   * @param seq      () => last event applied
   * @param onEvents (events, last, ended) => void
   * @param onStatus ("connecting" | "live" | "reconnecting" | "ended" | "missing") => void
   * @param onInfo   ({viewers?, queue?, engine?}) => void
   */
  constructor(id, { seq, onEvents, onStatus, onInfo }) {
    Object.assign(this, { id, seq, onEvents, onStatus, onInfo });
    this.status = "";
    this.failures = 0;
    this.acked = 0;
    this.ackedAt = 0;
    this.unread = 0;
    this.stopped = false;
    addEventListener("online", () => this.retryNow());
    addEventListener("offline", () => this.socket?.close());
    addEventListener("pagehide", () => this.stop());
    addEventListener("pageshow", (e) => {
      if (e.persisted && this.status !== "ended") {
        this.stopped = false;
        this.connect();
      }
    });
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.retryNow();
    });
  }

  start() {
    this.say("connecting");
    this.connect();
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
    clearTimeout(this.poller);
    clearTimeout(this.watchdog);
    const { socket } = this;
    // A browser reports it as an error to close one that is not open yet.
    if (socket?.readyState === WebSocket.CONNECTING) socket.onopen = () => socket.close();
    else socket?.close();
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
    const socket = new WebSocket(
      `${scheme}//${location.host}/ws/s/${encodeURIComponent(this.id)}?after=${this.seq()}`,
    );
    this.socket = socket;
    socket.onmessage = (message) => {
      this.failures = 0;
      clearTimeout(this.poller);
      this.poller = null;
      if (this.status !== "ended") this.say("live");
      this.listen();
      this.unread += message.data.length;
      this.take(JSON.parse(message.data), socket);
    };
    socket.onclose = (e) => {
      if (this.socket !== socket) return;
      this.socket = null;
      clearTimeout(this.watchdog);
      if (this.stopped || this.status === "ended") return;
      if (e.code === 4404) {
        this.say("missing");
        return;
      }
      this.failures += 1;
      if (!this.poller) this.say("reconnecting");
      if (this.failures >= 2 && !this.poller) this.poll();
      const pause = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (this.failures - 1));
      this.timer = setTimeout(() => this.connect(), pause * (0.5 + Math.random() / 2));
    };
  }

  take(message, socket) {
    if (message.events) {
      this.onEvents(message.events, message.last, message.ended);
      if (socket) this.acknowledge(socket);
    }
    if ("viewers" in message || "queue" in message || "engine" in message) this.onInfo(message);
    if (message.ended && this.seq() >= (message.last ?? 0)) {
      this.say("ended");
      this.stop();
    }
  }

  /** Acknowledges once a second, and at once when much came: an acknowledgement costs the server more than an event. */
  acknowledge(socket) {
    const much = this.seq() - this.acked >= ACK_EVENTS || this.unread >= ACK_SIZE;
    const wait = much ? 0 : this.ackedAt + ACK - performance.now();
    clearTimeout(this.acker);
    if (wait > 0) {
      this.acker = setTimeout(() => this.acknowledge(socket), wait);
      return;
    }
    if (socket.readyState !== WebSocket.OPEN) return;
    this.acked = this.seq();
    this.ackedAt = performance.now();
    this.unread = 0;
    socket.send(JSON.stringify({ ack: this.acked }));
  }

  /** A gap in the log: request again after the last event. */
  again() {
    this.socket?.close();
    if (!this.socket) this.retryNow();
  }

  retryNow() {
    if (this.stopped || this.socket || ["ended", "missing"].includes(this.status)) return;
    this.connect();
  }

  listen() {
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => this.socket?.close(), SILENCE);
  }

  async page() {
    const reply = await fetch(`/api/sessions/${encodeURIComponent(this.id)}/events?after=${this.seq()}`);
    if (reply.status === 404) {
      this.say("missing");
      this.stop();
      return;
    }
    if (!reply.ok) throw new Error(`HTTP ${reply.status}`);
    this.take(await reply.json(), null);
  }

  async poll() {
    try {
      await this.page();
      if (!this.stopped && this.status !== "ended") this.say("live");
    } catch {
      if (!this.stopped) this.say("reconnecting");
    }
    if (!this.stopped && this.status !== "ended") this.poller = setTimeout(() => this.poll(), POLL);
  }
}
