// Numbers and words for people. Every unit is written out; nothing here knows about the page.

const NONE = "–";

/** Three significant digits without an exponent: 0.0412, 1.23, 45.6, 789. */
export function digits(value, n = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  if (value === 0) return "0";
  const places = Math.max(0, n - 1 - Math.floor(Math.log10(Math.abs(value))));
  return value.toLocaleString("en", {
    minimumFractionDigits: Math.min(places, 6),
    maximumFractionDigits: Math.min(places, 6),
  });
}

/** A kernel's time, given in ms: microseconds below 0.1 ms. */
export function time(ms) {
  if (!Number.isFinite(ms)) return NONE;
  if (ms < 0.1) return `${digits(ms * 1000)} µs`;
  if (ms < 1000) return `${digits(ms)} ms`;
  return `${digits(ms / 1000)} s`;
}

/** 1.93× */
export const times = (ratio) => (Number.isFinite(ratio) ? `${ratio < 10 ? ratio.toFixed(2) : digits(ratio)}×` : NONE);

/** Wall time, given in seconds: 0.4 s, 14 s, 2 min 05 s. */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return NONE;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
}

export function bytes(n) {
  if (!Number.isFinite(n)) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) {
    n /= 1024;
    i += 1;
  }
  return `${digits(n)} ${units[i]}`;
}

export const percent = (fraction) => (Number.isFinite(fraction) ? `${Math.round(fraction * 100)}%` : NONE);

/** "1 trial", "7 trials". */
export const count = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

/** A relative error: 0 is exact, otherwise 1.2·10⁻⁴. */
export function error(value) {
  if (value === 0 || !Number.isFinite(value)) return value === 0 ? "0" : NONE;
  const [digit, power] = value.toExponential(1).split("e");
  const raised = [...power.replace("+", "")].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]));
  return `${digit}·10${raised.join("")}`;
}

const CLASS_NAMES = {
  f32: "float32",
  tf32: "TF32",
  f16: "float16",
  bf16: "bfloat16",
  fp8: "FP8",
  int8: "int8",
  i8: "int8",
  f64: "float64",
};
/** The precision class in words. */
export const className = (cls) => CLASS_NAMES[cls] ?? cls;

/** What limits a kernel, in the model's word and in ours. */
export const BOUND = {
  matrix: "the matrix units",
  tensor: "the matrix units",
  vector: "the arithmetic pipes",
  special: "the special function units",
  memory: "memory bandwidth",
  l2: "the L2 cache's bandwidth",
  epilogue: "the epilogue",
  launch: "the launch",
  fill: "the start of its pipeline",
};

const BASELINES = { eager: "PyTorch eager", compile: "torch.compile" };
/** eager_tf32 -> "PyTorch eager (TF32)". */
export function baselineName(name) {
  const [base, ...rest] = String(name ?? "").split("_");
  const words = BASELINES[base] ?? base;
  return rest.length ? `${words} (${rest.map(className).join(" ")})` : words;
}

/** A device name for people: h200 -> H200, modelled:h200 -> H200. */
export function deviceName(device) {
  const name = typeof device === "string" ? device : device?.title || device?.hardware || device?.name || "";
  const bare = name.replace(/^modelled:/, "");
  return /^[a-z]+\d+\w*$/.test(bare) ? bare.toUpperCase() : bare;
}
