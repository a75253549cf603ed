// What a program becomes, while it is being written: both back ends, lines linked to the program's.
import { $, h, request, select, tablist, toast } from "./page.js";
import { makeEditor } from "./editor.js";
import { time } from "./format.js";

/** One diagnostic of the language as the page uses it: 1-based places, a title and what else there is to say. */
function diagnostic(d) {
  const span = d.span ?? d;
  const more = [...(d.notes ?? []), d.help ? `help: ${d.help}` : null].filter(Boolean).join("\n");
  return {
    code: d.code ?? "", title: d.message ?? d.title ?? "", more,
    line: span.line ?? 1, column: span.column ?? span.col ?? 1,
    endLine: span.end_line ?? span.line ?? 1, endColumn: span.end_column ?? span.end_col ?? (span.column ?? span.col ?? 1) + 1,
    message: [d.code ? `${d.code} ${d.message}` : d.message, more].filter(Boolean).join("\n"), fix: d.fix ?? null,
  };
}

export function fromServer(answer) {
  const diagnostics = (answer.diagnostics ?? []).map(diagnostic);
  return { ok: answer.ok ?? diagnostics.length === 0, diagnostics, resolved: answer.resolved ?? null };
}

/** line_map of one back end: the generated ranges of program line n, and the program lines of generated line g. */
export const forward = (map, n) => (map ?? []).filter(([line]) => line === n).map(([, first, last]) => [first, last]);
export const backward = (map, g) => {
  // The narrowest range that holds the line says most.
  const hits = (map ?? []).filter(([, first, last]) => first <= g && g <= last).sort((a, b) => (a[2] - a[1]) - (b[2] - b[1]));
  return hits.length ? [[hits[0][0], hits[0][0]]] : [];
};

/** [line as typed, line of the resolved text] where both begin with the same words: the maps number the resolved one. */
export function aligned(typed, resolved) {
  const words = (line) => line.replace(/#.*/, "").trim().split(/\s+/).slice(0, 2).join(" ");
  const first = (line) => words(line).split(" ")[0];
  const theirs = resolved.split("\n");
  const found = [];
  let from = 0;
  typed.split("\n").forEach((line, i) => {
    if (!words(line)) return;
    let at = theirs.findIndex((other, k) => k >= from && words(other) === words(line));
    if (at < 0) at = theirs.findIndex((other, k) => k >= from && first(other) === first(line));
    if (at >= 0) { found.push([i + 1, at + 1]); from = at + 1; }
  });
  return found;
}

export class Preview {
  constructor(root, editor) {
    this.root = root;
    this.editor = editor;
    this.text = null;
    this.sources = {};
    this.lines = [];
    this.tab = "cute";
    $("preview-export").addEventListener("click", () => this.export());
    tablist($("preview-tabs"), (tab) => { this.tab = tab.dataset.backend; this.picked = true; this.draw(); });
  }

  hide() { this.root.hidden = true; this.text = null; this.asking?.abort(); }

  /** The shown program as a zip; the browser keeps it. */
  async export() {
    try {
      const reply = await fetch("/api/export", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ text: this.text }) });
      if (!reply.ok) throw new Error((await reply.json()).error);
      const name = /filename="([^"]+)"/.exec(reply.headers.get("Content-Disposition") ?? "")?.[1] ?? "program.zip";
      const url = URL.createObjectURL(await reply.blob());
      h("a", { href: url, download: name }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10_000);
    } catch (e) { toast(e.message || "The export did not work."); }
  }

  stale() { if (!this.root.hidden) $("preview-note").textContent = "of the last correct text"; }

  async show(text) {
    if (text === this.text) { $("preview-note").textContent = this.note ?? ""; return; }
    this.asking?.abort();
    this.asking = new AbortController();
    try {
      const made = await request("/api/compile", { body: { text }, signal: this.asking.signal });
      this.text = text;
      this.take(made);
    } catch (e) {
      if (e.name === "AbortError") return;
      this.root.hidden = true;
    }
  }

  take(made) {
    this.sources = made.sources ?? {};
    this.refused = made.refused ?? {};
    this.lines = aligned(this.text, made.resolved ?? "");
    const p = made.prediction;
    const sentence = p && `Predicted ${time(p.ms)} on ${p.device.toUpperCase()}, bound by ${p.bound_by}. Run verifies it and searches around it.`;
    $("preview-report").hidden = !sentence;
    $("preview-report").textContent = sentence ?? "";
    if (made.resolved) this.sources = { resolved: { text: made.resolved, language: "ucutlass", line_map: made.resolved.split("\n").map((_, i) => [i + 1, i + 1, i + 1]) }, ...this.sources };
    const names = ["resolved", "cute", "cpp"].filter((n) => this.sources[n] || this.refused[n]);
    this.root.hidden = names.length === 0;
    $("preview-tabs").replaceChildren(...names.map((name) => h("button", { type: "button", role: "tab", "data-backend": name }, name === "resolved" ? "every choice made" : name)));
    if (!names.includes(this.tab) || (!this.sources[this.tab] && !this.picked)) this.tab = names.find((n) => n !== "resolved" && this.sources[n]) ?? names[0];
    this.draw();
  }

  draw() {
    const tab = [...$("preview-tabs").children].find((t) => t.dataset.backend === this.tab);
    if (!tab) return;
    select($("preview-tabs"), tab);
    const source = this.sources[this.tab];
    this.note = source ? `${source.text.split("\n").length} lines` : "";
    $("preview-note").textContent = this.note;
    const refusal = this.refused[this.tab];
    if (!source && refusal?.code) $("preview-note").replaceChildren(h("a", { href: `/language/${refusal.code}`, target: "_blank", rel: "noopener" }, refusal.code));
    const text = source?.text ?? `# ${this.tab} cannot say this program.\n# ${refusal?.message ?? ""}${refusal?.help ? `\n# ${refusal.help}` : ""}`;
    if (!this.view) {
      this.view = makeEditor($("preview-code"), { doc: text, lang: source?.language ?? "python", label: "Generated code", readOnly: true,
        onLine: (g) => this.editor.link(g ? backward(this.sources[this.tab]?.line_map, g).flatMap(([r]) => this.lines.filter(([, to]) => to === r).map(([from]) => [from, from])) : []) });
    } else this.view.setText(text, source?.language ?? "python");
  }

  /** The program's line under the pointer, marked in the generated code. */
  link(n) {
    if (this.root.hidden) return;
    const there = n ? this.lines.filter(([from]) => from === n).flatMap(([, to]) => forward(this.sources[this.tab]?.line_map, to)) : [];
    this.view?.link(there, true);
  }
}
