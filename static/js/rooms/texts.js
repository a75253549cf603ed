// The words of the teacher's pages, and the refusals of the API, in the reader's language. boot.texts has the English
// ones as its keys; what it lacks stays in English.
import { boot } from "../page.js";
import { fill } from "../learn/parts.js";

const texts = boot.texts ?? {};

/** A text in the reader's language, with a value for each name in braces. */
export const tr = (text, values = {}) => fill(texts[text] ?? text, values);

/** A path of the site, in the language that the reader chose. */
export const inLanguage = (path) => (boot.language && boot.language !== "en" ? `${path}?lang=${boot.language}` : path);

const patterns = Object.keys(texts).filter((text) => text.includes("{")).map((text) => {
  const names = [...text.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
  const parts = text.split(/\{\w+\}/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return { text, names, form: new RegExp(`^${parts.join("(.+?)")}$`) };
});

function sentence(text) {
  if (texts[text]) return texts[text];
  for (const { text: english, names, form } of patterns) {
    const match = form.exec(text);
    if (match) return tr(english, Object.fromEntries(names.map((name, i) => [name, match[i + 1]])));
  }
  return text;
}

/** Why a request was refused, and the way out: {message, fix} of an error. */
export const reasonOf = (e) => `${sentence(e.message)} ${e.fix ? sentence(e.fix) : ""}`.trim();
