// Requests to the server. Responses are JSON; a failure is an ApiError with a message for people.

import { pairsOf } from "./router.js";

export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function request(path, options = {}) {
  let response;
  try {
    response = await fetch(new URL(path, document.baseURI), { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The viewer's server does not respond. Is `webtraj view` still running?", 0);
  }
  const body = await response.text();
  let data = null;
  try {
    data = body === "" ? null : JSON.parse(body);
  } catch {
    if (response.ok) throw new ApiError(`The server's response is not JSON: ${body.slice(0, 200)}`, response.status);
  }
  if (!response.ok) {
    const message = data?.error?.message ?? data?.error ?? data?.detail ?? body.slice(0, 300);
    throw new ApiError(String(message || `The server answered ${response.status}.`), response.status);
  }
  return data;
}

const placeOf = (dataset, id) => `${encodeURIComponent(dataset)}/${encodeURIComponent(id)}`;

export async function fetchDatasets() {
  return (await request("api/datasets")).datasets;
}

// Returns the name of the dataset at a place, as the links of reports name it.
export async function datasetAt(place) {
  const found = (await fetchDatasets()).find((dataset) => dataset.place === place);
  if (!found) throw new ApiError(notOpen(place), 404);
  return found.name;
}

// Returns the message for a dataset that the viewer does not show.
export function notOpen(dataset) {
  return `The dataset ${dataset} is not open in this viewer. Name it too: webtraj view ${dataset}`;
}

// Returns {total, offset, rows, facets} of the episodes that match a query.
export function fetchEpisodes(query, { offset = 0, limit = 100, signal = undefined } = {}) {
  const params = new URLSearchParams([...pairsOf(query), ["offset", offset], ["limit", limit]]);
  return request(`api/episodes?${params}`, { signal });
}

export function fetchEpisode(dataset, id) {
  return request(`api/episodes/${placeOf(dataset, id)}`);
}

// Returns the URL of a small image of an episode's last page; it may be empty.
export function thumbnailOf(dataset, id) {
  return `api/thumbnails/${placeOf(dataset, id)}`;
}

// Returns {series, tasks, left_out}: success by iteration.
export function fetchIterations() {
  return request("api/iterations");
}

// Returns the status of a dataset's run, the latest without an id.
export function fetchRun(dataset, run = "") {
  return request(`api/runs/${encodeURIComponent(dataset)}?run=${encodeURIComponent(run)}`);
}

// Returns a row of the run's plan, with its episodes.
export function fetchRunRow(dataset, run, row) {
  return request(`api/runs/${encodeURIComponent(dataset)}/rows/${row}?run=${encodeURIComponent(run)}`);
}

// Returns the changes in the datasets since an earlier response.
export function fetchChanges(since) {
  return request(`api/changes?since=${encodeURIComponent(since)}`);
}

// Stores a person's label. It is stored once this returns.
export function putLabel(dataset, id, label) {
  return request(`api/labels/${placeOf(dataset, id)}`, {
    method: "PUT",
    headers: { "Content-Type": "application/json", "X-Webtraj": "1" },
    body: JSON.stringify(label),
  });
}
