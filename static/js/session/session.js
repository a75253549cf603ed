// The session page: one log and one view of it, drawn in the same way live, after a reload and in replay.
import { $, arrived, blob, boot, debounce, h, select, tablist, throttle, toast } from "../page.js";
import { tr } from "../texts.js";
import { apply, fold, initial, shown } from "./reduce.js";
import { Stream } from "./stream.js";
import { CLASS } from "../marks.js";
import { Timeline } from "./trials/timeline.js";
import { TrialsAs } from "./trials/trials_as.js";
import { Arrangement, ORDERS, SHOWS } from "./trials/order.js";
import { Code } from "./code.js";
import { Charts } from "./charts.js";
import { Help } from "./help.js";
import { Limit } from "./limit.js";
import { Regions } from "./regions.js";
import { LateTurns } from "./strategies/late_turns.js";
import { Opinion } from "./strategies/opinion.js";
import { drawHeader, drawLink, reserve } from "./header.js";
import { Owner } from "./owner.js";
import { Share } from "../sharing/share.js";
import { Notes } from "../sharing/notes.js";
import { Notice } from "../sharing/notice.js";
import { remember } from "../mine/started.js";
import { Replay } from "./replay/scrub.js";
import { policyOf } from "./replay/rule.js";
import { WhatIfButton } from "./replay/what_if_button.js";
import { Profile } from "../profile.js";
import { refusalOf } from "../refusal.js";

const LATE = 40; // ms after the last key until the other panes follow the list, so that a key held down only moves it
const session = boot.session;
const language = new URLSearchParams(location.search).get("lang");
const log = []; // every event, in order, for replays
const live = initial();
let replayTo = null; // null: the whole log
const info = {
  state: session.state,
  queue: session.queue,
  text: session.text,
  viewers: null,
  live: false,
  last: session.last_seq,
  skew: null,
};

// ---- the address holds the selection ----------------------------------------------------------------------------
const place = { trial: null, diff: null, tab: null, order: "", show: "", find: "", as: "", at: null };
{
  const query = new URLSearchParams(location.search);
  const number = (name) => (/^\d{1,6}$/.test(query.get(name) ?? "") ? Number(query.get(name)) : null);
  Object.assign(place, { trial: number("trial"), diff: number("diff"), at: number("at"), tab: query.get("tab") });
  const one = (name, ...known) => (known.some((of) => query.get(name) in of) ? query.get(name) : "");
  Object.assign(place, { order: one("order", ORDERS), show: one("show", SHOWS, CLASS), find: query.get("find") ?? "" });
  Object.assign(place, policyOf(query), { as: query.get("as") === "tree" ? "tree" : "" });
}
let chosen = place.trial !== null; // until a person chooses, the page follows the best

function keep() {
  const query = new URLSearchParams(language ? { lang: language } : {});
  if (chosen && place.trial) query.set("trial", place.trial);
  if (place.diff) query.set("diff", place.diff);
  if (place.at) query.set("at", place.at);
  for (const name of ["tab", "order", "show", "find", "as"]) if (place[name]) query.set(name, place[name]);
  if (place.eps !== null) for (const name of ["eps", "w"]) query.set(name, place[name]);
  const text = query.toString();
  history.replaceState(null, "", text ? `?${text}` : location.pathname);
}

const view = () => (replayTo === null ? live : replayed);
let replayed = null;
let unseen = true; // nothing is shown yet

function trialNow() {
  const now = view();
  if (chosen && now.trials.has(place.trial)) return place.trial;
  return shown(now)?.number ?? [...now.trials.keys()].at(-1) ?? null;
}

// ---- panes ------------------------------------------------------------------------------------------------------
const choose = (n, byKey = false) => {
  place.trial = n;
  chosen = true;
  if (place.diff === n) place.diff = null;
  if (byKey) timeline.select(n);
  (byKey ? late : follow)();
};
const follow = () => { keep(); draw(); };
const late = debounce(follow, LATE);
const timeline = new Timeline(choose, place);
const trialsAs = new TrialsAs(choose, place, () => {
  keep();
  draw();
});
const arrangement = new Arrangement($("timeline-tools"), place, () => {
  keep();
  timeline.rearrange();
  draw();
});
const keepSoon = debounce(keep, 250); // a browser refuses many changes of the address
const whatIf = new WhatIfButton($("what-if"), $("what-if-open"), place, () => {
  keepSoon();
  soon();
});
const code = new Code((change) => {
  Object.assign(place, change);
  if (!chosen && trialNow()) {
    place.trial = trialNow();
    chosen = true;
  }
  keep();
  draw();
});
const opinion = new Opinion($("code"));
const profile = new Profile($("code"));
const regions = new Regions($("charts"));
const turns = new LateTurns($("turns"), choose, () => draw());
let keyForm = null; // an ended session asks for no key
if (session.state !== "ended")
  import("../visitor_key.js").then(
    ({ KeyForm }) => { keyForm = new KeyForm($("key")); draw(); }, () => toast(notLoaded()));
