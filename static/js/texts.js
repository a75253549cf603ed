// The words of a page in the reader's language: boot.texts has the English ones as its keys, as gettext does. What it
// lacks stays in English, and so does every page without boot.texts. boot.sentences has those that the server writes.
import { boot, coded, h } from "./page.js";

const texts = boot.texts ?? {};
const sentences = boot.sentences ?? {};

/** "one {a} two" with a value for each name in braces. */
export const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));

/** A text in the reader's language, with a value for each name in braces. */
export const tr = (text, values = {}) => fill(texts[text] ?? text, values);

/** The same with a node for one of the names: the words before it, the node, and the words after it. */
export function around(text, name, node) {
  const [before, after] = (texts[text] ?? text).split(`{${name}}`);
  return [before, node, after];
}

/** "1 trial" or "7 trials": the text for one, or the one with {n}. */
export const counted = (n, one, many) => (n === 1 ? tr(one) : tr(many, { n: n.toLocaleString("en") }));

/** A text of the log as a node, in English whatever language the page speaks. */
export const logged = (text) =>
  h("span", { lang: document.documentElement.lang === "en" ? null : "en" }, coded(text));

const patterns = Object.keys(sentences).filter((text) => text.includes("{")).map((text) => {
  const names = [...text.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
  const parts = text.split(/\{\w+\}/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return { text, names, form: new RegExp(`^${parts.join("(.+?)")}$`) };
});

const MEMORY = 4000; // sentences
const known = new Map();

/** English sentences that the server wrote, in the reader's language: their values are read from them, and a value may
 *  be such a sentence itself. */
export function sentence(text) {
  if (!known.has(text)) {
    if (known.size >= MEMORY) known.clear();
    known.set(text, translation(text));
  }
  return known.get(text);
}

const BETWEEN = /(?<=\.) (?=[A-Z])/; // two sentences

/** The translation by the first pattern whose values fit `may`, or null. */
function byPattern(text, may) {
  for (const { text: english, names, form } of patterns) {
    const values = form.exec(text)?.slice(1);
    if (values && may(values))
      return fill(sentences[english], Object.fromEntries(names.map((name, i) => [name, sentence(values[i])])));
  }
  return null;
}

/** A value that runs over the end of a sentence is taken only where the sentences by themselves have no translation. */
function translation(text) {
  if (sentences[text]) return sentences[text];
  const whole = byPattern(text, (values) => !values.some((value) => BETWEEN.test(value)));
  if (whole !== null) return whole;
  const parts = text.split(BETWEEN), translated = parts.map((part) => (parts.length > 1 ? sentence(part) : part));
  if (translated.some((part, i) => part !== parts[i])) return translated.join(" ");
  return byPattern(text, () => true) ?? text;
}

/** Data with each text in it as `sentence` gives it: a figure of the server, for example. */
export function translated(data) {
  if (!Object.keys(sentences).length) return data;
  if (typeof data === "string") return sentence(data);
  if (Array.isArray(data)) return data.map(translated);
  return data && typeof data === "object"
    ? Object.fromEntries(Object.entries(data).map(([key, value]) => [key, translated(value)])) : data;
}
