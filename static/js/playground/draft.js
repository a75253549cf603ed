// What is typed and chosen on the playground: kept in the browser, so that it survives a reload.
import { debounce } from "../page.js";

const KEY = "ucutlass.draft";

function load() {
  try {
    return JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch {
    return {};
  }
}

// The texts of both ways in are kept apart, so that looking at the other loses nothing.
export const state = {
  kind: "module", module: "", program: "", device: null, classes: ["tf32", "f16"], trials: 12, eps: 25, window: 6,
  algebraic: false, strategy: "planner", strategyOptions: {}, ...load(),
};

/** Keeps the draft now; where there is no room for it (or in private mode) it lasts as long as the page. */
export function keep() {
  try {
    localStorage.setItem(KEY, JSON.stringify(state));
  } catch {
    /* full or private */
  }
}
export const store = debounce(keep, 200);
