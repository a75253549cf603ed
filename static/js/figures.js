// The view and the SOL report become figures: traces and axes for Plotly, and the same numbers as a table.
// Pure but for colours. A prediction is drawn hollow, a measurement filled; the legend says which.
import { timeOf } from "./store.js";
import { classOf, resolved } from "./shapes.js";
import { baselineName, BOUND, className, digits, time, times } from "./format.js";

const UNITS = { matrix: "matrix units", vector: "arithmetic pipes", special: "special functions", memory: "memory" };
const PLOT_HEIGHT = 210; // pixels between the axes, near enough to keep labels apart
const SYMBOL = (cls, kind) => classOf(cls).shape + (kind === "measured" ? "" : "-open");
const judgedTrials = (view) => [...view.trials.values()].filter((t) => t.judged && !t.failed);
const tflops = (flops, ms) => flops / (ms / 1e3) / 1e12;

export function palette() {
  const c = (token) => resolved(token);
  return { ink: c("--ink"), muted: c("--muted"), faint: c("--faint"), line: c("--line"), strong: c("--line-strong"), panel: c("--panel"), good: c("--good"), of: (cls) => c(classOf(cls).colour), blue: c("--oi-blue"), green: c("--oi-green"), orange: c("--oi-orange"), vermillion: c("--oi-vermillion"), purple: c("--oi-purple") };
}

function axes(p, x, y) {
  const axis = (more) => ({ gridcolor: p.line, zeroline: false, linecolor: p.strong, tickfont: { color: p.muted, size: 11 }, title: { font: { color: p.muted, size: 11.5 }, standoff: 6 }, automargin: true, ...more, ...(more.title ? { title: { text: more.title, font: { color: p.muted, size: 11.5 }, standoff: 6 } } : {}) });
  return {
    xaxis: axis(x), yaxis: axis(y), paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: p.ink, size: 12, family: "ui-sans-serif, system-ui, sans-serif" },
    margin: { l: 52, r: 74, t: 8, b: 40 }, showlegend: true, hovermode: "closest",
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 11, color: p.muted }, itemclick: false, itemdoubleclick: false, bgcolor: "rgba(0,0,0,0)" },
    hoverlabel: { bgcolor: p.panel, bordercolor: p.strong, font: { color: p.ink, size: 12 } },
  };
}

/** Labels at the right edge of a chart, moved apart where they would lie on each other; `y` stays what each names. */
function apart(labels, pixelsPerUnit, step = 13) {
  const sorted = labels.toSorted((a, b) => a.y - b.y);
  let floor = -Infinity;
  for (const label of sorted) {
    const at = Math.max(label.y * pixelsPerUnit, floor);
    label.yshift = Math.round(at - label.y * pixelsPerUnit);
    floor = at + step;
  }
  return labels;
}

/** What the bars say, in words: of the class that is drawn and with the very baseline that is drawn, no other. */
export function sentence(cls, bound, base, report) {
  const limit = `In ${className(cls)} no kernel on ${report.gpu.title} can be faster than ${time(bound.ms)}${BOUND[bound.bound_by] ? `, a limit set by ${BOUND[bound.bound_by]}` : ""}`;
  const against = base ? `; PyTorch takes ${time(base.time.ms)} (${base.time.kind}), ${(base.time.ms / bound.ms).toFixed(2)} times that` : "";
  const lever = report.levers?.find((l) => l.action !== "lower_class")?.title;
  return `${limit}${against}.${lever ? ` The first thing to try: ${lever[0].toLowerCase()}${lever.slice(1)}.` : ""}`;
}

/** Round numbers on a log axis, written out. */
function ticks(lo, hi, steps) {
  const values = [];
  for (let e = Math.floor(Math.log10(lo)); e <= Math.ceil(Math.log10(hi)); e += 1) values.push(...steps.map((s) => s * 10 ** e).filter((v) => v >= lo * 0.999 && v <= hi * 1.001));
  return { tickvals: values, ticktext: values.map((v) => v.toLocaleString("en", { maximumSignificantDigits: 3 })) };
}

