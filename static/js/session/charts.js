// The charts of a session. The server builds their figures from the log (playground/figures.py). The page requests them
// again when an event changed them, at most twice a second, and draws them. In a replay it requests the figures of that
// event. Four more are requested only while they are open.
import { debounce, h, request, throttle } from "../page.js";
import { Chart, onAnotherLook } from "../chart.js";
import { tr } from "../texts.js";

const REDRAW = 500; // ms between two drawings
// While a session runs, a drawing also waits so many times what the last one took. Plotly draws every mark anew: 500
// trials twice a second leave more garbage than all else on the page.
const COSTS = 50;
const MARK = 150; // ms after the last choice of a trial until its marks are drawn larger
const AGAIN = 2000; // ms until a failed request, or one for an open chart, is repeated
const POLICIES = new URL("../../data/policies.json", import.meta.url).href;
export const LIVE = [
  ["roofline", "Roofline", "Drawn once there is a speed-of-light report."],
  ["history", "Speedup history", "The first judged trial starts it."],
  ["breakdown", "Where the time goes", "Drawn once there is a speed-of-light report."],
];
const MORE = [
  ["shares", "Shares of the limit", "Drawn once there is a report and a time."],
  ["waterfall", "Stages, end to end", "The first checked trial draws it."],
  ["levers", "Levers: predicted and observed", "Drawn once a trial has tried a recommendation of the report."],
];

/** Charts whose figures are requested together, one request at a time. */
export class Group {
  constructor(root, id, charts, pause, choose) {
    this.id = id;
    this.charts = Object.fromEntries(charts.map(([name, ...rest]) => [name, new Chart(root, name, ...rest, choose)]));
    this.names = charts.map(([name]) => name).join();
    this.cost = 0; // ms of the last drawing
    this.soon = throttle(() => this.now(), () => Math.max(pause, this.running ? COSTS * this.cost : 0));
    this.later = debounce(() => this.soon(), MARK);
    this.figures = {};
    onAnotherLook(root, () => this.again());
  }

  /** `wanted`: the figures' parameters, {seq, trial?}; `selected`: the trial with larger marks; `running`: the session
   *  has not ended. */
  draw(wanted, selected, running = false) {
    const ended = this.running && !running;
    this.running = running;
    const query = new URLSearchParams({ names: this.names, ...wanted });
    const address = wanted.seq ? `/api/figures/${this.id}?${query}` : null;
    if (address !== this.wanted) this.soon();
    else if (selected !== this.selected) this.later();
    Object.assign(this, { wanted: address, selected });
    if (ended) this.now(); // the last trials do not wait for the pause between two drawings
  }

  again() {
    for (const chart of Object.values(this.charts)) chart.forget();
    this.soon();
  }

  async now() {
    if (this.busy) { this.late = true; return; }
    this.busy = true;
    try {
      await this.ask();
      const began = performance.now();
      for (const [name, chart] of Object.entries(this.charts))
        await chart.draw(this.figures[name] ?? null, this.selected);
      if (this.drawn) this.cost = performance.now() - began; // the first time, Plotly itself is loaded
      this.drawn = true;
    } catch {
      setTimeout(() => this.soon(), AGAIN);
    } finally {
      this.busy = false;
    }
    if (this.late) { this.late = false; this.soon(); }
  }

  async ask() {
    const wanted = this.wanted;
    if (wanted === this.address) return;
    this.figures = wanted ? await request(wanted) : {};
    this.address = wanted;
  }
}

export class Charts {
  constructor(root, id, choose) {
    this.live = new Group(root, id, LIVE, REDRAW, choose);
    this.inside = h("div", { class: "more-charts" });
    const summary = h("summary", {},
      tr("More charts: limits, stages, levers, when to stop"));
    this.details = h("details", { class: "panel more", id: "more-charts", ontoggle: () => this.drawMore() }, summary,
      this.inside);
    root.append(this.details);
    this.more = new Group(this.inside, id, MORE, AGAIN, choose);
    this.policies = new Chart(this.inside, "policies", "When to stop: recorded sessions",
      "There are no recorded sessions.", () => {});
    addEventListener("themechange", () => { this.policies.forget(); this.drawPolicies(); });
    new ResizeObserver(() => { this.policies.forget(); this.drawPolicies(); }).observe(this.inside);
  }

  /** `running`: the session has not ended; `view` may be one of its replay. */
  draw(view, selected, running) {
    this.live.draw({ seq: view.figures_seq }, selected, running);
    const trial = view.trials.get(selected)?.judged ? { trial: selected } : {};
    this.wanted = [{ seq: view.figures_seq, ...trial }, selected, running];
    this.drawMore();
  }

  drawMore() {
    if (!this.details.open || !this.wanted) return;
    this.more.draw(...this.wanted);
    this.drawPolicies();
  }

  /** From recorded sessions, not from this session. */
  async drawPolicies() {
    if (!this.details.open) return;
    this.recorded ??= request(POLICIES).catch(() => null);
    await this.policies.draw(await this.recorded);
  }

  /** A hidden pane is shown: draw the charts that had no width before. */
  resize() {
    this.live.again();
    this.more.again();
  }
}
