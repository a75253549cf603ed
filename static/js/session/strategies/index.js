// What a strategy draws of itself on the session's page, from the facts that its script showed (events script.shown).
import { draw as cutegen } from "./cutegen.js";
import { draw as optiml } from "./optiml.js";
import { draw as two_stage } from "./two_stage.js";

const DRAWERS = { cutegen, optiml, two_stage };

/** The strategy's own part of the page, or "" if it has none. `shown`: [{topic, facts}] so far, in order; `choose(n)`
 * selects a trial. */
export const draw = (strategy, shown, choose) => DRAWERS[strategy]?.(shown, choose) ?? "";
