// The generated code of a program while it is written: both back ends, with lines linked to the program's.
import { $, h, request, select, tablist, toast } from "../page.js";
import { makeEditor } from "../language/editor.js";
import { BOUND, time } from "../format.js";
import { aligned, backward, forward } from "../language/line_map.js";

export class Preview {
  constructor(root, editor) {
    this.root = root;
    this.editor = editor;
    this.text = null;
    this.sources = {};
    this.lines = [];
    this.tab = "cute";
    $("preview-export").addEventListener("click", () => this.export());
    tablist($("preview-tabs"), (tab) => {
      this.tab = tab.dataset.backend;
      this.picked = true;
      this.draw();
    });
  }

  hide() {
    this.root.hidden = true;
    this.text = null;
    this.asking?.abort();
  }

  /** Downloads the shown program as a zip. */
  async export() {
    try {
      const reply = await fetch("/api/export", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ text: this.text }),
      });
      if (!reply.ok) throw new Error((await reply.json()).error);
      const name = /filename="([^"]+)"/.exec(reply.headers.get("Content-Disposition") ?? "")?.[1] ?? "program.zip";
      const url = URL.createObjectURL(await reply.blob());
      h("a", { href: url, download: name }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10_000);
    } catch (e) {
      toast(e instanceof TypeError ? "The server does not answer. Try again in a moment." : e.message);
    }
  }

  stale() {
    if (!this.root.hidden) $("preview-note").textContent = "of the last correct text";
  }

  async show(text) {
    if (text === this.text) {
      $("preview-note").textContent = this.note ?? "";
      return;
    }
    this.asking?.abort();
    this.asking = new AbortController();
    try {
      const compilation = await request("/api/compile", { body: { text }, signal: this.asking.signal });
      this.text = text;
      this.take(compilation);
    } catch (e) {
      if (e.name === "AbortError") return;
      this.root.hidden = true;
    }
  }

  take(compilation) {
    this.sources = compilation.sources ?? {};
    this.refused = compilation.refused ?? {};
    this.lines = aligned(this.text, compilation.resolved ?? "");
    const p = compilation.prediction;
    $("preview-report").hidden = !p;
    const bound = p ? `bound by ${BOUND[p.bound_by] ?? p.bound_by}` : "";
    $("preview-report").textContent = p
      ? `Predicted ${time(p.ms)} on ${p.device.toUpperCase()}, ${bound}. Run verifies it and searches around it.`
      : "";
    if (compilation.resolved)
      this.sources = {
        resolved: {
          text: compilation.resolved,
          language: "ucutlass",
          line_map: compilation.resolved.split("\n").map((_, i) => [i + 1, i + 1, i + 1]),
        },
        ...this.sources,
      };
    const names = ["resolved", "cute", "cpp"].filter((n) => this.sources[n] || this.refused[n]);
    this.root.hidden = names.length === 0;
    $("preview-tabs").replaceChildren(
      ...names.map((name) =>
        h(
          "button",
          { type: "button", role: "tab", "data-backend": name },
          name === "resolved" ? "every choice made" : name,
        ),
      ),
    );
    if (!names.includes(this.tab) || (!this.sources[this.tab] && !this.picked))
      this.tab = names.find((n) => n !== "resolved" && this.sources[n]) ?? names[0];
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
    if (!source && refusal?.code)
      $("preview-note").replaceChildren(
        h("a", { href: `/language/${refusal.code}`, target: "_blank", rel: "noopener" }, refusal.code),
      );
    const help = refusal?.help ? `\n# ${refusal.help}` : "";
    const text = source?.text ?? `# ${this.tab} cannot express this program.\n# ${refusal?.message ?? ""}${help}`;
    if (!this.view) {
      this.view = makeEditor($("preview-code"), {
        doc: text,
        lang: source?.language ?? "python",
        label: "Generated code",
        readOnly: true,
        onLine: (g) =>
          this.editor.link(
            g
              ? backward(this.sources[this.tab]?.line_map, g).flatMap(([r]) =>
                  this.lines.filter(([, to]) => to === r).map(([from]) => [from, from]),
                )
              : [],
          ),
      });
    } else this.view.setText(text, source?.language ?? "python");
  }

  /** Marks the program's line under the pointer in the generated code. */
  link(n) {
    if (this.root.hidden) return;
    const there = n
      ? this.lines.filter(([from]) => from === n).flatMap(([, to]) => forward(this.sources[this.tab]?.line_map, to))
      : [];
    this.view?.link(there, true);
  }
}
