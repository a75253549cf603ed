// A stop rule in the page's address: eps, a share of the limit, and w, the trials without a better one (0: no limit).
export const MOST_EPS = 3; // 300%
export const STUDY = { eps: 2.5, w: 12 }; // best policy of the μCUTLASS study (arXiv 2603.29010), as in sol/budget.py

/** {eps, w} of an address; null for both where they are no numbers of the sliders' ranges. */
export function policyOf(query) {
  const eps = Number(query.get("eps") || NaN), window = query.get("w") ?? "";
  if (!(eps >= 0 && eps <= MOST_EPS) || !/^\d{1,4}$/.test(window)) return { eps: null, w: null };
  return { eps, w: Number(window) };
}
