// The mark of a trial in lists and tables: one shape and one colour for each precision class, as for the charts in
// sol/figures/palette.py (tests/browser/test_figures.py compares them); hollow for a prediction, filled for a
// measurement, a cross for a failure, dashed for a raw kernel that has a verdict and no time.
export const CLASS = {
  f64: { shape: "pentagon", colour: "--oi-purple" },
  f32: { shape: "square", colour: "--oi-blue" },
  tf32: { shape: "circle", colour: "--oi-orange" },
  f16: { shape: "diamond", colour: "--oi-green" },
  bf16: { shape: "triangle-up", colour: "--oi-sky" },
  fp8: { shape: "star", colour: "--oi-vermillion" },
  i8: { shape: "hexagon", colour: "--oi-olive" },
};

const PATHS = {
  square: "M3 3h8v8H3z",
  circle: "M7 2.5a4.5 4.5 0 1 1 0 9a4.5 4.5 0 1 1 0-9z",
  diamond: "M7 1.5 12.5 7 7 12.5 1.5 7z",
  "triangle-up": "M7 2 12.5 11.5h-11z",
  star: "M7 1.2l1.7 3.7 4 .5-3 2.7.8 4L7 10.1l-3.5 2 .8-4-3-2.7 4-.5z",
  pentagon: "M7 2l5 3.6-1.9 5.9H3.9L2 5.6z",
  hexagon: "M7 1.8l4.5 2.6v5.2L7 12.2 2.5 9.6V4.4z",
  cross: "M3 3l8 8M11 3l-8 8",
};

/** The mark of a trial as an SVG of 14 px. kind: measured | predicted | untimed | failed | pending. */
export function mark(cls, kind) {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  const attributes = { viewBox: "0 0 14 14", width: 14, height: 14, "aria-hidden": "true" };
  for (const [name, value] of Object.entries(attributes)) svg.setAttribute(name, value);
  const path = document.createElementNS(ns, "path");
  const { shape, colour } = CLASS[cls] ?? { shape: "circle", colour: "--muted" };
  path.setAttribute("d", PATHS[kind === "failed" ? "cross" : shape]);
  const inks = { failed: "var(--oi-vermillion)", pending: "var(--line-strong)" };
  path.style.stroke = inks[kind] ?? `var(${colour})`;
  path.style.strokeWidth = kind === "failed" ? "2.2" : "1.6";
  path.style.fill = kind === "measured" ? `var(${colour})` : "none";
  if (kind === "untimed") path.style.strokeDasharray = "2 2";
  svg.append(path);
  return svg;
}
