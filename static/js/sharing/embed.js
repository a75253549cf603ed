// One pane of a session in another site's page: the same log, view and drawing as on the session's own page.
import { $, boot, throttle } from "../page.js";
import { apply, fold, initial, shown } from "../session/reduce.js";
import { Stream } from "../session/stream.js";
import { Timeline } from "../session/trials/timeline.js";
import { Group, LIVE } from "../session/charts.js";
import { drawHeader, drawLink } from "../session/header.js";
import { Replay } from "../session/replay.js";

const REDRAW = 500; // ms
const live = initial();
const log = []; // every event, in order, if the pane has a replay
let view = live; // in a replay: the session as it was at that event
const { state, queue, text } = boot.session;
const info = { state, queue, text, viewers: null, skew: null };

/** Opens the session's own page at a trial: a frame has no room to choose in. */
const open = (n) => window.open(`${boot.view_url}?trial=${n}`, "_blank", "noopener");
const timeline = $("timeline") ? new Timeline(open) : null;
const wanted = LIVE.filter(([name]) => name === boot.pane);
const chart = wanted.length ? new Group($("pane"), boot.session.id, wanted, REDRAW, open) : null;

const replay = boot.replay ? new Replay((seq) => {
  view = seq === null ? live : fold(log, seq);
  draw();
}) : null;

function draw() {
  const best = shown(view)?.number ?? null;
  drawHeader(view, info);
  timeline?.draw(view, best);
  chart?.draw({ seq: view.figures_seq }, best, !live.end);
  if (live.end && live.trials.size) replay?.ready(log);
}
const soon = throttle(draw, REDRAW);

const stream = new Stream(boot.session.id, {
  seq: () => live.seq,
  onEvents(events) {
    const before = live.seq;
    apply(live, events);
    if (live.gap) stream.again();
    if (replay) log.push(...events.filter((e) => e.seq > before && e.seq <= live.seq));
    soon();
  },
  onStatus(status) {
    info.live = status === "live";
    drawLink(status);
    soon();
  },
  onInfo(message) {
    for (const name of ["viewers", "queue", "state", "text"]) if (name in message) info[name] = message[name];
    soon();
  },
});
drawLink("connecting");
draw();
stream.start();