/** Log-log: each class's roof, the memory roof, what is reached in practice, the baseline pinned, the trail of trials. */
export function roofline(view, report, selected, p) {
  if (!report) return null;
  const flops = (report.totals.needed_flops ?? report.totals.matrix_flops) + report.totals.vector_flops;
  if (!flops) return null;
  const allowed = new Set([...(view.started?.classes ?? report.classes), ...view.baselines.map((b) => b.cls)]);
  const classes = report.classes.filter((c) => report.bounds[c] && allowed.has(c));
  const at = Math.max(...classes.map((c) => report.bounds[c].intensity));
  const ridges = classes.map((c) => report.bounds[c].peak / report.gpu.bandwidth);
  const lo = Math.min(at, ...ridges) / 3, hi = Math.max(at, ...ridges) * 5;
  const data = [], rows = [];
  for (const cls of classes) {
    const b = report.bounds[cls], ridge = b.peak / report.gpu.bandwidth;
    data.push({ x: [lo, ridge, hi], y: [lo, ridge, hi].map((i) => Math.min(b.peak, i * report.gpu.bandwidth) / 1e12), mode: "lines", line: { color: p.of(cls), width: 1.8 }, name: `${className(cls)} roof`, hovertemplate: `${className(cls)} roof<br>%{y:.4g} TFLOP/s<extra></extra>`, showlegend: false });
    rows.push([`${className(cls)} roof (published peak)`, "", `${digits(b.peak / 1e12)}`, ""]);
    if (b.ceiling && b.ceiling < b.peak) data.push({ x: [lo, b.ceiling / b.copy_rate, hi], y: [lo, b.ceiling / b.copy_rate, hi].map((i) => Math.min(b.ceiling, i * b.copy_rate) / 1e12), mode: "lines", line: { color: p.of(cls), width: 1, dash: "dot" }, hovertemplate: `${className(cls)}, reached in practice<br>%{y:.4g} TFLOP/s<extra></extra>`, showlegend: false });
  }
  const top = {}; // class -> kind, for the legend
  const trials = judgedTrials(view);
  for (const cls of classes) {
    const mine = trials.filter((t) => t.cls === cls);
    const x = report.bounds[cls].intensity;
    for (const kind of ["measured", "predicted"]) {
      const some = mine.filter((t) => timeOf(t).kind === kind);
      if (!some.length) continue;
      top[cls] = kind;
      data.push({
        x: some.map(() => x), y: some.map((t) => tflops(flops, timeOf(t).ms)), mode: "lines+markers", name: `${className(cls)}, ${kind}`, customdata: some.map((t) => t.n),
        marker: { symbol: SYMBOL(cls, kind), size: some.map((t) => (t.n === selected ? 15 : 9)), color: p.of(cls), line: { color: p.of(cls), width: 1.6 } }, line: { color: p.of(cls), width: 1, dash: "dot" },
        hovertemplate: some.map((t) => `trial ${t.n}, ${kind}<br>${time(timeOf(t).ms)} · %{y:.4g} TFLOP/s<extra></extra>`),
      });
      for (const t of some) rows.push([`trial ${t.n} · ${className(cls)} · ${kind}`, digits(x), digits(tflops(flops, timeOf(t).ms)), time(timeOf(t).ms)]);
    }
  }
  for (const [i, b] of view.baselines.entries()) {
    const x = (report.bounds[b.cls] ?? report.bounds[classes[0]]).intensity, y = tflops(flops, b.time.ms);
    data.push({ x: [x], y: [y], mode: "markers", name: i ? b.name : "PyTorch", showlegend: false, marker: { symbol: b.time.kind === "measured" ? "square" : "square-open", size: 11, color: p.ink, line: { width: 2, color: p.ink } }, hovertemplate: `${baselineName(b.name)}, ${b.time.kind}<br>${time(b.time.ms)} · %{y:.4g} TFLOP/s<extra></extra>` });
    rows.push([`${baselineName(b.name)} · ${b.time.kind}`, digits(x), digits(y), time(b.time.ms)]);
  }
  const reached = [...trials.map((t) => timeOf(t).ms), ...view.baselines.map((b) => b.time.ms)].map((ms) => tflops(flops, ms));
  const floor = Math.min(...reached, Math.min(...classes.map((c) => report.bounds[c].peak)) / 1e12) / 1.7;
  const peaks = classes.map((c) => report.bounds[c].peak / 1e12);
  const layout = axes(p, { type: "log", title: "FLOP per byte", range: [Math.log10(lo), Math.log10(hi)], ...ticks(lo, hi, [1]) }, { type: "log", title: "TFLOP/s", range: [Math.log10(floor), Math.log10(Math.max(...peaks) * 2.2)], ...ticks(floor, Math.max(...peaks) * 2.2, [1, 2, 5]) });
  // Classes that share a peak (f16 and bf16) share a label.
  layout.annotations = [...new Set(peaks)].map((peak) => ({ xref: "paper", x: 1, xanchor: "left", xshift: 5, y: Math.log10(peak), yanchor: "middle", showarrow: false, text: classes.filter((c) => report.bounds[c].peak / 1e12 === peak).map(className).join("<br>"), font: { size: 10.5, color: p.muted } }));
  for (const b of view.baselines) layout.annotations.push({ x: Math.log10((report.bounds[b.cls] ?? report.bounds[classes[0]]).intensity), y: Math.log10(tflops(flops, b.time.ms)), text: `PyTorch ${className(b.cls)}`, showarrow: false, ...(["f16", "bf16", "fp8"].includes(b.cls) ? { yanchor: "bottom", yshift: 6 } : { xanchor: "right", xshift: -9 }), bgcolor: p.panel, borderpad: 1, font: { size: 10.5, color: p.ink } });
  return { data, layout, caption: `On ${report.gpu.title}. Solid: published roofs. Dotted: rates reached in practice.`, head: ["", "FLOP/byte", "TFLOP/s", "time"], rows };
}

