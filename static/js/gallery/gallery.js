// Recorded sessions as cards: the module, its speedup and baseline, its distance to the limit, and the source of the
// numbers.
import { $, boot, h } from "../page.js";
import { bind } from "./address.js";
import { Pair } from "./pair.js";
import { baselineName, className, deviceName, percent, time, times } from "../format.js";

const rows = boot.sessions ?? [];
const kindOf = (row) => row.summary?.device?.kind ?? row.summary?.best?.kind ?? "";
const text = (value) => (typeof value === "string" ? value : (value?.name ?? value?.title ?? ""));
const deviceOf = (row) =>
  text(row.summary?.device?.title || deviceName(row.provenance?.device || row.summary?.device));
/** The classes with a right program, even if it is slower than PyTorch. */
const classesOf = (row) => Object.keys(row.summary?.fastest ?? row.summary?.by_class ?? {});
const pair = new Pair(rows);
const versus = (words) => h("div", { class: "versus" }, words);

function facts(row) {
  const p = row.provenance ?? {};
  const command = text(p.command).split(/ (?=--)/).map((word) => [h("span", {}, word), " "]);
  return [
    ["Device", deviceOf(row)], ["Driver", text(p.driver)], ["Date", text(p.date)], ["Trials", row.summary?.trials],
    ["Led by", text(p.led_by)],
    ["Times", kindOf(row) === "predicted" ? "predicted by a model; nothing ran on a GPU" : ""],
    ["Command", p.command ? h("code", {}, command) : ""],
  ].filter(([, value]) => value !== undefined && value !== "");
}

/** The best trial or, if PyTorch stays in every class, the time that came closest to it. */
function best(row) {
  const one = row.summary?.best;
  if (one) {
    const share = one.gap ? [
      h("div", { class: "gapbar" }, h("i", { style: { width: `${Math.min(100, 100 / one.gap)}%` } })),
      versus(`${percent(1 / one.gap)} of the speed of light`),
    ] : [];
    const over = `over ${baselineName(one.baseline)} · ${className(one.cls)} · ${time(one.ms).replace(" ", "\u00a0")}`;
    return [h("div", {}, h("div", { class: "big" }, times(one.speedup)), versus(over)), h("div", {}, share)];
  }
  const fastest = Object.values(row.summary?.fastest ?? {}).sort((a, b) => b.speedup - a.speedup)[0];
  if (!fastest) return [versus("No trial finished.")];
  const most = `${times(fastest.speedup)} of ${baselineName(fastest.baseline)}, in ${className(fastest.cls)}`;
  return [h("div", {}, versus("No program was faster than PyTorch."), versus(`The fastest had ${most}.`))];
}

function card(row) {
  const kind = kindOf(row);
  const about = row.about && row.about !== row.title ? h("p", { class: "about" }, row.about) : null;
  return h("li", { class: "card panel" },
    h("div", {}, h("h3", {}, h("a", { href: `/s/${row.id}` }, row.title)), about),
    h("div", { class: "row" }, kind ? h("span", { class: `badge ${kind}` }, kind) : null,
      classesOf(row).map((c) => h("span", { class: "faint" }, className(c)))),
    best(row),
    h("dl", {}, facts(row).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    pair.box(row));
}

function fits(row) {
  const words = $("filter-text").value.trim().toLowerCase();
  const text = `${row.title} ${row.about ?? ""} ${row.summary?.sentence ?? ""}`.toLowerCase();
  const device = $("filter-device").value, cls = $("filter-class").value, kind = $("filter-kind").value;
  return (!words || text.includes(words)) && (!device || deviceOf(row) === device)
    && (!cls || classesOf(row).includes(cls)) && (!kind || kindOf(row) === kind);
}

function draw() {
  const shown = rows.filter(fits);
  $("cards").replaceChildren(...shown.map(card));
  const few = shown.length ? `${shown.length} of ${rows.length}` : "None fits the filter.";
  $("filter-count").textContent = shown.length === rows.length ? "" : few;
}

if (rows.length) {
  const options = (values, label = (v) => v) =>
    [...new Set(values)].filter(Boolean).sort().map((value) => h("option", { value }, label(value)));
  $("filter-device").append(...options(rows.map(deviceOf)));
  $("filter-class").append(...options(rows.flatMap(classesOf), className));
  const fields = { search: "text", device: "device", precision: "class", times: "kind" };
  for (const [name, field] of Object.entries(fields)) bind($(`filter-${field}`), name, draw);
  $("filters").hidden = false;
  $("filters").addEventListener("submit", (e) => e.preventDefault());
}
draw();
