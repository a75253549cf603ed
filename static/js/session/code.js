// The program of one trial beside its generated code: lines linked both ways on hover, a diff with any other trial, and
// the report of the trial.
import { $, blob, boot, copyButton, h, select, tablist, Told } from "../page.js";
import { makeEditor } from "../language/editor.js";
import { logged, tr } from "../texts.js";
import { backward, forward } from "../language/line_map.js";
import { report } from "./report.js";
import { builtBy, isKernel } from "./words.js";

const LANGUAGES = { cuda: "cuda", python: "python" }; // of kernels, as the editor names them
const languageOf = (one) => (isKernel(one) ? (LANGUAGES[one.language] ?? "text") : "ucutlass");
const MEASURED = 250; // ms in which a new editor measures its gutters and folds, and its lines move
const NAMES = { program: "Program", cute: "CuTe DSL (Python)", cpp: "CUTLASS C++" };

export class Code {
  /** `changed({tab, diff})` is called when a person picks a tab or another trial to compare with. */
  constructor(changed) {
    this.changed = changed;
    this.shown = null; // the key of the drawn contents
    this.turn = 0;
    this.build();
  }

  build() {
    const root = $("code");
    this.diffWith = h("select", {
      id: "diff-with",
      onchange: () => this.changed({ diff: Number(this.diffWith.value) || null }),
    });
    this.wide = h(
      "button",
      {
        type: "button",
        class: "button wide-toggle",
        "aria-pressed": "false",
        onclick: () => {
          const on = $("panes").classList.toggle("wide");
          this.wide.setAttribute("aria-pressed", String(on));
          this.wide.textContent = on ? tr("Show charts") : tr("Widen");
          dispatchEvent(new Event("resize"));
        },
      },
      tr("Widen"),
    );
    this.link = copyButton("copy-trial", {
      shown: tr("Copy link"), label: tr("Copy the link of this trial"), done: tr("The link of this trial is copied."),
    }, () => `${boot.view_url}?trial=${this.number}`);
    this.heading = h("h2", {}, tr("Code"));
    this.why = h("p", { class: "why" });
    this.empty = h("div", { class: "empty" });
    this.tabs = h("div", { class: "tabs small", role: "tablist", "aria-label": tr("Generated code") });
    this.notes = { program: h("span", { class: "pane-note" }), generated: h("span", { class: "pane-note" }) };
    this.boxes = {
      program: h("div", { class: "code", id: "program-code" }),
      generated: h("div", { class: "code", id: "generated-code" }),
    };
    this.what = h("b", {}, tr("μCUTLASS program"));
    this.split = h(
      "div",
      { class: "split", hidden: true },
      h(
        "div",
        { class: "program" },
        h("div", { class: "title" }, this.what, this.notes.program,
          copyButton("copy-program", {
            shown: tr("Copy"), label: tr("Copy the program"), done: tr("The program is copied."),
          }, () => this.programView.text())),
        this.boxes.program,
      ),
      h(
        "div",
        { class: "generated" },
        h("div", { class: "title" }, this.tabs, this.notes.generated,
          copyButton("copy-generated", {
            shown: tr("Copy"), label: tr("Copy the generated code"), done: tr("The generated code is copied."),
          }, () => this.generatedView.text())),
        this.boxes.generated,
      ),
    );
    this.diffTabs = h("div", { class: "tabs small", role: "tablist", "aria-label": tr("Text to compare") });
    this.diffHeads = h("div", { class: "diff-heads" });
    this.diffBox = h("div", { class: "diff" });
    this.diffPane = h(
      "div",
      { hidden: true, id: "diff-pane" },
      h("div", { class: "title" }, this.diffTabs),
      this.diffHeads,
      this.diffBox,
    );
    this.resources = h("div", { class: "resources", id: "resources" });
    root.append(
      h(
        "div",
        { class: "code-bar" },
        this.heading,
        h("div", { class: "tools" }, h("label", {}, tr("Compare with"), this.diffWith), this.link, this.wide),
      ),
      this.why,
      this.empty,
      this.split,
      this.diffPane,
      this.resources,
    );
    for (const list of [this.tabs, this.diffTabs]) tablist(list, (tab) => this.changed({ tab: tab.dataset.tab }));
  }

