// One shape and one colour for each precision class, the same in the timeline, the charts and the tables; hollow for
// a prediction, filled for a measurement. Colours are Okabe-Ito (css/base.css), as in sol/figures/plots.py.
export const CLASS = {
  f32: { shape: "square", colour: "--oi-blue" },
  tf32: { shape: "circle", colour: "--oi-orange" },
  f16: { shape: "diamond", colour: "--oi-green" },
  bf16: { shape: "triangle-up", colour: "--oi-sky" },
  fp8: { shape: "star", colour: "--oi-vermillion" },
};
export const classOf = (cls) => CLASS[cls] ?? { shape: "circle", colour: "--muted" };

const PATHS = {
  square: "M3 3h8v8H3z",
  circle: "M7 2.5a4.5 4.5 0 1 1 0 9a4.5 4.5 0 1 1 0-9z",
  diamond: "M7 1.5 12.5 7 7 12.5 1.5 7z",
  "triangle-up": "M7 2 12.5 11.5h-11z",
  star: "M7 1.2l1.7 3.7 4 .5-3 2.7.8 4L7 10.1l-3.5 2 .8-4-3-2.7 4-.5z",
  cross: "M3 3l8 8M11 3l-8 8",
};

/** The mark of a trial as an SVG of 14 px. kind: measured | predicted | failed | pending. */
export function mark(cls, kind) {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  for (const [name, value] of Object.entries({ viewBox: "0 0 14 14", width: 14, height: 14, "aria-hidden": "true" })) svg.setAttribute(name, value);
  const path = document.createElementNS(ns, "path");
  const { shape, colour } = classOf(cls);
  path.setAttribute("d", PATHS[kind === "failed" ? "cross" : shape]);
  path.style.stroke = kind === "failed" ? "var(--oi-vermillion)" : kind === "pending" ? "var(--line-strong)" : `var(${colour})`;
  path.style.strokeWidth = kind === "failed" ? "2.2" : "1.6";
  path.style.fill = kind === "measured" ? `var(${colour})` : "none";
  svg.append(path);
  return svg;
}

/** A colour token as the browser resolves it now, for Plotly, which takes no variables. */
export function resolved(token) {
  const probe = document.createElement("i");
  probe.style.color = `var(${token})`;
  probe.hidden = true;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
