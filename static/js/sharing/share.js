// Sharing from the session's page: links with the current selection, an embedded pane, and for the owner snapshots and
// a pin. Everything that a link shows is decided on the server.
import { $, boot, copy, explained, h, request, Told, toast } from "../page.js";
import { frameHeight, WIDTH } from "./frame_height.js";

const PANES = [
  ["result", "Result"], ["roofline", "Roofline"], ["history", "Speedup history"], ["breakdown", "Where the time goes"],
  ["trials", "Trials"],
];
const path = `/api/sessions/${boot.session.id}`;
const control = boot.control;
const headers = control ? { "X-Control-Token": control.token } : {};
const when = (t) => new Date(t * 1000).toLocaleString();
const shares = ({ source, transcript }) =>
  source ? `with the source${transcript ? " and the model's turns" : ""}` : "results alone";

const embedCode = (pane, view) => {
  const address = new URL(`/embed/${boot.session.id}?pane=${pane}`, boot.view_url).href;
  const title = boot.session.title.replace(/[&"<>]/g, "");
  const size = `width="${WIDTH}" height="${frameHeight(pane, view)}"`;
  return `<iframe src="${address}" title="${title}" ${size} loading="lazy"></iframe>`;
};

const field = (label, value, done) => {
  const input = h("input", { readonly: true, value, "aria-label": label, onfocus: () => input.select() });
  const button = h("button", { type: "button", class: "button small", onclick: () => copy(input.value, done) }, "Copy");
  return [h("div", { class: "share-link" }, input, button), input];
};

async function remove(row) {
  const reply = await fetch(`/api/snapshots/${row.id}`, { method: "DELETE", headers });
  if (reply.ok) return;
  const refused = await reply.json().catch(() => ({}));
  throw new Told(refused.error ?? "The snapshot was not deleted.", refused.fix ?? "Try again.");
}

export class Share {
  /** `state()` returns {view}; `link()` the view link with the selection. */
  constructor(state, link) {
    Object.assign(this, { state, link });
    const attributes = { type: "button", class: "button", id: "share-open", onclick: () => this.open() };
    $("share").prepend(h("button", attributes, "Share"));
  }

  open() {
    this.problem = h("p", { class: "notice bad", role: "alert", hidden: true });
    const close = h("button", { type: "button", class: "button", onclick: () => $("dialog").close() }, "Close");
    const parts = [h("h2", { id: "dialog-title" }, "Share this session"), this.links(), this.frame(), this.files()];
    if (control) parts.push(this.snapshots(), this.pin());
    parts.push(this.problem, h("div", { class: "ends" }, close));
    $("dialog").replaceChildren(h("div", { class: "share" }, ...parts));
    $("dialog").setAttribute("aria-labelledby", "dialog-title");
    $("dialog").showModal();
  }

  /** Runs an action of a button, and shows a failure in the dialog. */
  async act(button, action) {
    button.disabled = true;
    this.problem.hidden = true;
    try {
      await action();
    } catch (e) {
      this.problem.replaceChildren(...explained(e));
      this.problem.hidden = false;
    } finally {
      button.disabled = false;
    }
  }

  links() {
    const [line] = field("View link", this.link(), "View link copied: whoever has it can watch.");
    const about = boot.session.provenance?.snapshot
      ? `This is a snapshot, ${shares(boot.session.provenance.shared)}. It does not change.`
      : "Whoever has this link can watch, and fork. The selected trial is part of the link.";
    return h("section", {}, h("h3", {}, "View link"), line, h("p", { class: "faint" }, about));
  }

  frame() {
    const code = (pane) => embedCode(pane, this.state().view);
    const [line, input] = field("Code of the embedded pane", code("result"), "Code copied.");
    const choose = h("select", { id: "embed-pane", onchange: () => { input.value = code(choose.value); } },
      PANES.map(([value, text]) => h("option", { value }, text)));
    return h("section", {}, h("h3", {}, "One pane in another page"), h("label", {}, "Pane ", choose), line);
  }

  /** The selected trial as files: the zip of the page's own link, or one file. */
  files() {
    const { hidden, href } = $("export");
    if (hidden) return h("section", { hidden: true });
    const address = new URL(href);
    const link = (text, form) => {
      address.searchParams.set("as", form);
      return h("a", { class: "button small", href: address.pathname + address.search, download: "" }, text);
    };
    return h("section", {}, h("h3", {}, "Take the selected trial away"), h("div", { class: "share-what" },
      link("Package (zip)", "zip"), link("KernelBench ModelNew", "modelnew"), link("Notebook", "notebook")));
  }

  snapshots() {
    const source = h("input", { type: "checkbox", checked: true, id: "share-source" });
    const turns = h("input", { type: "checkbox", checked: true, id: "share-transcript" });
    source.addEventListener("change", () => {
      turns.disabled = !source.checked; // the turns quote the source
      turns.checked &&= source.checked;
    });
    const list = h("ul", { class: "share-list", id: "snapshots" });
    const show = async () => {
      const { snapshots } = await request(`${path}/snapshots`, { headers });
      list.replaceChildren(...snapshots.map((row) => this.row(row, show)));
    };
    const take = h("button", { type: "button", class: "button primary", id: "take-snapshot",
      onclick: () => this.act(take, async () => {
        const body = { source: source.checked, transcript: turns.checked };
        const snapshot = await request(`${path}/snapshots`, { body, headers });
        await show();
        copy(snapshot.url, "Link of the snapshot copied.");
      }) }, "Take a snapshot");
    const ended = Boolean(this.state().view.end);
    take.disabled = !ended;
    show().catch(() => {});
    return h("section", {},
      h("h3", {}, "Snapshot"),
      h("p", { class: "faint" }, ended
        ? "A copy that does not change, under a link of its own. It stays until you delete it."
        : "Once this session has ended: a copy that does not change, under a link of its own."),
      h("div", { class: "share-what" },
        h("label", {}, source, " with the source and your notes"),
        h("label", {}, turns, " with the model's turns"), take),
      list);
  }

  row(row, show) {
    const drop = h("button", { type: "button", class: "button small", onclick: () =>
      this.act(drop, async () => { await remove(row); await show(); toast("The snapshot is deleted."); }) }, "Delete");
    const link = h("a", { href: new URL(row.url).pathname }, when(row.created));
    return h("li", {}, link, h("span", { class: "faint" }, shares(row.shared)), drop);
  }

  pin() {
    const box = h("input", { type: "checkbox", id: "pinned", checked: control.pinned, onchange: () =>
      this.act(box, async () => {
        try {
          control.pinned = (await request(`${path}/pin`, { body: { pinned: box.checked }, headers })).pinned;
        } finally {
          box.checked = control.pinned;
        }
      }) });
    return h("section", {}, h("h3", {}, "Keep it"), h("label", {}, box, " Do not delete this session in time"));
  }
}
