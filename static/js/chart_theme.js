// The colours of sol/figures/palette.py in the theme of the page: a figure has colours that are legible on white and on
// black, and is drawn in the tokens of css/base.css. tests/browser/test_figures.py compares the two lists.
export const TOKENS = {
  "#757575": "--ink",
  "#767676": "--muted",
  "rgba(118,118,118,0.25)": "--line",
  "#8C8C8C": "--faint",
  "#009E74": "--oi-green",
  "#D45E00": "--oi-vermillion",
  "#CC79A7": "--oi-purple",
  "#0072B2": "--oi-blue",
  "#E69F00": "--oi-orange",
  "#009E73": "--oi-green",
  "#56B4E9": "--oi-sky",
  "#D55E00": "--oi-vermillion",
  "#999933": "--oi-olive",
};

/** A colour token as the browser resolves it now, for Plotly, which takes no variables. */
function resolved(token) {
  const probe = document.createElement("i");
  probe.style.color = `var(${token})`;
  probe.hidden = true;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

/** {data, layout} of a figure as a copy in the page's colours, with what belongs to the page alone. */
export function themed({ data, layout }) {
  const colours = Object.fromEntries(Object.entries(TOKENS).map(([ink, token]) => [ink, resolved(token)]));
  const walk = (v) => {
    if (typeof v === "string") return colours[v] ?? v;
    if (Array.isArray(v)) return v.map(walk);
    return v && typeof v === "object" ? Object.fromEntries(Object.entries(v).map(([k, x]) => [k, walk(x)])) : v;
  };
  const hover = { bgcolor: resolved("--panel"), bordercolor: resolved("--line-strong") };
  return {
    data: walk(data),
    layout: {
      ...walk(layout),
      font: { color: resolved("--ink"), size: 12, family: "ui-sans-serif, system-ui, sans-serif" },
      hoverlabel: { ...hover, font: { color: resolved("--ink"), size: 12 } },
    },
  };
}
