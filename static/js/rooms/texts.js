// What a room's pages say of a refusal, and where their links lead, in the reader's language.
import { boot } from "../page.js";
import { sentence } from "../texts.js";

/** A path of the site, in the language that the reader chose. */
export const inLanguage = (path) => (boot.language && boot.language !== "en" ? `${path}?lang=${boot.language}` : path);

/** Why a request was refused, and the way out: {message, fix} of an error. */
export const reasonOf = (e) => `${sentence(e.message)} ${e.fix ? sentence(e.fix) : ""}`.trim();
