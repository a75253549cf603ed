// What a strategy draws of itself on the session's page, from the facts that its script showed (events script.shown).
// Its module is loaded only for a session of that strategy.
import { h } from "../../page.js";

const MODULES = {
  cutegen: () => import("./cutegen.js"),
  optiml: () => import("./optiml.js"),
  two_stage: () => import("./two_stage.js"),
};
const loaded = new Map(); // strategy -> its `draw`

/** Settled once the strategy's own module is there, or is known not to load. */
export async function ready(strategy) {
  if (!Object.hasOwn(MODULES, strategy) || loaded.has(strategy)) return;
  await MODULES[strategy]().then((module) => loaded.set(strategy, module.draw), () => {});
}

/** The strategy's own part of the page, or "" if it has none. `shown`: [{topic, facts}] so far, in order; `choose(n)`
 * selects a trial; `ended`: whether the session has ended, so that nothing follows what is shown; `about`: {rehearsed:
 * rules played the model, changeOf(n): what trial n says that it changes, classOf(n): its class}. */
export function draw(strategy, shown, choose, ended, about) {
  if (!Object.hasOwn(MODULES, strategy)) return "";
  if (loaded.has(strategy)) return loaded.get(strategy)(shown, choose, ended, about);
  const place = h("p", { class: "evolving-empty" }, "Loading…");
  MODULES[strategy]().then((module) => {
    loaded.set(strategy, module.draw);
    place.replaceWith(module.draw(shown, choose, ended, about));
  }, () => { place.textContent = "This part of the page did not load. Reload the page."; });
  return place;
}
