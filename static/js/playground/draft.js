// The text and the choices on the playground, stored in the browser so that they survive a reload.
import { debounce } from "../page.js";

const KEY = "ucutlass.draft";

function load() {
  try {
    return JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch {
    return {};
  }
}

const stored = load();
/** Nothing was ever written here: the page begins with an example. */
export const firstVisit = Object.keys(stored).length === 0;

// The texts of the tabs are stored separately, so that a switch loses nothing.
export const state = {
  kind: "module", module: "", program: "", kernel: "", words: "", device: null, classes: ["tf32", "f16"], trials: 12,
  eps: 25, window: 6,
  algebraic: false, strategy: "planner", strategyOptions: {}, endpoint: "", model: "", ...stored,
};

/** Stores the draft now. Without room (or in private mode) it lasts as long as the page. */
export function keep() {
  try {
    localStorage.setItem(KEY, JSON.stringify(state));
  } catch {
    /* full or private */
  }
}
export const store = debounce(keep, 200);
