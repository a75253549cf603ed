// The recorded sessions: filters narrow the cards that the server wrote, checkboxes choose two of them to compare.
import { $ } from "../page.js";
import { bind } from "./address.js";
import { Pair } from "./pair.js";

const FIELDS = { search: "text", device: "device", precision: "class", times: "kind" };
const cards = [...document.querySelectorAll("#cards .card")];

function fits(card) {
  const { searched, device, kind, classes } = card.dataset;
  const chosen = Object.fromEntries(Object.values(FIELDS).map((name) => [name, $(`filter-${name}`).value.trim()]));
  return searched.includes(chosen.text.toLowerCase()) && (!chosen.device || device === chosen.device)
    && (!chosen.class || classes.split(" ").includes(chosen.class)) && (!chosen.kind || kind === chosen.kind);
}

function draw() {
  for (const card of cards) card.hidden = !fits(card);
  const shown = cards.filter((card) => !card.hidden).length;
  const few = shown ? `${shown} of ${cards.length}` : "None fits the filter.";
  $("filter-count").textContent = shown === cards.length ? "" : few;
}

if (cards.length) {
  for (const [name, field] of Object.entries(FIELDS)) bind($(`filter-${field}`), name, draw);
  $("filters").addEventListener("submit", (e) => e.preventDefault());
  draw();
  new Pair(cards);
}
