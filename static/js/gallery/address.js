// What a person chose on the page (filters, order, class), kept in its address, so that a link shows the same.

/** The value of a name in the address; "" if it has none. */
export const chosen = (name) => new URLSearchParams(location.search).get(name) ?? "";

/** Write values into the address; empty ones leave it. The others stay, and nothing is added to the history. */
export function remember(values) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  history.replaceState(history.state, "", `${location.pathname}${text ? `?${text}` : ""}${location.hash}`);
}

/** Give a field the address's value (if it is one of a select's) and write each change back, before `changed`. */
export function bind(field, name, changed) {
  const value = chosen(name);
  if (field.tagName !== "SELECT" || [...field.options].some((option) => option.value === value)) field.value = value;
  field.addEventListener("input", () => {
    remember({ [name]: field.value.trim() });
    changed();
  });
}
