// The row of a trial in the list: its number, its change, its progress, and its time or its reason.
import { boot, h } from "../../page.js";
import { className, time, times } from "../../format.js";
import { mark } from "../../marks.js";
import { logged, tr } from "../../texts.js";
import { counts, STEPS, timeOf } from "../view.js";
import { builtBy, classWords, describe, doing, failedWord, launchBinds, untimedWords, VERDICT } from "../words.js";

/** The verdict beside the time, its evidence behind it. A clean one without evidence (older logs) shows nothing. */
export function verdict(judged, words = tr(VERDICT[judged.verdict] ?? judged.verdict)) {
  const { verdict: word, evidence } = judged;
  if (word === "clean" && !evidence.length) return null;
  const title = evidence.map((c) => `${c.name}: ${c.said}`).join("\n");
  const bad = !counts(judged) && word !== "unverified";
  return h("span", { class: `verdict ${bad ? "bad" : ""}`, title }, words);
}

function pips(one) {
  const reached = STEPS.indexOf(one.step);
  const dot = (_, i) => h("i", { class: i <= reached ? "done" : i === reached + 1 ? "now" : "" });
  return h("span", { class: "pips", "aria-hidden": "true" }, STEPS.map(dot));
}

function gapOf(one) {
  if (!one.judged || one.judged.gap === null) return null;
  if (launchBinds(one.judged)) {
    return h("span", { title: tr("A kernel’s launch takes about 4 µs, far more than the limit") }, tr("· launches"));
  }
  const whose = one.roof && one.roof !== one.cls ? className(one.roof) : tr("its precision class");
  const title = tr("time ÷ speed-of-light limit of {whose}", { whose });
  return h("span", { title }, tr("· {gap}× limit", { gap: one.judged.gap.toFixed(2) }));
}

const line = (...parts) => h("span", { class: "line" }, ...parts);

/** failed | judged | untimed | running */
export const stateOf = (one) => (one.failed ? "failed" : one.judged ? "judged" : one.untimed ? "untimed" : "running");

/** The row of a trial. `notRun`: a stop rule that a person tries would not run it. */
export function content(one, isBest, notRun = false) {
  const at = timeOf(one);
  const kind = one.failed ? "failed" : one.untimed ? "untimed" : at ? at.kind : "pending";
  const speedup = one.judged?.speedup ?? one.measured?.ratio;
  const about = `${classWords(one)} · ${builtBy(one)}`;
  const names = { owner: boot.control ? tr("yours") : tr("the owner’s"), engine: tr("after the search") };
  const whose = names[one.by] ? h("span", {}, names[one.by]) : null;
  const rows = [
    h("span", { class: "n" }, String(one.number), mark(one.cls, kind)),
    h("span", { class: "change" }, one.change ? logged(one.change) : tr("first program")),
    h("span", { class: `speed ${at?.kind ?? ""}` }, !one.failed && speedup ? times(speedup) : ""),
  ];
  if (one.failed) {
    rows.push(line(about, h("b", {}, failedWord(one.failed))));
    rows.push(h("span", { class: "why-failed" }, logged(one.failed.reason)));
  } else if (one.untimed) {
    rows.push(line(h("span", {}, about), whose));
    rows.push(line(verdict(one.untimed, untimedWords(one.untimed))));
  } else if (at) {
    const judged = one.judged;
    rows.push(line(h("span", {}, `${tr(at.kind)} ${time(at.ms)}`), gapOf(one)));
    rows.push(line(
      h("span", {}, about),
      whose,
      isBest ? h("span", { class: "best" }, tr("★ best {cls}", { cls: className(one.cls) })) : null,
      judged ? verdict(judged) : pips(one),
    ));
  } else {
    rows.push(line(about));
    rows.push(line(pips(one), doing(one)));
  }
  if (notRun) rows.push(h("span", { class: "line not-run" }, tr("✂ would not run under this rule")));
  return rows;
}
