// The previous and next episode: in the list that it was opened from, else among its task's.

import { fetchEpisodes } from "./api.js";

const LOOKED_THROUGH = 1_000;
let lastList = {};
let list = { query: {}, index: null, dataset: "", id: "" };

// Stores the list, and the position in it, that an episode was opened from.
export function rememberPlace(query, index, dataset, id) {
  list = { query, index, dataset, id };
}

// Returns the row of the episode `by` places from one, or null where the list ends.
export async function neighbourOf(dataset, id, task, by) {
  if (list.dataset !== dataset || list.id !== id) {
    const query = { dataset, task, sort: "start_time" };
    list = { query, index: await placeIn(query, id), dataset, id };
  }
  const index = list.index + by;
  if (list.index === null || index < 0) return null;
  const { rows } = await fetchEpisodes(list.query, { offset: index, limit: 1 });
  if (rows.length === 0) return null;
  list = { ...list, index, dataset: rows[0].dataset, id: rows[0].id };
  return rows[0];
}

async function placeIn(query, id) {
  for (let offset = 0; offset < LOOKED_THROUGH; offset += 100) {
    const { rows } = await fetchEpisodes(query, { offset });
    const index = rows.findIndex((row) => row.id === id);
    if (index >= 0) return offset + index;
    if (rows.length < 100) return null;
  }
  return null;
}

// Stores the list's parameters, for returning to it.
export function rememberList(params) {
  lastList = params;
}

// Returns the route of the last list.
export function listRoute() {
  return { view: "list", params: lastList };
}
