// The text and the choices on the playground, stored in the browser so that they survive a reload. Each tab keeps its
// own. A new tab begins with what was edited last, text by text and in whatever tab; that outlives all tabs.
import { boot, debounce } from "../page.js";

const KEY = "ucutlass.draft";
const TAB = () => sessionStorage, BROWSER = () => localStorage; // where a browser refuses one, the name itself throws

function load(place) {
  try {
    const draft = JSON.parse(place().getItem(KEY));
    return draft && typeof draft === "object" ? draft : null;
  } catch {
    return null;
  }
}

function write(place, draft) {
  try {
    place().setItem(KEY, JSON.stringify(draft));
  } catch {
    /* full or private: the draft lasts as long as the page */
  }
}

const stored = load(TAB) ?? load(BROWSER) ?? {};
/** Nothing was ever written here: the page begins with an example. */
export const firstVisit = Object.keys(stored).length === 0;

// The texts of the tabs are stored separately, so that a switch loses nothing.
export const state = {
  kind: "module", module: "", program: "", kernel: "", words: "", device: null, classes: ["tf32", "f16"], trials: 12,
  eps: 25, window: 6,
  algebraic: false, strategy: "planner", strategyOptions: {}, endpoint: "", model: "", ...stored,
};

/** The session that this page forks, with the trial; "" for none. */
const forks = boot.fork ? `${boot.fork.id} ${boot.fork.trial ?? ""}` : "";
/** The draft is an edit of this very fork, and the page was reloaded, or was come back to. */
export const edited = Boolean(forks) && stored.fork === forks &&
  performance.getEntriesByType("navigation")[0]?.type !== "navigate";
state.fork = forks;

const texts = () => new Map(Object.entries(state).map(([name, value]) => [name, JSON.stringify(value)]));
let written = null; // what was stored last, by name; null until the page has begun

/** The page has begun: what differs from now on is a person's edit. A tab that is only read writes over no draft. */
export function begun() {
  written = texts();
}

/** Stores the edits now: in the tab its whole draft, in the browser what differs. */
export function keep() {
  if (written === null) return;
  const now = texts();
  const edits = Object.entries(state).filter(([name]) => now.get(name) !== written.get(name));
  if (!edits.length) return;
  written = now;
  write(TAB, state);
  write(BROWSER, { ...(load(BROWSER) ?? state), ...Object.fromEntries(edits) });
}
export const store = debounce(keep, 200);
addEventListener("pagehide", keep); // what was typed in the last 200 ms
