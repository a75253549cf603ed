// What a student did, kept in this browser alone:
// {slug: {step, answers: {stepId: {answer, right, first}}, sessions: {stepId: {id, control}}}}.
import { drop, keep, recallData } from "../store.js";

const KEY = "ucutlass.lessons";

function all() {
  const rows = recallData(KEY, {});
  return typeof rows === "object" ? rows : {};
}

export const progress = (slug) => all()[slug] ?? {};

/** Changes the progress of a lesson. Private windows refuse to store: then it lasts as long as the page. */
export function store(slug, change) {
  const rows = all();
  rows[slug] = { ...rows[slug], ...change };
  keep(KEY, JSON.stringify(rows));
}

export function forget() {
  drop(KEY);
}
