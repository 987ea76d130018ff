// The views that one can go to from any other, where there is more than one.

import { fetchDatasets } from "./api.js";
import { setKeys } from "./keys.js";
import { onChange } from "./live.js";
import { listRoute } from "./neighbours.js";
import { go } from "./router.js";

// Offers the iterations as soon as there is a dataset of one.
export function offerPlaces() {
  const places = document.getElementById("places");
  const look = async () => {
    const datasets = await fetchDatasets().catch(() => []); // The view itself says what is wrong.
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

// Says which view is looked at.
export function markPlace(view) {
  const names = { list: "#/", iterations: "#/iterations" };
  for (const link of document.querySelectorAll("#places a")) {
    if (link.getAttribute("href") === names[view]) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}
