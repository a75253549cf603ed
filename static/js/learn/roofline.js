// The roofline of a lesson: choose a GPU and a class, move a point along shapes, and see which roof is above it.
// Every intensity, time and binding roof comes from sol. Here only the roof's line is drawn: min(peak, x * bandwidth).
import { h } from "../page.js";
import { number, svg, table, time } from "./parts.js";
import { fill } from "../texts.js";

const W = 560;
const H = 320;
const BOX = { left: 80, right: 28, top: 14, bottom: 44 };

const log = Math.log10;
/** A function from values to pixels on a logarithmic axis. */
const scale = (low, high, from, to) => (x) => from + ((log(x) - log(low)) / (log(high) - log(low))) * (to - from);

export function drawRoofline(figure, data, runner) {
  const word = (key) => runner.word(key);
  const state = { gpu: data.gpus[0].name, cls: data.classes[0], at: 0 };
  const plot = h("div", { class: "figure-plot" });
  const words = h("p", { class: "figure-words", role: "status", "aria-live": "polite" });
  const tables = h("div", {});
  const gpu = select(word("gpu"), data.gpus.map((g) => [g.name, g.title]), (v) => (state.gpu = v), draw);
  const cls = select(word("class"), data.classes.map((c) => [c, c]), (v) => (state.cls = v), draw);
  const point = h("input", {
    type: "range", min: 0, max: data.points.length - 1, value: 0, "aria-label": word("shape"),
    oninput: (e) => {
      state.at = Number(e.target.value);
      draw();
    },
  });
  const controls = h("div", { class: "figure-controls" }, gpu, data.classes.length > 1 ? cls : null);
  if (data.points.length > 1) controls.append(h("label", { class: "wide" }, h("span", {}, word("shape")), point));
  figure.append(controls, plot, words, tables);
  draw();

  function draw() {
    const device = data.gpus.find((g) => g.name === state.gpu);
    if (!(state.cls in device.peaks)) {
      plot.replaceChildren();
      words.textContent = fill(word("no_class"), { gpu: device.title, cls: state.cls });
      return;
    }
    const points = data.points.map((p) => {
      const row = p.classes[state.cls];
      const on = row.on[device.name];
      return { ...row, label: p.label, ms: on.ms, by: on.by, rate: row.flops / (on.ms * 1e-3) };
    });
    const now = points[state.at];
    point.setAttribute("aria-valuetext", now.label);
    plot.replaceChildren(picture(device, state.cls, points, state.at, word, (i) => {
      state.at = i;
      point.value = String(i);
      draw();
    }));
    words.textContent = fill(word("point_says"), {
      label: now.label, intensity: number(now.intensity), ridge: number(device.ridges[state.cls]),
      binds: word(`binds_${now.by}`), time: time(now.ms),
    });
    const head = [word("shape"), word("intensity"), word("limit"), word("binds")];
    const open = tables.firstChild?.open ?? false;
    tables.replaceChildren(table(runner, head, points.map((p) =>
      [p.label, `${number(p.intensity)} FLOP/byte`, time(p.ms), word(`binds_${p.by}`)])));
    tables.firstChild.open = open;
  }
}

export function select(label, options, choose, draw) {
  const list = h("select", {}, options.map(([value, text]) => h("option", { value }, text)));
  list.addEventListener("change", () => {
    choose(list.value);
    draw();
  });
  return h("label", {}, h("span", {}, label), list);
}

function picture(device, cls, points, at, word, choose) {
  const peak = device.peaks[cls];
  const ridge = device.ridges[cls];
  const xs = [...points.map((p) => p.intensity), ridge].filter((x) => x > 0);
  const low = Math.min(...xs) / 3;
  const high = Math.max(...xs) * 4;
  const bottom = Math.min(...points.map((p) => p.rate), low * device.bandwidth) / 1.5;
  const x = scale(low, high, BOX.left, W - BOX.right);
  const y = scale(bottom, peak * 2, H - BOX.bottom, BOX.top);
  const start = y(Math.min(peak, low * device.bandwidth));
  const roofs = `M${x(low)},${start} L${x(ridge)},${y(peak)} L${x(high)},${y(peak)}`;
  const under = `${roofs} L${x(high)},${y(bottom)} L${x(low)},${y(bottom)} Z`;
  const now = points[at];
  const label = `${word("roofline")}: ${device.title}, ${cls}`;
  return svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label, class: "roofline" },
    svg("path", { d: under, class: "under" }),
    grid(low, high, x, bottom, peak * 2, y),
    svg("path", { d: roofs, class: "roof" }),
    svg("line", { x1: x(ridge), x2: x(ridge), y1: y(peak), y2: H - BOX.bottom, class: "ridge" }),
    text(x(ridge), y(peak) - 8, `${word("ridge")} ${number(ridge)}`, "middle"),
    drawn(points, at).map(([p, i]) => {
      const look = i === at ? { r: 8, class: "now" } : { r: 4, class: "dot" };
      const place = { cx: x(p.intensity), cy: y(p.rate), ...look };
      const mark = svg("circle", place, svg("title", {}, p.label));
      mark.addEventListener("click", () => choose(i));
      return mark;
    }),
    text(x(now.intensity), Math.min(y(now.rate) + 26, H - BOX.bottom - 6), now.label,
      x(now.intensity) > W * 0.7 ? "end" : x(now.intensity) < W * 0.3 ? "start" : "middle", "now-label"),
    text((BOX.left + W) / 2, H - 6, word("axis_x"), "middle", "axis"),
    svg("text", { transform: `translate(14 ${H / 2}) rotate(-90)`, "text-anchor": "middle", class: "axis-y" },
      word("axis_y")),
  );
}

/** [point, index] with the current one last, so that it lies on top. */
const drawn = (points, at) => points.map((p, i) => [p, i]).sort((a, b) => (a[1] === at) - (b[1] === at));

function text(x, y, words, anchor, cls = "label") {
  return svg("text", { x, y, "text-anchor": anchor, class: cls }, words);
}

function grid(low, high, x, bottom, top, y) {
  const lines = [];
  for (let e = Math.ceil(log(low)); e <= log(high); e += 1) {
    const at = x(10 ** e);
    lines.push(svg("line", { x1: at, x2: at, y1: BOX.top, y2: H - BOX.bottom, class: "grid" }));
    lines.push(text(at, H - BOX.bottom + 16, number(10 ** e), "middle", "tick"));
  }
  for (let e = Math.ceil(log(bottom)); e <= log(top); e += 1) {
    const at = y(10 ** e);
    lines.push(svg("line", { x1: BOX.left, x2: W - BOX.right, y1: at, y2: at, class: "grid" }));
    lines.push(text(BOX.left - 6, at + 4, rate(10 ** e), "end", "tick"));
  }
  return lines;
}

const rate = (x) => (x >= 1e12 ? `${number(x / 1e12)} T` : x >= 1e9 ? `${number(x / 1e9)} G` : `${number(x / 1e6)} M`);