/** Speedup of each trial over the baseline of its own class, the best so far, and the lines where the search would stop. */
export function history(view, selected, p) {
  const trials = judgedTrials(view);
  if (!trials.length) return null;
  const data = [], rows = [], shapes = [], annotations = [];
  const eps = view.budget?.eps ?? view.started?.budget?.eps;
  let top = 1;
  const last = Math.max(...view.trials.keys());
  for (const cls of [...new Set(trials.map((t) => t.cls))]) {
    const mine = trials.filter((t) => t.cls === cls);
    for (const kind of ["measured", "predicted"]) {
      const some = mine.filter((t) => timeOf(t).kind === kind);
      if (some.length) data.push({
        x: some.map((t) => t.n), y: some.map((t) => t.judged.speedup), mode: "markers", name: `${className(cls)}, ${kind}`, customdata: some.map((t) => t.n),
        marker: { symbol: SYMBOL(cls, kind), size: some.map((t) => (t.n === selected ? 14 : 9)), color: p.of(cls), line: { color: p.of(cls), width: 1.6 } },
        hovertemplate: some.map((t) => `trial ${t.n}, ${kind}<br>%{y:.3g}× over ${baselineName(t.judged.baseline)}<extra></extra>`),
      });
    }
    let best = 0;
    const steps = mine.map((t) => { if (t.judged.best) best = t.judged.speedup; else best = Math.max(best, 0); return best || null; });
    data.push({ x: [...mine.map((t) => t.n), last], y: [...steps, steps.at(-1)], mode: "lines", line: { shape: "hv", color: p.of(cls), width: 2 }, hoverinfo: "skip", showlegend: false });
    top = Math.max(top, ...mine.map((t) => t.judged.speedup));
    const first = mine[0].judged, limit = first.speedup * first.gap; // base / t_sol = (base / t) * (t / t_sol)
    if (Number.isFinite(limit)) {
      shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: limit, y1: limit, line: { color: p.of(cls), width: 1, dash: "dash" } });
      annotations.push({ xref: "paper", x: 1, xanchor: "left", xshift: 5, y: limit, yanchor: "middle", showarrow: false, text: `${className(cls)} limit`, font: { size: 10.5, color: p.muted } });
      if (eps > 0) {
        shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: limit / (1 + eps), y1: limit / (1 + eps), line: { color: p.of(cls), width: 1, dash: "dot" } });
        annotations.push({ xref: "paper", x: 1, xanchor: "left", xshift: 5, y: limit / (1 + eps), yanchor: "middle", showarrow: false, text: `${className(cls)} stop`, font: { size: 10.5, color: p.muted } });
      }
      top = Math.max(top, limit);
    }
  }
  for (const t of view.trials.values()) {
    const kind = t.failed ? "failed" : t.judged ? timeOf(t).kind : "running";
    rows.push([`${t.n}`, className(t.cls), kind, t.judged ? time(t.judged.ms) : "", t.judged ? times(t.judged.speedup) : "", t.judged ? baselineName(t.judged.baseline) : ""]);
  }
  const failed = [...view.trials.values()].filter((t) => t.failed);
  if (failed.length) data.push({ x: failed.map((t) => t.n), y: failed.map(() => 0), mode: "markers", name: "failed", customdata: failed.map((t) => t.n), marker: { symbol: "x-thin", size: 9, line: { color: p.vermillion, width: 2 } }, hovertemplate: failed.map((t) => `trial ${t.n} failed<extra></extra>`), cliponaxis: false });
  shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: 1, y1: 1, line: { color: p.ink, width: 1.4 } });
  annotations.push({ xref: "paper", x: 1, xanchor: "left", xshift: 5, y: 1, yanchor: "middle", showarrow: false, text: "PyTorch", font: { size: 10.5, color: p.ink } });
  const layout = axes(p, { title: "trial", dtick: Math.max(1, Math.ceil(last / 10)), range: [0.4, last + 0.6], tickformat: "d" }, { title: "speedup", range: [0, top * 1.14], ticksuffix: "×" });
  const heights = PLOT_HEIGHT / (top * 1.14);
  const enough = eps > 0 ? ` Dotted: within ${Math.round(eps * 100)}% of the limit, where the search of a class stops.` : "";
  return { data, layout: { ...layout, shapes, annotations: apart(annotations, heights) }, caption: `Each class against the baseline of its own class${trials.some((t) => t.cls === "fp8") ? "; FP8, which PyTorch lacks, against its half precision" : ""}.${enough}`, head: ["trial", "class", "kind", "time", "speedup", "over"], rows };
}

