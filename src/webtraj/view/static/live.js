// Poll for changes in datasets that are still being written.

import { fetchChanges } from "./api.js";

const EVERY = 2_000;
const AT_MOST_EVERY = 30_000;
const listeners = new Set();
let since = "";
let timer = 0;
let wait = EVERY;

// Calls `listener(changes)` on changes; returns a function that stops it.
export function onChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

// Starts polling while the page is visible. Polls less often while the server does not respond.
export function watchChanges() {
  document.addEventListener("visibilitychange", () => schedule(0));
  schedule(0);
}

function schedule(delay) {
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(ask, delay);
}

async function ask() {
  try {
    const changes = await fetchChanges(since);
    const changed = since !== "" && String(changes.version) !== since;
    since = String(changes.version);
    wait = EVERY;
    if (changed) for (const listener of [...listeners]) listener(changes);
  } catch {
    wait = Math.min(wait * 2, AT_MOST_EVERY);
  }
  schedule(wait);
}