const charts = new Charts($("charts"), session.id, choose);
const limit = new Limit($("limit"), session.id);
const owner = new Owner(() => ({ view: view(), trial: trialNow() }));
new Share(() => ({ view: live }), () => owner.viewLink());
let again = null; // its module is loaded where it is asked for
const running = async () => (again ??= new (await import("../sharing/again.js")).Again());
const notLoaded = () => tr("This part of the page did not load. Reload the page.");
if (boot.again) running().then(() => draw(), () => { $("again").textContent = notLoaded(); });
$("again-start")?.addEventListener("click", () => running().then((it) => it.start(), () => toast(notLoaded())));
$("at-sizes")?.addEventListener("toggle", () => { // few open it: neither its module nor the text is loaded before
  const inside = $("sizes-inside");
  import("../sharing/at_sizes.js").then(
    ({ fill }) => fill(inside, live.source), () => { inside.textContent = notLoaded(); });
}, { once: true });
const notes = new Notes($("notes"), () => draw());
const notice = new Notice();
remember(boot);
new Help($("help"), { w: () => whatIf.toggle(), t: () => trialsAs.toggle() });
const replay = new Replay((seq) => {
  replayTo = seq;
  replayed = seq === null ? null : fold(log, seq);
  place.at = seq;
  keepSoon();
  draw();
});
let asked = place.at; // the event of the address, until the log is loaded up to it
tablist(document.querySelector(".panes-nav"), (tab) => {
  $("panes").dataset.pane = tab.dataset.pane;
  select(tab.parentElement, tab);
  if (tab.dataset.pane === "charts") charts.resize();
});

function draw() {
  const now = view();
  const n = trialNow();
  timeline.notRun = whatIf.draw(log, now);
  trialsAs.draw(now, n, timeline.notRun);
  timeline.draw(now, n); // before the rest, since it reads the layout
  drawHeader(now, info);
  notice.draw(live);
  notice.keep();
  arrangement.draw(now);
  const none = now.end ? tr("There was no trial.") : tr("Trials appear here as they happen.");
  $("timeline-empty").textContent =
    now.trials.size ? tr("No trial fits. Show all trials, or find other words.") : none;
  $("timeline-empty").hidden = timeline.order.length > 0 || (trialsAs.isTree && now.trials.size > 0);
  const shows = code.draw(now, n, place);
  opinion.draw(log, now, n, replayTo, choose);
  notes.draw(n, Boolean(live.end));
  profile.draw(now, n, live);
  owner.draw(live, n);
  if (live.trials.size && live.seq >= info.last) {
    replay.ready(log, !live.end);
    if (asked !== null) {
      const at = log.findIndex((e) => e.seq >= asked) + 1;
      asked = place.at = null;
      if (at) {
        replay.go(at); // draws again
        return;
      }
    }
  }
  // Refused before any trial: the message is enough.
  const nothing = Boolean(live.end) && live.trials.size === 0 && live.end.state !== "done";
  $("panes").hidden = document.querySelector(".panes-nav").hidden = nothing;
  refusal(now);
  regions.draw(now);
  turns.draw(log, now, replayTo);
  keyForm?.draw(live);
  if (live.seq < info.last) return; // the rest once the log is loaded
  again?.draw(live);
  const timed = live.end && live.fastest.size;
  if ($("again-start")) $("again-start").hidden = !timed;
  if ($("at-sizes")) $("at-sizes").hidden = !timed || live.source_kind !== "module";
  if (live.end && chosen && place.trial && !live.trials.has(place.trial)) {
    toast(tr("There is no trial {n} in this session.", { n: place.trial }));
    chosen = false;
  }
  charts.draw(now, n, !live.end);
  limit.draw(now);
  if (unseen) shows.then(arrived);
  unseen = false;
}
const soon = throttle(draw, 60);
const seldom = throttle(draw, 2000, performance.now()); // while the log is loading

// ---- one clear message ------------------------------------------------------------------------------------------
let toldRefusal = false;
async function refusal(now) {
  const end = now.end;
  const untried = end?.state === "done" && !now.trials.size && now.coverage && !now.coverage.regions.length;
  const bad = end && (["refused", "failed"].includes(end.state) || untried);
  $("session-error").hidden = !bad;
  if (!bad || toldRefusal) return;
  toldRefusal = true;
  const text = now.source ? await blob(now.source).catch(() => session.spec.source) : session.spec.source;
  $("session-error").replaceChildren(refusalOf(end, text, `/s/${session.id}/fork`));
}

// ---- events -----------------------------------------------------------------------------------------------------
const stream = new Stream(session.id, {
  seq: () => live.seq,
  onEvents(events, last) {
    const before = live.seq;
    apply(live, events);
    for (const e of events) if (e.seq > before && e.seq <= live.seq) log.push(e);
    info.last = Math.max(last ?? 0, live.seq);
    // The engine's clock may differ from the reader's: a new event counts as happening now.
    if (live.last_t && info.last === live.seq)
      info.skew = Math.min(info.skew ?? Infinity, Math.max(-86400, Date.now() / 1000 - live.last_t));
    if (live.gap) stream.again();
    $("loaded").textContent =
      live.seq < info.last ? tr("loaded {n} of {all} events", { n: live.seq, all: info.last })
        : live.end ? tr("{n} events", { n: info.last }) : "";
    if (live.seq < info.last) seldom();
    else soon();
  },
  onStatus(status) {
    info.live = status === "live";
    drawLink(status);
    if (status === "missing") arrived();
    if (status === "missing")
      ($("session-error").replaceChildren(
        h(
          "section",
          { class: "refusal", role: "alert" },
          h("h2", {}, tr("This session is gone")),
          h("p", {}, tr("It was deleted, or the link is incomplete.")),
        ),
      ),
        ($("session-error").hidden = false));
    soon();
  },
  onInfo(message) {
    for (const name of ["viewers", "queue", "engine", "state", "text"]) if (name in message) info[name] = message[name];
    soon();
  },
});
reserve();
drawLink("connecting");
draw();
stream.start();
setInterval(() => {
  if (!live.end && info.live) drawHeader(view(), info);
}, 1000);
addEventListener("popstate", () => location.reload());
