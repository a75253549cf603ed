// Texts that come from elsewhere, in a link or a file, and links that carry the draft away. A link holds the text after
// its #, which browsers do not send: no server keeps the draft.
import { $, boot, copy, toast } from "../page.js";
import { takeDrops } from "../drop.js";

const MOST = (boot.limits?.source_kib ?? 64) * 1024; // bytes; a short link can hold a very long text
const PROGRAM = /^\s*(?:(?:#|\/\/).*\n\s*)*program\s+\w+\s*\(/;
const KINDS = ["module", "program"];
const NAMED = /^#(module|program|draft)=(.*)$/s;

/** The text in letters that an address may hold, deflated. */
async function packed(text) {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const letters = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return letters.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The text of `packed`. Rejects what is none, and what is longer than MOST. */
async function unpacked(letters) {
  const raw = atob(letters.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(raw, (letter) => letter.charCodeAt(0));
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  const parts = [];
  for (let size = 0; ; ) {
    const { done, value } = await reader.read();
    if (done) return new Blob(parts).text();
    size += value.length;
    if (size > MOST) throw new RangeError("the text is too long");
    parts.push(value);
  }
}

/** {kind, text} of an address's part after # by its name and its value; rejects a text that cannot be read. */
async function arriving(name, value) {
  if (name !== "draft") return { kind: name, text: decodeURIComponent(value) };
  const [kind, letters] = value.split(".");
  if (!KINDS.includes(kind)) throw new TypeError("no kind of text");
  return { kind, text: await unpacked(letters ?? "") };
}

async function fromLink(take) {
  const [, name, value] = NAMED.exec(location.hash) ?? [];
  if (!name) return;
  history.replaceState(null, "", location.pathname + location.search);
  try {
    const { kind, text } = await arriving(name, value);
    if (text.trim()) take(kind, `${text.trimEnd()}\n`, name === "draft");
  } catch {
    toast("The text in this link cannot be read; a part of the link may be missing.");
  }
}

async function fromFile(take, [file, another]) {
  if (!file) return;
  if (another) return toast("One file at a time: the editor holds one text.");
  if (file.size > MOST)
    return toast(`${file.name} has ${Math.ceil(file.size / 1024)} KiB; the limit is ${MOST / 1024} KiB.`);
  const text = await file.text().catch(() => "\0"); // a folder is no file either
  if (/[\0\ufffd]/.test(text)) return toast(`${file.name} is not a text.`);
  if (!text.trim()) return toast(`${file.name} is empty.`);
  take(file.name.endsWith(".ucutlass") || PROGRAM.test(text) ? "program" : "module", text, true);
}

/** `take(kind, text, foreign)` puts a text into the editor, as an edit; `foreign`: the visitor may not expect it.
    `draft()` is the editor's {kind, text}. */
export function carry(take, draft) {
  const file = $("draft-file");
  $("draft-open").addEventListener("click", () => file.click());
  file.addEventListener("change", async () => {
    await fromFile(take, file.files);
    file.value = ""; // the same file may be opened again
  });
  takeDrops($("editor"), (files) => fromFile(take, files));
  $("draft-link").addEventListener("click", async () => {
    const { kind, text } = draft();
    if (!text.trim()) return toast("There is no text to share yet.");
    const link = new URL(`/#draft=${kind}.${await packed(text)}`, location.href).href;
    return copy(link, "Link copied: it holds this text.");
  });
  addEventListener("hashchange", () => fromLink(take));
  return fromLink(take);
}
