// The best programs of an ended session timed again at other sizes of its module: a session for each value.
import { blob, boot, explained, h, request } from "../page.js";
import { remember } from "../mine/started.js";
import { baselineName, className, digits, time, times } from "../format.js";
import { tr } from "../texts.js";
import { sizeForm, sizesOf, wideTable, withSize } from "../sizes.js";

const EVERY = 1500; // ms between two looks at a session
const AGAIN = `/api/sessions/${boot.session.id}/again`;

class AtSizes {
  /** Fill `root` for a module's text. */
  constructor(root, text) {
    const sizes = sizesOf(text);
    if (!sizes.length) {
      root.append(h("p", { class: "help" },
        tr("To time it at other sizes, give the sizes names at the top of the module, such as {example}.",
          { example: "N = 4096" })));
      return;
    }
    root.append(
      h("p", { class: "help" },
        tr("Each value starts a session that gives the best program these sizes and times it. Nothing is searched.")),
      sizeForm(sizes, {
        button: tr("Time it"),
        submit: (size, values, shown) => this.start(text, size, values, shown),
      }));
  }

  async start(text, size, values, { state, rows }) {
    const run = (this.run = {}); // a later start ends the looks of this one
    const body = h("tbody");
    const heads = [size.name, tr("State"), tr("Time"), tr("Speedup"), tr("Times its limit")];
    rows.replaceChildren(wideTable(tr("The best program at other sizes"), heads, body));
    state.textContent = "";
    for (const value of values) {
      try {
        const asked = { source: withSize(text, size, value), sizes: `${size.name} = ${value}` };
        const { id, control_url } = await request(AGAIN, { body: asked });
        const title = `${boot.session.title} · ${asked.sizes}`; // this page alone has its control link
        remember({ session: { id, title, created: Date.now() / 1000 }, control: { url: control_url } });
        const row = h("tr");
        body.append(row);
        this.follow(run, row, value, id, control_url);
      } catch (e) {
        state.replaceChildren(`${size.name} = ${value}: `, ...explained(e));
        return;
      }
    }
  }

  /** Fill a row until its session has ended. */
  async follow(run, row, value, id, address) {
    for (;;) {
      const session = await request(`/api/sessions/${id}`).catch(() => null);
      if (run !== this.run) return;
      if (session) row.replaceChildren(...cells(session, value, address));
      if (session?.state === "ended") return;
      await new Promise((resolve) => setTimeout(resolve, EVERY));
    }
  }
}

/** Fill the opened part of the page. `source`: the blob of the module's text. */
export async function fill(root, source) {
  try {
    new AtSizes(root, await blob(source));
  } catch {
    root.append(h("p", { class: "help" }, tr("The module's text did not load. Reload the page.")));
  }
}

function cells(session, value, address) {
  const { fastest, end } = session.summary;
  const ended = session.state === "ended";
  const one = Object.values(fastest ?? {})[0];
  const words = !ended ? session.state : one ? `ended · ${className(one.cls)}` : end?.reason ?? "ended";
  return [
    h("th", { scope: "row" }, h("a", { href: address }, String(value))),
    h("td", one ? { class: "num" } : { colspan: 4 }, words),
    ...(one ? [
      h("td", { class: "num" }, `${time(one.ms)} ${one.kind}`),
      h("td", { class: "num" }, `${times(one.speedup)} over ${baselineName(one.baseline)}`),
      h("td", { class: "num" }, one.gap ? `${digits(one.gap)}×` : "–"),
    ] : []),
  ];
}
