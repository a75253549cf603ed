// What a session can be compared with: the sessions that were started in this browser.
import { $, boot, h } from "../page.js";
import { started } from "../mine/started.js";

const MOST = 12; // the latest ones
const rows = started().filter((row) => row.id !== boot.other).slice(0, MOST);

$("yours").hidden = !rows.length;
$("yours").replaceChildren(
  h("h3", {}, "A session of yours"),
  h("ul", { class: "choices" }, rows.map((row) => h("li", {},
    h("a", { class: "button small", href: `?${new URLSearchParams({ a: boot.other, b: row.id })}` }, row.title)))),
);
