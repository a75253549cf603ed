// The height of an embedded pane's frame, so that nothing scrolls inside it where it is 640 px wide.
import { boot, h } from "../page.js";
import { shown } from "../session/reduce.js";
import { content, stateOf } from "../session/trials/row.js";

export const WIDTH = 640; // px
const FIXED = { result: 340, roofline: 540, history: 540, breakdown: 540 }; // px, with a title and a caption of 3 lines
const INSIDE = WIDTH - 36; // px of a row: without the paddings of css/embed.css and css/session.css
const AROUND = 120; // px above and below the rows, with a title that takes a line of its own
const COMING = 98; // px of a trial that is still to come
const MOST = 2400; // px: a longer list scrolls in its frame
const ROWS = 40; // at most so many are laid out

/** px of the rows of the list of trials, which are laid out unseen. */
function rowsOf(view) {
  const best = shown(view)?.number, all = [...view.trials.values()];
  const rows = all.slice(0, ROWS).map((one) => h("li",
    { class: "trial", "data-state": stateOf(one), "aria-current": String(one.number === best) },
    content(one, view.best.get(one.judged?.cls ?? one.cls) === one.number)));
  const style = { position: "absolute", visibility: "hidden", width: `${INSIDE}px`, padding: 0, listStyle: "none" };
  const list = h("ol", { style }, rows);
  document.body.append(list);
  const height = list.offsetHeight;
  list.remove();
  const budget = view.budget.trials ?? boot.session?.spec?.trials ?? 0; // before the log is here the page has it
  const coming = view.end ? 0 : Math.max(0, budget - all.length);
  return height + (all.length - rows.length + coming) * COMING;
}

/** px. `view`: the session as far as its log is here. */
export const frameHeight = (pane, view) =>
  FIXED[pane] ?? Math.min(MOST, Math.max(FIXED.result, AROUND + rowsOf(view)));
