// The seat on the projector: its session, or its answers where it has none.
import { $, h } from "../page.js";
import { tr } from "../texts.js";
import { answerList } from "./answers.js";
import { inLanguage } from "./texts.js";
import { nameOf } from "./tiles.js";

let shown = ""; // what stands there now

/** Draw the projected seat of a room. `wall`: {sessions, anonymous}; `lessonOf(slug)`: a promise of a lesson's JSON;
 * `takeDown()`: the teacher's command. */
export async function drawProjected(room, wall, { lessonOf, takeDown }) {
  const seat = room.seats.get(room.projected);
  $("projected").hidden = !seat;
  const session = seat && (wall.sessions[seat.number]?.session ?? seat.sessions.at(-1)?.session);
  const now = seat ? `${seat.number} ${session} ${wall.anonymous} ${JSON.stringify(seat.answers)}` : "";
  if (now === shown) return;
  shown = now;
  if (!seat) {
    $("projected").replaceChildren();
    return;
  }
  const title = h("h2", {}, tr("On the projector: {name}", { name: nameOf(seat, wall.anonymous) }));
  const down = h("button", { type: "button", class: "button small", onclick: takeDown }, tr("Take down"));
  const head = h("header", { class: "pane-head" }, title, down);
  const frame = $("projected").querySelector("iframe");
  if (session && frame?.dataset.session === session) {
    $("projected").querySelector("header").replaceWith(head);
    return;
  }
  const body = session
    ? h("iframe", {
      src: inLanguage(`/framed/${session}`), title: tr("The session of the seat"), "data-session": session,
    })
    : await answerList(room, seat, { lessonOf });
  if (shown === now) $("projected").replaceChildren(head, body);
}