  /** Draws trial `n` of `view`; `tab` is cute | cpp | program, `diff` another trial or null. */
  async draw(view, n, { tab, diff }) {
    const one = view.trials.get(n);
    const key = JSON.stringify([
      n,
      tab,
      diff,
      one?.step,
      Boolean(one?.failed),
      Boolean(one?.untimed),
      view.trials.size > 0,
      view.trials.get(diff)?.step,
      Boolean(view.end),
    ]);
    this.listOthers(view, n, diff);
    if (key === this.shown) return;
    this.shown = key;
    const turn = ++this.turn;
    this.number = n;
    this.link.hidden = !one;
    this.heading.textContent = one ? tr("Trial {n}", { n }) : tr("Code");
    this.why.replaceChildren(one?.why ? logged(one.why) : "");
    this.resources.replaceChildren(...(one ? report(one, (line) => this.point(line)) : []));
    const withheld = boot.session.provenance?.shared?.source === false; // a snapshot of the results alone
    this.empty.hidden = Boolean(one) && !withheld;
    if (!one || withheld) {
      this.split.hidden = this.diffPane.hidden = true;
      const soon = tr("The first program appears here, with the CUTLASS code it becomes.");
      const none = view.end ? tr("There was no trial.") : soon;
      this.empty.replaceChildren(one ? tr("The program is not shared: its owner shares the results alone.") : none);
      return;
    }
    const other = diff && diff !== n ? view.trials.get(diff) : null;
    this.split.hidden = Boolean(other);
    this.diffPane.hidden = !other;
    try {
      if (other) await this.drawDiff(one, other, tab, turn);
      else await this.drawSplit(one, tab, turn);
    } catch (e) {
      if (turn !== this.turn) return;
      this.shown = null; // drawn again with the next event, or by the reader
      this.split.hidden = this.diffPane.hidden = true; // they hold the texts of another trial
      const why = e instanceof Told ? tr("The text did not load: {error}", { error: e.message })
        : tr("This part of the page did not load. Reload the page.");
      const again = h("button", { type: "button", class: "button small", onclick: () => this.changed({}) },
        tr("Try again"));
      this.empty.replaceChildren(h("p", {}, why), again);
      this.empty.hidden = false;
    }
  }

  /** The options are added as trials come: a long list is not built anew for each choice. */
  listOthers(view, n, diff) {
    const key = `${view.trials.size} ${n} ${diff}`;
    if (key === this.others) return;
    this.others = key;
    const numbers = [...view.trials.keys()], list = this.diffWith;
    if (!list.length) list.append(h("option", { value: 0 }, "–"));
    while (list.length > 1 && Number(list.lastElementChild.value) !== numbers[list.length - 2])
      list.lastElementChild.remove();
    list.append(...numbers.slice(list.length - 1).map((k) => h("option", { value: k }, tr("trial {n}", { n: k }))));
    for (const option of list.querySelectorAll(":disabled")) option.disabled = false;
    const at = numbers.indexOf(n);
    if (at >= 0) list.options[at + 1].disabled = true;
    list.value = String(diff && diff !== n && view.trials.has(diff) ? diff : 0);
    list.disabled = numbers.length < 2;
  }

  /** Marks a line of the program and scrolls to it. */
  point(line) {
    this.programView?.link([[line, line]], true);
  }

  /** Shows a raw kernel, from which nothing is generated. */
  async drawKernel(one, turn) {
    const text = await blob(one.program);
    if (turn !== this.turn) return;
    this.map = [];
    this.what.textContent = tr("{language} kernel", { language: builtBy(one) });
    this.notes.program.textContent = tr("{n} lines, as pasted", { n: text.trimEnd().split("\n").length });
    this.fill("program", text, languageOf(one));
  }

