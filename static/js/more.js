// Four more charts, asked of the server only while they are open: what a trial used of each limit, its stages end to
// end, what the levers promised and brought, and (from recorded sessions, not this one) what stopping earlier costs.
import { h, request, throttle } from "./page.js";
import { Chart } from "./charts.js";
import { palette, served } from "./figures.js";

const POLICIES = new URL("../data/policies.json", import.meta.url).href;
const AGAIN = 2000; // ms between two questions while a session runs
const CHARTS = [
  ["shares", "Shares of the limit", "Drawn when there is a report and a time."],
  ["waterfall", "Stages, end to end", "The first checked trial draws it."],
  ["levers", "Levers: predicted and observed", "Drawn when a trial has tried what the report recommends."],
  ["policies", "When to stop: recorded sessions", "There are no recorded sessions."],
];

export class More {
  constructor(root, id, choose) {
    this.id = id;
    this.inside = h("div", { class: "more-charts" });
    this.details = h("details", { class: "panel more", id: "more-charts", ontoggle: () => this.now() }, h("summary", {}, "More charts: limits, stages, levers, when to stop"), this.inside);
    root.append(this.details);
    this.charts = Object.fromEntries(CHARTS.map(([name, title, waiting]) => [name, new Chart(this.inside, name, title, waiting, choose)]));
    this.soon = throttle(() => this.now(), AGAIN);
    addEventListener("themechange", () => this.now());
    new ResizeObserver(() => this.resize()).observe(this.inside);
  }

  resize() {
    const width = this.inside.clientWidth;
    if (!width || width === this.width) return;
    this.width = width;
    for (const chart of Object.values(this.charts)) chart.key = null;
    this.now();
  }

  draw(view, selected) {
    const finished = [...view.trials.values()].filter((t) => t.judged || t.failed).length;
    const trial = view.trials.get(selected)?.judged ? selected : null;
    this.wanted = `/api/figures/${this.id}${trial ? `?trial=${trial}` : ""}`;
    const stand = JSON.stringify([this.wanted, finished, Boolean(view.report), view.ended != null && view.ended !== false]);
    if (stand !== this.stand) { this.stand = stand; this.soon(); }
  }

  /** One at a time: a chart that is asked to draw the same twice at once draws nothing. */
  async now() {
    if (!this.details.open || !this.wanted) return;
    if (this.busy) { this.late = true; return; }
    this.busy = true;
    try { await this.drawAll(); } catch { /* the next event asks again */ } finally { this.busy = false; }
    if (this.late) { this.late = false; this.now(); }
  }

  async drawAll() {
    if (this.stand !== this.held) { const stand = this.stand; this.told = await request(this.wanted); this.held = stand; }
    this.policies ??= await request(POLICIES).catch(() => ({ rows: [] }));
    const p = palette();
    for (const [name, chart] of Object.entries(this.charts)) await chart.draw(served(name === "policies" ? this.policies : this.told[name], p));
  }
}
