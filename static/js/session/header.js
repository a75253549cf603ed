// The head of a session: title, device, speedup and baseline, distance to the limit, and its state in words.
import { $, boot, coded, h } from "../page.js";
import { baselineName, className, deviceName, duration, percent, time, times } from "../format.js";
import { sentence, tr } from "../texts.js";
import { headline, stateOf, underWay, used } from "./reduce.js";
import { againstWords, doing, endWords, launchBinds, pytorchStays } from "./words.js";

const LINK = {
  connecting: "Connecting",
  live: "Live",
  reconnecting: "Reconnecting",
  ended: "Ended",
  missing: "Gone",
};
const DEVICE = {
  measured: "Timed on this GPU",
  predicted: "No kernel ran: every time is a prediction of this GPU by a model",
};

/** The room of the best times, a line for each class; the embedded pane has no other text to keep still. */
export function reserve() {
  $("best").style.setProperty("--classes", boot.session.spec?.classes?.length ?? 2);
}

export function drawLink(status) {
  $("link-state").dataset.state = status;
  $("link-state").textContent = tr(LINK[status]);
}

export function drawHeader(view, info) {
  const { kind } = view.device;
  if (kind) {
    $("device").hidden = false;
    $("device").className = `badge ${kind}`;
    $("device").textContent = `${tr(kind).toUpperCase()} · ${deviceName(view.device)}`;
    $("device").title = tr(DEVICE[kind] ?? "");
  }
  if (view.begun) {
    $("title").textContent = view.title;
    document.title = `${view.title} · μCUTLASS playground`;
  }
  const note = $("module-note"); // an embedded pane has none
  if (note) note.textContent = sentence(view.module_note);
  $("algebra").hidden = !(view.begun ? view.algebraic : boot.session?.spec?.algebraic);
  const budget = view.budget.trials ?? boot.session?.spec?.trials;
  $("used").textContent = budget ? tr("{n} of {all}", { n: used(view), all: budget }) : String(used(view));
  $("viewers").textContent = info.viewers ?? "–";
  drawBest(view);
  $("against").textContent = againstWords(view, boot.session.provenance?.forked);
  $("state").replaceChildren(...coded(words(view, info)));
}

const versus = (text) => h("div", { class: "versus" }, text);

/** The classes in which PyTorch stays, with the time that came closest. */
function stays(view) {
  return pytorchStays(view).map(([cls, one]) => {
    const { speedup, baseline } = one.judged;
    const values = { cls: className(cls), speedup: times(speedup), baseline: baselineName(baseline) };
    return versus(tr("{cls}: PyTorch stays, the fastest program has {speedup} of {baseline}", values));
  });
}

function nothingYet(view) {
  if (!view.end)
    return view.fastest.size ? tr("No program is faster than PyTorch yet.") : tr("The best trial appears here.");
  if (view.fastest.size) return tr("No program was faster than PyTorch; PyTorch stays.");
  return view.trials.size ? tr("No trial got a time.") : "";
}

let drawn = null; // the key of the best times that are drawn

function drawBest(view) {
  const best = headline(view);
  const key = JSON.stringify([[...view.best], [...view.fastest], Boolean(view.end), view.trials.size > 0]);
  if (key === drawn) return;
  drawn = key;
  if (!best) {
    $("best").replaceChildren(h("p", { class: "none" }, nothingYet(view)), ...stays(view));
    $("gap").replaceChildren();
    return;
  }
  const j = best.judged;
  const others = [...view.best.values()].filter((n) => n !== best.number).map((n) => view.trials.get(n).judged);
  $("best").replaceChildren(
    h("div", { class: `big ${j.kind}`, id: "best-speedup", "data-kind": j.kind }, times(j.speedup)),
    versus(tr("{kind} · over {baseline}", { kind: tr(j.kind), baseline: baselineName(j.baseline) })),
    versus(tr("in {cls} · trial {n}", { cls: className(j.cls), n: best.number })),
    ...others.map((x) => versus(tr("{cls} {speedup} over {baseline}",
      { cls: className(x.cls), speedup: times(x.speedup), baseline: baselineName(x.baseline) }))),
    ...stays(view),
  );
  $("gap").replaceChildren(...gap(j));
}

function gap(j) {
  if (!j.gap) return [];
  if (launchBinds(j)) {
    const limit = time(j.ms / j.gap);
    const words = tr("Launches bind it: the limit is {limit}, a launch takes about 4 µs.", { limit });
    return [h("div", { class: "gap-label" }, words)];
  }
  const share = Math.min(1, 1 / j.gap);
  const label = tr("Share of the speed of light, {kind}", { kind: tr(j.kind) });
  const meter = {
    class: `gap-bar ${j.kind}`, role: "meter", "aria-label": label,
    "aria-valuemin": "0", "aria-valuemax": "100", "aria-valuenow": String(Math.round(share * 100)),
  };
  return [
    h("div", { class: "gap-label" },
      h("span", {}, h("b", {}, percent(share)), " ", tr("of the speed of light")),
      h("span", {}, tr("{gap}× the limit", { gap: j.gap.toFixed(2) }))),
    h("div", meter, h("i", { style: { width: `${share * 100}%` } })),
  ];
}

/** The state in words, e.g. "Queued: 1 before this one" or "compiling trial 3 · 14 s". */
export function words(view, info) {
  const now = stateOf(view);
  if (view.end) return endWords(view);
  if (now === "waiting" || info.state === "queued")
    return sentence(info.text || "")
      || (info.queue ? tr("Queued: {n} before this one.", { n: info.queue - 1 }) : tr("An engine is starting it…"));
  if (info.text) return sentence(info.text);
  if (now === "paused") {
    const since = view.controls.slice(view.controls.findLastIndex((c) => c.action === "resume") + 1);
    const tries = since.filter((c) => c.action === "try" && c.data.waits === "paused").length;
    if (!tries) return tr("Paused by the owner");
    return tries === 1
      ? tr("Paused by the owner; 1 try of the owner waits until the session resumes")
      : tr("Paused by the owner; {n} tries of the owner wait until the session resumes", { n: tries });
  }
  const waits = view.progress?.step === "wait"; // for its place on the machine, whatever trial is under way
  const one = waits ? null : underWay(view);
  if (!view.progress && !one) return tr("Starting…");
  const began = one ? one.steps[one.step] : view.progress.t;
  // The next engine repeats the lost engine's current step, and its clock restarts.
  const again = view.resumed.at(-1)?.t ?? -Infinity;
  const activity = one
    ? tr("Trial {n}: {doing}", { n: one.number, doing: doing(one) }) : sentence(view.progress.text);
  const text = again > began ? tr("{activity}, again: another engine continues this", { activity }) : activity;
  const since = info.live ? Date.now() / 1000 - Math.max(began, again) - (info.skew ?? 0) : 0;
  return since >= 2 ? `${text} · ${duration(since)}` : text;
}
