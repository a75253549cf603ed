// Recorded sessions as cards: what, how fast against what, how far from the limit, and where the numbers are from.
import { $, boot, h } from "./page.js";
import { baselineName, className, deviceName, percent, time, times } from "./format.js";

const rows = boot.sessions ?? [];
const kindOf = (row) => row.summary?.device?.kind ?? row.summary?.best?.kind ?? "";
const deviceOf = (row) => row.summary?.device?.title || deviceName(row.provenance?.device || row.summary?.device);
const text = (value) => (typeof value === "string" ? value : value?.name ?? value?.title ?? "");

function card(row) {
  const best = row.summary?.best;
  const kind = kindOf(row);
  const p = row.provenance ?? {};
  const facts = [["Device", text(deviceOf(row))], ["Driver", text(p.driver)], ["Date", text(p.date)], ["Trials", row.summary?.trials], ["Command", p.command ? h("code", {}, text(p.command).split(/ (?=--)/).map((word) => [h("span", {}, word), " "])) : ""]]
    .filter(([, value]) => value !== undefined && value !== "");
  return h("li", { class: "card panel" },
    h("div", {}, h("h2", {}, h("a", { href: `/s/${row.id}` }, row.title)), row.about && row.about !== row.title ? h("p", { class: "about" }, row.about) : null),
    h("div", { class: "row" }, kind ? h("span", { class: `badge ${kind}` }, kind) : null, Object.keys(row.summary?.by_class ?? {}).map((c) => h("span", { class: "faint" }, className(c)))),
    best ? h("div", {}, h("div", { class: "big" }, times(best.speedup)), h("div", { class: "versus" }, `over ${baselineName(best.baseline)} · ${className(best.cls)} · ${time(best.ms)}`)) : h("div", { class: "versus" }, (row.summary?.trials ?? 0) > (row.summary?.failed ?? 0) ? "No program was faster than PyTorch." : "No trial finished."),
    best ? h("div", {}, h("div", { class: "gapbar" }, h("i", { style: { width: `${Math.min(100, 100 / best.gap)}%` } })), h("div", { class: "versus" }, `${percent(1 / best.gap)} of the speed of light`)) : null,
    h("dl", {}, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
}

function draw() {
  const want = { text: $("filter-text").value.trim().toLowerCase(), device: $("filter-device").value, cls: $("filter-class").value, kind: $("filter-kind").value };
  const shown = rows.filter((row) =>
    (!want.text || `${row.title} ${row.about ?? ""} ${row.summary?.sentence ?? ""}`.toLowerCase().includes(want.text))
    && (!want.device || text(deviceOf(row)) === want.device)
    && (!want.cls || want.cls in (row.summary?.by_class ?? {}))
    && (!want.kind || kindOf(row) === want.kind));
  $("cards").replaceChildren(...shown.map(card));
  $("filter-count").textContent = shown.length === rows.length ? "" : shown.length ? `${shown.length} of ${rows.length}` : "None fits the filter.";
}

if (rows.length) {
  const option = (value, label = value) => h("option", { value }, label);
  $("filter-device").append(...[...new Set(rows.map((r) => text(deviceOf(r))))].filter(Boolean).sort().map((d) => option(d)));
  $("filter-class").append(...[...new Set(rows.flatMap((r) => Object.keys(r.summary?.by_class ?? {})))].sort().map((c) => option(c, className(c))));
  $("filters").hidden = false;
  $("filters").addEventListener("input", draw);
  $("filters").addEventListener("submit", (e) => e.preventDefault());
}
draw();
