// Which lines of generated code a line of a program became, and the reverse.

/** line_map of one back end: the generated ranges of program line n, and the program lines of generated line g. */
export const forward = (map, n) => (map ?? []).filter(([line]) => line === n).map(([, first, last]) => [first, last]);
export const backward = (map, g) => {
  // The narrowest range that holds the line is the most specific.
  const hits = (map ?? [])
    .filter(([, first, last]) => first <= g && g <= last)
    .sort((a, b) => a[2] - a[1] - (b[2] - b[1]));
  return hits.length ? [[hits[0][0], hits[0][0]]] : [];
};

/** [line as typed, line of the resolved text] if both begin alike. The maps use the resolved text's numbers. */
export function aligned(typed, resolved) {
  const words = (line) => line.replace(/#.*/, "").trim().split(/\s+/).slice(0, 2).join(" ");
  const first = (line) => words(line).split(" ")[0];
  const theirs = resolved.split("\n");
  const pairs = [];
  let from = 0;
  typed.split("\n").forEach((line, i) => {
    if (!words(line)) return;
    let at = theirs.findIndex((other, k) => k >= from && words(other) === words(line));
    if (at < 0) at = theirs.findIndex((other, k) => k >= from && first(other) === first(line));
    if (at >= 0) {
      pairs.push([i + 1, at + 1]);
      from = at + 1;
    }
  });
  return pairs;
}
