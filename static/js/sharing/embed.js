// One pane of a session in another site's page: the same log, view and drawing as on the session's own page.
import { $, boot, throttle } from "../page.js";
import { apply, initial, shown } from "../session/reduce.js";
import { Stream } from "../session/stream.js";
import { Timeline } from "../session/trials/timeline.js";
import { Group, LIVE } from "../session/charts.js";
import { drawHeader, drawLink } from "../session/header.js";

const REDRAW = 500; // ms
const view = initial();
const { state, queue, text } = boot.session;
const info = { state, queue, text, viewers: null, skew: null };

/** Opens the session's own page at a trial: a frame has no room to choose in. */
const open = (n) => window.open(`${boot.view_url}?trial=${n}`, "_blank", "noopener");
const timeline = $("timeline") ? new Timeline(open) : null;
const wanted = LIVE.filter(([name]) => name === boot.pane);
const chart = wanted.length ? new Group($("pane"), boot.session.id, wanted, REDRAW, open) : null;

function draw() {
  const best = shown(view)?.number ?? null;
  drawHeader(view, info);
  timeline?.draw(view, best);
  chart?.draw({ seq: view.figures_seq }, best);
}
const soon = throttle(draw, REDRAW);

const stream = new Stream(boot.session.id, {
  seq: () => view.seq,
  onEvents(events) {
    apply(view, events);
    if (view.gap) stream.again();
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
