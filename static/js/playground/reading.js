// One text is read by an engine, which traces it in its sandbox and prices its graph.
import { request } from "../page.js";

const EVERY = 350; // ms between two looks for the answer

const path = (id) => `/api/limits/${encodeURIComponent(id)}`;
const forget = (id) => fetch(path(id), { method: "DELETE", keepalive: true }).catch(() => {});

/** The reading of a text, done or failed, as /api/limits gives it. `asked()`: {gpu, classes}; `waits(state)` is called
    before each wait. Rejects as `request` does; when `signal` is aborted, the engine is told to forget the text. */
export async function read(text, asked, signal, waits = () => {}) {
  const { id } = await request("/api/limits", { body: { text }, signal });
  let ended = false;
  const stop = () => { if (!ended) forget(id); };
  signal.addEventListener("abort", stop);
  try {
    for (;;) {
      signal.throwIfAborted();
      const { gpu, classes } = asked();
      const query = new URLSearchParams([["gpu", gpu], ...classes.map((c) => ["classes", c])]);
      const reading = await request(`${path(id)}?${query}`, { signal });
      if (reading.state === "done" || reading.state === "failed") { ended = true; return reading; }
      waits(reading.state);
      await new Promise((resolve) => setTimeout(resolve, EVERY));
    }
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
