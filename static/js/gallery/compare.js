// The history of each of the two compared sessions as a chart of its own: measured and predicted times share no axes.
import { $, boot, request, throttle } from "../page.js";
import { Chart, onAnotherLook } from "../chart.js";

const FAILED = "The chart did not load; the table above has the trials that were the fastest.";

class History {
  constructor({ letter, id }) {
    const root = $(`drawn-${letter}`);
    const choose = (trial) => location.assign(`/s/${id}?trial=${trial}`);
    const title = `${letter} Speedup by trial`;
    this.chart = new Chart(root, `history-of-${letter}`, title, "Loading the chart…", choose, "No trial has a time.");
    onAnotherLook(root, throttle(() => this.again(), 200));
    this.load(id);
  }

  async load(id) {
    try {
      this.figure = (await request(`/api/figures/${encodeURIComponent(id)}?names=history`)).history;
    } catch {
      this.chart.waiting.textContent = FAILED;
      return;
    }
    await this.chart.draw(this.figure);
  }

  again() {
    if (this.figure === undefined) return;
    this.chart.forget();
    this.chart.draw(this.figure);
  }
}

for (const one of boot.compared) new History(one);