  async drawSplit(one, tab, turn) {
    this.split.classList.toggle("alone", isKernel(one));
    if (isKernel(one)) return this.drawKernel(one, turn);
    const sha = one.resolved || one.program;
    const names = ["cute", "cpp"].filter((b) => one.sources?.[b] || one.refused?.[b]);
    const shown = names.includes(tab) ? tab : one.sources?.[one.backend] ? one.backend : names[0];
    const source = one.sources?.[shown];
    const [program, generated] = await Promise.all([blob(sha), source ? blob(source.text) : null]);
    if (turn !== this.turn) return;
    this.map = source?.line_map ?? [];
    this.what.textContent = tr("μCUTLASS program");
    this.notes.program.textContent = one.resolved ? tr("every choice made") : tr("as proposed");
    this.fill("program", program, "ucutlass");
    this.tabs.replaceChildren(
      ...(names.length ? names : ["cute", "cpp"]).map((b) =>
        h("button", { type: "button", role: "tab", "data-tab": b, title: tr(NAMES[b]) }, b),
      ),
    );
    select(this.tabs, [...this.tabs.children].find((t) => t.dataset.tab === shown) ?? null);
    const refusal = one.refused?.[shown];
    const about = { what: tr(NAMES[shown] ?? ""), n: generated?.split("\n").length };
    this.notes.generated.textContent = source ? tr("{what} · {n} lines", about) : "";
    if (source) this.fill("generated", generated, source.language ?? (shown === "cpp" ? "cuda" : "python"));
    else if (refusal) {
      const help = refusal.help ? `\n${refusal.help}` : "";
      const why = `${refusal.code} ${refusal.message}${help}`;
      this.fill("generated", `${tr("{backend} cannot express this program.", { backend: shown })}\n\n${why}`, "text");
    }
    else
      this.fill(
        "generated",
        one.failed ? tr("No code: the trial ended before it was generated.") : tr("Being generated…"),
        "text",
      );
  }

  fill(which, text, lang) {
    const box = this.boxes[which];
    const key = `${which}View`;
    if (this[key]) {
      this[key].setText(text, lang);
      return;
    }
    box.dataset.late = ""; // until the editor has measured its gutters
    setTimeout(() => box.removeAttribute("data-late"), MEASURED);
    this[key] = makeEditor(box, {
      doc: text,
      lang,
      readOnly: true,
      wrap: which === "program",
      label: which === "program" ? tr("Program of the selected trial") : tr("Generated code"),
      onLine: (line) => {
        const [here, there] = which === "program" ? ["program", "generated"] : ["generated", "program"];
        if (line === null) {
          this[`${here}View`].link([]);
          this[`${there}View`]?.link([]);
          return;
        }
        const matches = which === "program" ? forward(this.map, line) : backward(this.map, line);
        this[`${here}View`].link(
          matches.length ? (which === "program" ? [[line, line]] : matches.flatMap(([n]) => forward(this.map, n))) : [],
        );
        this[`${there}View`]?.link(matches, true);
      },
    });
  }

  async drawDiff(one, other, tab, turn) {
    const text = (t, name) => (name === "program" ? (t.resolved || t.program) : t.sources?.[name]?.text);
    const names = ["program", "cute", "cpp"].filter((name) => text(one, name) && text(other, name));
    const shown = names.includes(tab) ? tab : "program";
    const [a, b, { makeDiff }] = await Promise.all([
      blob(text(other, shown)),
      blob(text(one, shown)),
      import("../language/diff.js"),
    ]);
    if (turn !== this.turn) return;
    this.diffTabs.replaceChildren(
      ...names.map((name) => h("button", { type: "button", role: "tab", "data-tab": name }, tr(NAMES[name]))),
    );
    select(
      this.diffTabs,
      [...this.diffTabs.children].find((t) => t.dataset.tab === shown),
    );
    const label = (t) => `${tr("Trial {n}", { n: t.number })}${t.change ? ` · ${t.change}` : ""}`;
    this.diffHeads.replaceChildren(
      h("span", {}, "− ", h("b", {}, label(other))),
      h("span", {}, "+ ", h("b", {}, label(one))),
    );
    this.diff?.destroy();
    this.diffBox.replaceChildren();
    const lang =
      shown === "program" ? languageOf(one) : (one.sources[shown].language ?? (shown === "cpp" ? "cuda" : "python"));
    this.diff = makeDiff(this.diffBox, { a, b, lang, labelA: label(other), labelB: label(one) });
    if (a === b) this.diffHeads.append(h("span", {}, tr("The two are the same.")));
  }
}
