// Helpers for every page: elements, requests with errors in words, a message to the reader.

/** boot: the one object that the server put into the page. */
export const boot = JSON.parse(document.getElementById("boot")?.textContent ?? "{}");
export const $ = (id) => document.getElementById(id);

/** h("button", {class: "x", onclick: f, "aria-label": "…"}, "text", node, ...): text is never parsed as HTML. */
export function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(node.style, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}

/** A text of ours as nodes: what is between backticks is code. Without pairs, or with a fence, it stays whole. */
export function coded(text) {
  const parts = text.split("`");
  if (parts.length % 2 === 0 || text.includes("```")) return [text];
  return parts.map((part, i) => (i % 2 ? h("code", {}, part) : part));
}

/** What an error says, and the way out, as nodes. */
export const explained = (e) => coded(`${e.message} ${e.fix ?? ""}`.trim());

/** An error with a sentence for a person: {message, fix, data}. */
export class Told extends Error {
  constructor(message, fix = "", status = 0, data = {}) {
    super(message);
    Object.assign(this, { fix, status, data });
  }
}

/** GET, or POST when there is a body. Raises Told. */
export async function request(path, { body, headers = {}, signal } = {}) {
  let reply;
  try {
    reply = await fetch(
      path,
      body === undefined
        ? { headers, signal }
        : {
            method: "POST",
            signal,
            headers: { "Content-Type": "application/json", ...headers },
            body: JSON.stringify(body),
          },
    );
  } catch (e) {
    if (e.name === "AbortError") throw e;
    const written = body && ("text" in body || "source" in body);
    throw new Told("The server does not answer.",
      written ? "Your text is kept here. Try again in a moment." : "Try again in a moment.");
  }
  const text = await reply.text();
  let data; // null is a valid answer
  if (reply.headers.get("Content-Type")?.includes("json")) {
    try {
      data = JSON.parse(text);
    } catch {
      /* reported below */
    }
  }
  if (!reply.ok)
    throw new Told(data?.error ?? `The server answered ${reply.status}.`, data?.fix ?? "", reply.status, data ?? {});
  return data === undefined ? text : data;
}

const BLOBS = 64; // texts that are kept, the last ones asked for: a person steps through hundreds of trials
const blobs = new Map();
/** The address of a text of the session that the page shows. */
export const blobUrl = (sha) => `/api/sessions/${encodeURIComponent(boot.session.id)}/blobs/${sha}`;
/** The text of a blob; its name is its hash, so an answer stays valid. */
export function blob(sha) {
  if (!blobs.has(sha)) {
    const wanted = request(blobUrl(sha)).then((t) => (typeof t === "string" ? t : JSON.stringify(t)));
    wanted.catch(() => blobs.delete(sha));
    blobs.set(sha, wanted);
    if (blobs.size > BLOBS) blobs.delete(blobs.keys().next().value);
  }
  return blobs.get(sha);
}

/** Answer a form's submit. Its button is disabled until then: sent without its script, a form would load the page
 *  anew. */
export function answer(form, onSubmit) {
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    onSubmit();
  });
  for (const button of form.querySelectorAll("[type=submit]")) button.disabled = false;
}

let toastTimer;
export function toast(text) {
  $("toast").replaceChildren(h("div", {}, coded(text)));
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => $("toast").replaceChildren(), 3500);
}

/** Shows what waited for this page's script (`data-late`), once it is laid out. */
export function arrived() {
  const frame = () => new Promise(requestAnimationFrame);
  return frame().then(frame).then(() => {
    for (const node of document.querySelectorAll("[data-late]")) node.removeAttribute("data-late");
  });
}

/** Copies, also over plain http, where the clipboard API is missing. */
export async function copy(text, done) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { class: "sr", readonly: true });
    area.value = text;
    document.body.append(area);
    area.select();
    const worked = document.execCommand("copy");
    area.remove();
    if (!worked) {
      toast(text);
      return;
    }
  }
  toast(done);
}

/** A button that copies `text()`. `label` names it, `done` is said afterwards. */
export const copyButton = (id, { shown, label, done }, text) =>
  h("button", { type: "button", class: "button copy", id, "aria-label": label, title: label,
    onclick: () => copy(text(), done) }, shown);

/** Arrow keys within a role=tablist; `choose(tab)` is called with the tab to select. */
export function tablist(list, choose) {
  list.addEventListener("click", (e) => {
    const tab = e.target.closest('[role="tab"]');
    if (tab) choose(tab);
  });
  list.addEventListener("keydown", (e) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (!step) return;
    const tabs = [...list.querySelectorAll('[role="tab"]')];
    const next = tabs[(tabs.indexOf(e.target) + step + tabs.length) % tabs.length];
    e.preventDefault();
    choose(next);
    next.focus();
  });
}

export function select(list, chosen) {
  for (const tab of list.querySelectorAll('[role="tab"]')) {
    tab.setAttribute("aria-selected", String(tab === chosen));
    tab.tabIndex = tab === chosen ? 0 : -1;
  }
}

/** Calls `f` once, `ms` after the last call. */
export function debounce(f, ms) {
  let timer;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => f(...args), ms);
  };
}

/** Calls `f` at once and then at most every `ms` (a number, or a function that returns one), and never drops the last
 *  call. `last`: when it was called before. */
export function throttle(f, ms, last = -Infinity) {
  let timer = null;
  const fire = () => {
    timer = null;
    last = performance.now();
    f();
  };
  return () => {
    const pause = typeof ms === "function" ? ms() : ms;
    if (timer === null) timer = setTimeout(fire, Math.max(0, last + pause - performance.now()));
  };
}
