// Figures of recorded searches: bars to compare times, the trials of a session one by one, and stop rules.
import { h } from "../page.js";
import { number, pane, percent, table, time } from "./parts.js";
import { fill } from "../texts.js";

export function drawBars(figure, data, runner) {
  const most = Math.max(...data.bars.map((b) => b.value));
  const words = (value) => (data.unit === "ms" ? time(value) : `${number(value)} ${data.unit}`);
  const rows = data.bars.map((bar) => row(bar.label, bar.value / most, words(bar.value), bar.what, runner));
  figure.append(h("div", { class: "bars" }, rows));
  const head = [runner.word("what"), runner.word("kind"), data.unit];
  figure.append(table(runner, head, data.bars.map((b) => [b.label, runner.word(b.what), words(b.value)])));
}

function row(label, share, value, what, runner, current = false) {
  const fillBar = h("span", { class: `bar ${what}`, style: { width: `${Math.max(0.5, share * 100)}%` } });
  const name = h("span", { class: "bar-name" }, label);
  const kind = h("span", { class: "bar-kind faint" }, what === "value" ? "" : runner.word(what));
  return h("div", { class: "bar-row", "aria-current": current ? "true" : null }, name,
    h("span", { class: "bar-track" }, fillBar), h("span", { class: "bar-value" }, value, " ", kind));
}

/** The trials of a recorded session, one more with each press; each links to the session's page. */
export function drawTrials(figure, data, runner) {
  const word = (key) => runner.word(key);
  let shown = 1;
  const times = data.trials.map((t) => t.ms ?? 0);
  const most = Math.max(...times, ...Object.values(data.baselines));
  const list = h("div", { class: "bars trials", role: "log", "aria-label": word("trials") });
  const next = h("button", { type: "button", class: "button", onclick: () => step(1) }, word("next_trial"));
  const back = h("button", { type: "button", class: "button", onclick: () => step(-1) }, word("last_trial"));
  const whole = () => step(data.trials.length);
  const all = h("button", { type: "button", class: "button", onclick: whole }, word("all_trials"));
  const words = h("p", { class: "figure-words", role: "status", "aria-live": "polite" });
  figure.append(h("div", { class: "figure-controls" }, back, next, all), list, words);
  const head = ["trial", "class", "change", "verdict", "time"].map(word);
  figure.append(table(runner, head, data.trials.map((t) =>
    [String(t.number), t.class, t.change, t.verdict, t.ms === null ? "–" : time(t.ms)])));
  let loaded = true; // only then a trial has a page
  figure.addEventListener("notloaded", () => {
    loaded = false;
    draw();
  });
  figure.append(pane(runner, data.id, data.pane, true));
  draw();

  function step(by) {
    shown = Math.min(data.trials.length, Math.max(1, shown + by));
    draw();
  }

  function draw() {
    const classes = Object.keys(data.limits);
    const fixed = classes.flatMap((cls) => [
      row(`PyTorch (${cls})`, data.baselines[cls] / most, time(data.baselines[cls]), "value", runner),
      row(`${word("limit")} (${cls})`, data.limits[cls] / most, time(data.limits[cls]), "limit", runner),
    ]);
    const trials = data.trials.slice(0, shown).map((t, i) => {
      const what = t.ms === null || !t.counts ? "bad" : t.measured ? "measured" : "predicted";
      const value = t.ms === null ? t.verdict : time(t.ms);
      return row(`${t.number} (${t.class})`, (t.ms ?? 0) / most, value, what, runner, i === shown - 1);
    });
    list.replaceChildren(...fixed, ...trials);
    const now = data.trials[shown - 1];
    const name = fill(word("trial_n"), { n: now.number });
    words.replaceChildren(
      loaded ? h("a", { href: `/s/${data.id}?trial=${now.number}`, target: "_blank", rel: "noopener" }, name) : name,
      ": ", h("span", { lang: "en" }, `${now.change || "–"}. ${now.text || now.reason}`));
    back.disabled = shown === 1;
    next.disabled = all.disabled = shown === data.trials.length;
  }
}

/** Stop rules: where a recorded search would have ended under another eps and window. The runs come from sol.replay. */
export function drawStop(figure, data, runner) {
  const word = (key) => runner.word(key);
  const most = Math.max(...data.times.filter((t) => t !== null), data.baseline);
  const slider = (label, values) =>
    h("input", { type: "range", min: 0, max: values.length - 1, value: 2, "aria-label": label });
  const eps = slider("eps", data.epsilons);
  const window_ = slider("w", data.windows);
  const names = [h("output", {}), h("output", {})];
  const list = h("div", { class: "bars trials" });
  const words = h("p", { class: "figure-words", role: "status", "aria-live": "polite" });
  const sliders = [h("label", { class: "wide" }, h("span", {}, "eps ", names[0]), eps),
    h("label", { class: "wide" }, h("span", {}, "w ", names[1]), window_)];
  figure.append(h("div", { class: "figure-controls" }, sliders), list, words);
  const head = ["eps", "w", word("trials"), word("kept"), word("efficiency")];
  figure.append(table(runner, head, data.runs.map((r) =>
    [percent(r.eps), String(r.window), String(r.trials), percent(r.kept), number(r.efficiency)])));
  for (const input of [eps, window_]) input.addEventListener("input", draw);
  draw();

  function draw() {
    const e = data.epsilons[Number(eps.value)];
    const w = data.windows[Number(window_.value)];
    const run = data.runs.find((r) => r.eps === e && r.window === w);
    names[0].textContent = percent(e);
    names[1].textContent = String(w);
    eps.setAttribute("aria-valuetext", percent(e));
    window_.setAttribute("aria-valuetext", String(w));
    const rows = data.times.map((t, i) => {
      const skipped = i >= run.trials;
      const what = skipped ? "skipped" : t === null ? "bad" : "measured";
      return row(`${i + 1}`, (t ?? 0) / most, t === null ? word("no_time") : time(t), what, runner);
    });
    list.replaceChildren(row("PyTorch", data.baseline / most, time(data.baseline), "value", runner),
      row(word("limit"), data.limit / most, time(data.limit), "limit", runner), ...rows);
    words.textContent = fill(word("stop_says"), {
      trials: run.trials, total: data.times.length, kept: percent(run.kept), efficiency: number(run.efficiency),
    });
  }
}
