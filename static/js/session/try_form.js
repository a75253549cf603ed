// The owner's candidate: a μCUTLASS program, or a raw kernel in CUDA C++ or Python. The server detects the type from
// the text; the person may choose another.
import { boot, coded, h, request } from "../page.js";
import { className } from "../format.js";
import { makeEditor } from "../language/editor.js";
import { fromServer } from "../language/diagnostics.js";

const KINDS = {
  program: { name: "μCUTLASS program", lang: "ucutlass" },
  cuda: { name: "CUDA C++ kernel", lang: "cuda" },
  python: { name: "Python kernel (PyTorch, Triton, CuTe)", lang: "python" },
};
const KERNEL_CLASSES = ["f32", "tf32", "f16", "bf16"];
const PAUSE = 180; // ms without a key press until the text is checked

/** Precision classes that a kernel may declare here, as playground/access/tries.py has them: the allowed ones and
    float32, and of them those in which the module has a limit (`bounds`, by class), once it has any. */
const classes = (bounds) => {
  const allowed = (boot.session.spec.classes ?? []).filter((c) => KERNEL_CLASSES.includes(c));
  const all = [...new Set([...allowed, "f32"])];
  const known = all.filter((c) => c in bounds);
  return known.length ? known : all;
};

export class TryForm {
  /** `text` to begin with, which is a `kind` of KINDS; `bounds`: the session's limits by class; `run()` submits it. */
  constructor(text, kind, cls, bounds, run) {
    this.kind = kind;
    this.chosen = false; // whether the person chose the type
    this.turn = 0;
    const option = (value, words) => h("option", { value }, words);
    this.select = h("select", { id: "try-kind", onchange: () => this.choose(this.select.value) },
      Object.entries(KINDS).map(([value, { name }]) => option(value, name)));
    const offered = classes(bounds);
    this.cls = h("select", { id: "try-class" }, offered.map((c) => option(c, className(c))));
    if (offered.includes(cls)) this.cls.value = cls;
    this.ofClass = h("label", {}, "Precision class", this.cls);
    this.box = h("div", { class: "editor" });
    this.message = h("p", { class: "faint", role: "status", id: "try-said" });
    this.example = h("details", { hidden: true }, h("summary", {}, "A kernel that would be accepted"), h("pre", {}));
    this.body = [
      h("div", { class: "choices" }, h("label", {}, "This is a", this.select), this.ofClass),
      this.box, this.message, this.example,
    ];
    this.begin = { text, run };
  }

  /** When the form is on the page. */
  open() {
    const { text, run } = this.begin;
    this.editor = makeEditor(this.box, {
      doc: text, lang: KINDS[this.kind].lang, label: "Your program or kernel", onRun: run,
      hint: "Paste a μCUTLASS program, or a kernel in CUDA C++ or Python",
      onChange: () => this.soon(),
    });
    this.show(this.kind);
    this.look();
    this.editor.focus();
  }

  get data() {
    const program = this.editor.text();
    if (this.kind === "program") return { program, form: "program" };
    return { program, form: "kernel", language: this.kind, cls: this.cls.value };
  }

  choose(kind) {
    this.chosen = true;
    this.show(kind);
    this.look();
  }

  show(kind) {
    this.kind = this.select.value = kind;
    this.ofClass.hidden = kind === "program";
    this.editor.setText(this.editor.text(), KINDS[kind].lang);
  }

  soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.look(), PAUSE);
  }

  /** Asks the server for the text's type and faults, and shows them. */
  async look() {
    const turn = (this.turn += 1);
    const text = this.editor.text();
    if (!text.trim()) {
      this.editor.diagnose([]);
      this.say(""); // nothing is typed yet, so nothing is wrong
      return;
    }
    try {
      const language = this.chosen && this.kind !== "program" ? this.kind : "";
      const verdict = await request("/api/tries/check", { body: { text, language } });
      if (turn !== this.turn) return;
      if (!this.chosen && KINDS[verdict.looks] && verdict.looks !== this.kind) this.show(verdict.looks);
      if (this.kind !== "program") return this.kernel(verdict);
      const { diagnostics } = fromServer(await request("/api/check", { body: { text } }));
      if (turn === this.turn) this.program(diagnostics);
    } catch (e) {
      if (turn === this.turn) this.say(`${e.message} ${e.fix ?? ""}`.trim());
    }
  }

  program(diagnostics) {
    this.editor.diagnose(diagnostics);
    const [first] = diagnostics;
    this.say(first ? `Line ${first.line}: ${first.title}` : "The program is correct.");
  }

  kernel({ error, fix, example }) {
    this.editor.diagnose([]);
    this.say(error ? `${error} ${fix}` : `Read as a ${KINDS[this.kind].name}. It runs only in the sandbox.`, example);
  }

  say(words, example = "") {
    this.message.replaceChildren(...coded(words));
    this.example.hidden = !example;
    this.example.lastChild.textContent = example;
  }
}
