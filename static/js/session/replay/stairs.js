// The search of one class under a stop rule, as a drawing: the best speedup after each trial, whole up to the stop and
// dashed after it, with PyTorch, the limit, and the line at which the rule stops.
import { CLASS } from "../../marks.js";
import { times } from "../../format.js";
import { tr } from "../../texts.js";
import { launchBinds } from "../words.js";

const HEIGHT = 132, TOP = 14, BOTTOM = 20, LEFT = 10, RIGHT = 92; // px; labels stand to the right
const WIDE = 6; // speedups that span more get a log axis, as in sol/figures/history.py
const APART = 13; // px between two labels

function svg(tag, attributes, text = "") {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text) node.textContent = text;
  return node;
}

/** y of a speedup; what lies outside of the axis stands at its end. */
function scale(low, high) {
  const wide = high / low > WIDE;
  const at = (v) => (wide ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low));
  return (v) => HEIGHT - BOTTOM - Math.min(1, Math.max(0, at(v))) * (HEIGHT - BOTTOM - TOP);
}

/** The points of the best so far over trials `from` to `to` (counted from 0), as a path. */
function stairs(bests, from, to, x, y) {
  let path = "";
  for (let i = from; i <= to; i += 1) {
    if (bests[i] === null) continue;
    path += path ? `H${x(i)}V${y(bests[i])}` : `M${x(i)} ${y(bests[i])}`;
  }
  return path;
}

/** Labels at the right end of their lines, moved apart: [{y, text}] in px. */
function labelled(labels, at) {
  let floor = TOP - APART;
  return labels.sort((a, b) => a.y - b.y).map(({ y, text }) => {
    floor = Math.max(y, floor + APART);
    return svg("text", { x: at, y: floor + 4, class: "stairs-label" }, text);
  });
}

/** `one`: a class of recorded(); `run`: its replay(); `width` in px; `title`: what a screen reader says. */
export function draw(one, run, eps, width, title) {
  const { trials, baseline } = one, { limit } = run;
  const speed = (ms) => baseline / ms;
  let best = null;
  const bests = trials.map(({ ms }) => {
    if (ms !== null && (best === null || ms < best)) best = ms;
    return best === null ? null : speed(best);
  });
  const top = launchBinds({ ms: limit, gap: 1 }) ? null : speed(limit), stop = top === null ? null : top / (1 + eps);
  const known = trials.filter(({ ms }) => ms !== null).map(({ ms }) => speed(ms));
  const y = scale(Math.min(1, ...known) * 0.92, Math.max(1, top ?? 1, ...known) * 1.06);
  const right = width - RIGHT, step = (right - LEFT) / Math.max(1, trials.length);
  const x = (i) => LEFT + step * (i + 0.5);
  const cut = run.code ? run.trials_run : trials.length;
  const ink = `var(${CLASS[one.cls]?.colour ?? "--muted"})`;
  const across = (v, name) => svg("line", { x1: LEFT, x2: right, y1: y(v), y2: y(v), class: `stairs-${name}` });
  const path = (name, from, to) => {
    const node = svg("path", { d: stairs(bests, from, to, x, y), class: `stairs-best ${name}` });
    node.style.stroke = ink;
    return node;
  };
  const point = ({ ms }, i) => {
    const name = i < cut ? "run" : "not-run";
    if (ms === null) {
      const [cx, cy] = [x(i), HEIGHT - BOTTOM];
      return svg("path", { d: `M${cx - 3} ${cy - 3}l6 6m0-6l-6 6`, class: `stairs-failed ${name}` });
    }
    const node = svg("circle", { cx: x(i), cy: y(speed(ms)), r: 3.2, class: name });
    node.style.stroke = ink;
    node.style.fill = i < cut && one.kind === "measured" ? ink : "none";
    return node;
  };
  const picture = svg("svg", { width, height: HEIGHT, role: "img", "aria-label": title, class: "stairs" });
  const lines = [{ y: y(1), text: "PyTorch" }];
  const edge = x(cut - 1) + step / 2;
  if (cut < trials.length) {
    const rest = { x: edge, y: TOP, width: right - edge, height: HEIGHT - BOTTOM - TOP, class: "stairs-rest" };
    picture.append(svg("rect", rest));
  }
  picture.append(across(1, "pytorch"));
  if (top !== null) {
    picture.append(across(top, "limit"), across(stop, "stop"));
    lines.push({ y: y(top), text: tr("limit {speedup}", { speedup: times(top) }) });
    if (eps > 0) lines.push({ y: y(stop), text: tr("stop {speedup}", { speedup: times(stop) }) });
  }
  if (cut < trials.length) {
    picture.append(svg("line", { x1: edge, x2: edge, y1: TOP - 8, y2: HEIGHT - BOTTOM, class: "stairs-cut" }));
    picture.append(path("not-run", cut - 1, trials.length - 1));
  }
  picture.append(path("run", 0, cut - 1), ...trials.map(point), ...labelled(lines, right + 6));
  const often = Math.max(1, Math.ceil(26 / step)); // a number needs 26 px
  trials.forEach(({ number }, i) => {
    if (i % often) return;
    picture.append(svg("text", { x: x(i), y: HEIGHT - 5, class: "stairs-number" }, String(number)));
  });
  return picture;
}
