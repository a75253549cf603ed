// The words of a page in the reader's language: boot.texts has the English ones as its keys, as gettext does. What it
// lacks stays in English, and so does every page without boot.texts. boot.sentences has those that the server writes.
import { boot } from "./page.js";

const texts = boot.texts ?? {};
const sentences = boot.sentences ?? {};

/** "one {a} two" with a value for each name in braces. */
export const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));

/** A text in the reader's language, with a value for each name in braces. */
export const tr = (text, values = {}) => fill(texts[text] ?? text, values);

const patterns = Object.keys(sentences).filter((text) => text.includes("{")).map((text) => {
  const names = [...text.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
  const parts = text.split(/\{\w+\}/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return { text, names, form: new RegExp(`^${parts.join("(.+?)")}$`) };
});

/** English sentences that the server wrote, in the reader's language: their values are read from them, and a value may
 *  be such a sentence itself. */
export function sentence(text) {
  if (sentences[text]) return sentences[text];
  for (const { text: english, names, form } of patterns) {
    const match = form.exec(text);
    if (match)
      return fill(sentences[english], Object.fromEntries(names.map((name, i) => [name, sentence(match[i + 1])])));
  }
  const parts = text.split(/(?<=\.) (?=[A-Z])/);
  return parts.length > 1 ? parts.map(sentence).join(" ") : text;
}

/** Data with each text in it as `sentence` gives it: a figure of the server, for example. */
export function translated(data) {
  if (!Object.keys(sentences).length) return data;
  if (typeof data === "string") return sentence(data);
  if (Array.isArray(data)) return data.map(translated);
  return data && typeof data === "object"
    ? Object.fromEntries(Object.entries(data).map(([key, value]) => [key, translated(value)])) : data;
}
