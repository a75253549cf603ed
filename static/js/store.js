// What a page keeps in this browser. Where the browser refuses (its storage is blocked or full), the page keeps it.
const memory = new Map();

/** The text of a key, or null. */
export function recall(key) {
  if (memory.has(key)) return memory.get(key);
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** The data of a key; `otherwise` if there is none, or none that can be read. */
export function recallData(key, otherwise) {
  try {
    return JSON.parse(recall(key)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** Keeps a text under a key. Returns whether it outlives the page. */
export function keep(key, text) {
  try {
    localStorage.setItem(key, text);
    memory.delete(key);
    return true;
  } catch {
    memory.set(key, text);
    return false;
  }
}

export function drop(key) {
  memory.delete(key);
  try {
    localStorage.removeItem(key);
  } catch {
    /* nothing is there */
  }
}
