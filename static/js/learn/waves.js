// Tiles and waves: which SM works on which output tile, round by round. The counts come from sol's tile model.
import { h } from "../page.js";
import { number, percent, svg, table, time } from "./parts.js";
import { fill } from "../texts.js";
import { select } from "./roofline.js";

const CELL = 14;
const MOST_ROUNDS = 14; // drawn; the words give the true count

export function drawWaves(figure, data, runner) {
  const word = (key) => runner.word(key);
  const state = { gpu: data.gpus[0].name, tile: data.tiles[0], split: data.splits[0] };
  const plot = h("div", { class: "figure-plot table-wide", tabindex: "0" });
  const words = h("p", { class: "figure-words", role: "status", "aria-live": "polite" });
  const controls = h("div", { class: "figure-controls" });
  if (data.gpus.length > 1)
    controls.append(select(word("gpu"), data.gpus.map((g) => [g.name, g.title]), (v) => (state.gpu = v), draw));
  controls.append(select(word("tile"), data.tiles.map((t) => [t, t]), (v) => (state.tile = v), draw));
  if (data.splits.length > 1)
    controls.append(
      select(word("split"), data.splits.map((s) => [s, String(s)]), (v) => (state.split = Number(v)), draw));
  const head = ["gpu", "tile", "split", "tiles", "waves", "busy", "predicted"].map(word);
  const share = (c) => percent(c.units / (c.waves * c.sms));
  const rows = data.cases.map((c) =>
    [c.gpu, c.tile, String(c.split), number(c.units), number(c.waves), share(c), time(c.ms)]);
  figure.append(controls, plot, words, table(runner, head, rows));
  draw();

  function draw() {
    const now = data.cases.find((c) => c.gpu === state.gpu && c.tile === state.tile && c.split === state.split);
    plot.replaceChildren(picture(now, word));
    words.textContent = fill(word("waves_say"), {
      tiles: number(now.units), sms: number(now.sms), waves: number(now.waves),
      busy: percent(now.units / (now.waves * now.sms)), time: time(now.ms),
    });
  }
}

function picture(now, word) {
  const columns = Math.min(now.sms, 66);
  const bands = Math.ceil(now.sms / columns);
  const rounds = Math.min(now.waves, MOST_ROUNDS);
  const height = rounds * (bands * CELL + 18) + 4;
  const label = fill(word("waves_label"), { waves: now.waves });
  const viewBox = `0 0 ${columns * CELL} ${height}`;
  const picture_ = svg("svg", { viewBox, role: "img", "aria-label": label, class: "waves" });
  for (let round = 0; round < rounds; round += 1) {
    const top = round * (bands * CELL + 18);
    picture_.append(svg("text", { x: 0, y: top + 12, class: "tick" }, `${word("wave")} ${round + 1}`));
    for (let sm = 0; sm < now.sms; sm += 1) {
      const busy = round * now.sms + sm < now.units;
      picture_.append(svg("rect", {
        x: (sm % columns) * CELL + 1, y: top + 16 + Math.floor(sm / columns) * CELL, width: CELL - 3, height: CELL - 3,
        class: busy ? "busy" : "idle",
      }));
    }
  }
  return picture_;
}
