// The previous and next episode: in the list that it was opened from, else among its task's.

import { fetchEpisodes } from "./api.js";
import { h, icon } from "./dom.js";
import { formatRoute, go } from "./router.js";

const LOOKED_THROUGH = 1_000;
let lastList = {};
let list = { query: {}, index: null, dataset: "", id: "" };

// Stores the list, and the position in it, that an episode was opened from.
export function rememberPlace(query, index, dataset, id) {
  list = { query, index, dataset, id };
}

// Returns the row of the episode `by` places from one, or null where the list ends.
//
// Rows come and go while a dataset is written, so the episode is looked for around its last place.
export async function neighbourOf(dataset, id, task, by) {
  if (list.dataset !== dataset || list.id !== id) {
    list = { query: { dataset, task, sort: "start_time" }, index: null, dataset, id };
  }
  const offset = Math.max(0, (list.index ?? 0) - LOOKED_THROUGH / 2);
  const { rows } = await fetchEpisodes(list.query, { offset, limit: LOOKED_THROUGH });
  let at = rows.findIndex((row) => row.dataset === dataset && row.id === id);
  if (at < 0 && list.index === null) return null;
  // It has left the list, perhaps by its label: the next one has its place now.
  if (at < 0) at = list.index - offset - (by > 0 ? 1 : 0);
  const row = rows[at + by];
  if (!row) return null;
  list = { ...list, index: offset + at + by, dataset: row.dataset, id: row.id };
  return row;
}

// Stores the list's parameters, for returning to it.
export function rememberList(params) {
  lastList = params;
}

// Returns the route of the last list.
export function listRoute() {
  return { view: "list", params: lastList };
}

// Returns the link to the last list.
export function backLink() {
  return h("a", { href: formatRoute(listRoute()), class: "back" }, icon("M10 3 5 8 10 13"), "Episodes");
}

// The shortcut to the last list.
export const BACK_KEY = { keys: ["Escape", "u"], shown: "Esc", does: "Back to the list", run: () => go(listRoute()) };
