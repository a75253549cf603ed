// The sessions that were started in this browser, with their control links: kept here and nowhere else.
const KEY = "ucutlass-started";
const MOST = 200;

/** [{id, title, control, created}], the newest first. `control`: the path of the control link. */
export function started() {
  try {
    const rows = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(rows) ? rows.filter((r) => r?.id && r?.control) : [];
  } catch {
    return [];
  }
}

function store(rows) {
  try {
    localStorage.setItem(KEY, JSON.stringify(rows.slice(0, MOST)));
  } catch {
    /* private mode: this browser forgets its sessions */
  }
}

/** Remembers the session of a control link's page. */
export function remember({ session, control }) {
  if (!control) return;
  const { pathname } = new URL(control.url, location.href);
  const row = { id: session.id, title: session.title, control: pathname, created: session.created };
  store([row, ...started().filter((r) => r.id !== row.id)].sort((a, b) => b.created - a.created));
}

export function forget(id) {
  store(started().filter((r) => r.id !== id));
}
