// The navigation between views, if there is more than one.

import { fetchDatasets } from "./api.js";
import { setKeys } from "./keys.js";
import { onChange } from "./live.js";
import { listRoute } from "./neighbours.js";
import { go } from "./router.js";

// Shows the link to the iterations once a dataset has an iteration.
export function offerPlaces() {
  const places = document.getElementById("places");
  const look = async () => {
    const datasets = await fetchDatasets().catch(() => []); // The view reports the error itself.
    if (!places.hidden || !datasets.some(({ iteration }) => iteration !== null)) return;
    places.hidden = false;
    endLooking();
    setKeys("places", [
      { keys: ["i"], shown: "i", does: "Iterations", run: () => go({ view: "iterations", params: {} }) },
      { keys: ["e"], shown: "e", does: "Episodes", run: () => go(listRoute()) },
    ]);
  };
  const endLooking = onChange(look);
  look();
}

// Marks the current view.
export function markPlace(view) {
  const names = { list: "#/", iterations: "#/iterations" };
  for (const link of document.querySelectorAll("#places a")) {
    if (link.getAttribute("href") === names[view]) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}