/** What each unit would need alone, the limit they set, and where PyTorch and the best trial stand. */
export function breakdown(view, report, best, p) {
  if (!report) return null;
  const cls = best?.judged.cls ?? report.classes[0], b = report.bounds[cls];
  if (!b) return null;
  const bars = Object.entries(b.parts).filter(([, ms]) => ms > 0).map(([unit, ms]) => ({ name: `${UNITS[unit] ?? unit} alone`, ms, colour: p.faint, kind: "bound" }));
  bars.push({ name: "limit", ms: b.ms, colour: p.green, kind: "bound" });
  if (best) bars.push({ name: `best, ${best.judged.kind}`, ms: best.judged.ms, colour: p.of(cls), kind: best.judged.kind });
  const base = view.baselines.find((x) => x.name === best?.judged.baseline) ?? view.baselines.find((x) => x.cls === cls);
  if (base) bars.push({ name: `PyTorch, ${base.time.kind}`, ms: base.time.ms, colour: p.ink, kind: base.time.kind });
  bars.reverse();
  const data = [{
    type: "bar", orientation: "h", x: bars.map((x) => x.ms), y: bars.map((x) => x.name), text: bars.map((x) => time(x.ms)), textposition: "auto", insidetextanchor: "end", cliponaxis: false, textangle: 0,
    insidetextfont: { color: bars.map((x) => (x.kind === "predicted" ? p.ink : p.panel)) }, outsidetextfont: { color: p.ink }, hoverinfo: "skip",
    marker: { color: bars.map((x) => (x.kind === "predicted" ? "rgba(0,0,0,0)" : x.colour)), line: { color: bars.map((x) => x.colour), width: 1.6 } },
  }];
  const layout = axes(p, { title: `ms, ${className(cls)}`, rangemode: "tozero" }, {});
  layout.showlegend = false;
  layout.bargap = 0.35;
  return { data, layout, caption: sentence(cls, b, base, report), head: ["", "time", "kind"], rows: bars.toReversed().map((x) => [x.name, time(x.ms), x.kind]) };
}

/** A figure that the server drew ({figure: {data, layout}, rows, title}; sol/figures/charts.py) in the colours of this page. */
export function served(told, p) {
  if (!told?.rows.length) return null;
  const INK = "#767676"; // sol.figures.palette's ink, the one colour of it that follows the theme
  const ours = JSON.parse(JSON.stringify(told.figure).replaceAll(`"${INK}"`, JSON.stringify(p.muted)));
  const axis = ({ title, range, type, autorange, tickvals, ticktext }) => ({ title: title?.text, ...(range && { range }), ...(type && { type }), ...(autorange && { autorange }), ...(tickvals && { tickvals, ticktext }) });
  const { shapes = [], annotations = [], barmode, xaxis, yaxis } = ours.layout;
  const layout = { ...axes(p, axis(xaxis), axis(yaxis)), shapes, annotations, ...(barmode && { barmode }) };
  layout.margin.r = 16;
  layout.showlegend = ours.data.filter((d) => d.showlegend !== false && d.name).length > 1;
  if (yaxis.type === "category") layout.bargap = 0.4;
  // A number stands beside its bar: on a pale one no ink reads in both themes.
  const data = ours.data.map((d) => ({ ...d, customdata: undefined, hovertemplate: d.hovertemplate?.replace(/, %\{customdata.*?(?=<extra>|$)/, ""), ...(d.text && d.type === "bar" && { textposition: d.x.map((x) => (x > 85 ? "inside" : "outside")) }), ...(d.type === "bar" && { outsidetextfont: { color: p.ink }, cliponaxis: false, textangle: 0 }) }));
  const said = (v) => (v === null ? "not tried" : v === true ? "yes" : v === false ? "" : typeof v === "number" ? digits(v) : String(v));
  return { data, layout, caption: told.title, head: Object.keys(told.rows[0]), rows: told.rows.map((row) => Object.values(row).map(said)) };
}
