// The head of a session: what, where, how fast against what, how far from the limit, and its state in words.
import { $, boot, h } from "./page.js";
import { DOING, headline, phase, underWay, used } from "./store.js";
import { baselineName, className, deviceName, duration, inWords, percent, times } from "./format.js";

const LINK = { connecting: "Connecting", live: "Live", reconnecting: "Reconnecting", ended: "Ended", missing: "Gone" };

export function drawLink(status) {
  $("link-state").dataset.state = status;
  $("link-state").textContent = LINK[status];
}

export function drawHeader(view, info) {
  const device = view.started?.device;
  if (device?.kind) {
    $("device").hidden = false;
    $("device").className = `badge ${device.kind}`;
    $("device").textContent = `${device.kind.toUpperCase()} · ${deviceName(device)}`;
    $("device").title = device.kind === "measured" ? "Timed on this GPU" : "No kernel ran: every time is a prediction of this GPU by a model";
  }
  if (view.started) { $("title").textContent = view.title || view.started.title; document.title = `${view.title || view.started.title} · μCUTLASS playground`; }
  $("algebra").hidden = !(view.started ?? boot.session?.spec)?.algebraic;
  const budget = view.budget?.trials ?? boot.session?.spec?.trials;
  $("used").textContent = budget ? `${used(view)} of ${budget}` : String(used(view));
  $("viewers").textContent = info.viewers ?? "–";
  drawBest(view);
  $("state").textContent = words(view, info);
}

function drawBest(view) {
  const best = headline(view);
  if (!best) {
    $("best").replaceChildren(h("p", { class: "none" }, !view.ended ? "The best trial appears here." : [...view.trials.values()].some((t) => t.judged) ? "No program was faster than PyTorch; PyTorch stays." : view.trials.size ? "No trial came to a time." : ""));
    $("gap").replaceChildren();
    return;
  }
  const j = best.judged;
  const more = (x) => `${className(x.cls)} ${times(x.speedup)} over ${baselineName(x.baseline)}`;
  const others = Object.values(view.best).filter((n) => n !== best.n).map((n) => view.trials.get(n)).filter((t) => t?.judged);
  $("best").replaceChildren(
    h("div", { class: `big ${j.kind}`, id: "best-speedup", "data-kind": j.kind }, times(j.speedup)),
    h("div", { class: "versus" }, `${j.kind} · over ${baselineName(j.baseline)}`), h("div", { class: "versus" }, `in ${className(j.cls)} · trial ${best.n}`),
    ...others.map((t) => h("div", { class: "versus" }, more(t.judged))));
  const share = Math.min(1, 1 / j.gap);
  $("gap").replaceChildren(
    h("div", { class: "gap-label" }, h("span", {}, h("b", {}, percent(share)), " of the speed of light"), h("span", {}, `${j.gap.toFixed(2)}× the limit`)),
    h("div", { class: `gap-bar ${j.kind}`, role: "meter", "aria-label": `Share of the speed of light, ${j.kind}`, "aria-valuemin": "0", "aria-valuemax": "100", "aria-valuenow": String(Math.round(share * 100)) },
      h("i", { style: { width: `${share * 100}%` } })));
}

/** The state in words, e.g. "Queued: 1 before this one" or "compiling trial 3 · 14 s". */
export function words(view, info) {
  const now = phase(view);
  if (view.ended) {
    const head = { done: "Ended", stopped: "Stopped", refused: "Refused", failed: "Failed" }[view.ended.state] ?? "Ended";
    // The best stands beside this, in large; what is left to say is why the search ended.
    const why = inWords(view.ended.reason).replace(/^The search is over: /, "").replace(/ Best in .*$/, "").replace(/\.$/, "");
    const end = `${head}: ${why}`;
    return view.ended.state === "refused" ? head : `${end} · ${duration(view.ended.seconds)}`;
  }
  if (now === "waiting" || info.state === "queued") return info.text || (info.queue ? `Queued: ${info.queue - 1} before this one.` : "An engine is taking it up…");
  if (info.text) return info.text;
  if (now === "paused") return "Paused by the owner";
  const one = underWay(view);
  if (!view.progress && !one) return "Starting…";
  const began = one ? one.steps[one.step] : view.progress.t;
  // What a lost engine was doing is begun anew by the next one, and so is its clock.
  const again = view.resumed.at(-1)?.t ?? -Infinity;
  const doing = one ? `Trial ${one.n}: ${DOING[one.step] ?? "proposed"}` : view.progress.text;
  const text = again > began ? `${doing}, again: another engine took this up` : doing;
  const since = info.live ? Date.now() / 1000 - Math.max(began, again) - (info.skew ?? 0) : 0;
  return since >= 2 ? `${text} · ${duration(since)}` : text;
}
