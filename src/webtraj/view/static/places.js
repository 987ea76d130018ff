// The navigation between views, if there is more than one.

import { fetchDatasets } from "./api.js";
import { setKeys } from "./keys.js";
import { onChange } from "./live.js";
import { listRoute } from "./neighbours.js";
import { go } from "./router.js";

const OTHER_PLACES = {
  iterations: { key: "i", does: "Iterations", isThere: ({ iteration }) => iteration !== null },
  run: { key: "r", does: "Run", isThere: ({ runs }) => runs.length > 0 },
};

// Shows the links to the views that the datasets have something for.
export function offerPlaces() {
  const offered = new Set();
  const look = async () => {
    const datasets = await fetchDatasets().catch(() => []); // The view reports the error itself.
    for (const [view, { isThere }] of Object.entries(OTHER_PLACES)) if (datasets.some(isThere)) offered.add(view);
    if (offered.size === 0) return;
    document.getElementById("places").hidden = false;
    for (const view of offered) document.querySelector(`#places a[href="#/${view}"]`).hidden = false;
    if (offered.size === Object.keys(OTHER_PLACES).length) endLooking();
    const keys = [...offered].map((view) => ({
      keys: [OTHER_PLACES[view].key], shown: OTHER_PLACES[view].key, does: OTHER_PLACES[view].does,
      run: () => go({ view, params: {} }),
    }));
    setKeys("places", [...keys, { keys: ["e"], shown: "e", does: "Episodes", run: () => go(listRoute()) }]);
  };
  const endLooking = onChange(look);
  look();
}

// Marks the current view.
export function markPlace(view) {
  const names = { list: "#/", iterations: "#/iterations", run: "#/run" };
  for (const link of document.querySelectorAll("#places a")) {
    if (link.getAttribute("href") === names[view]) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}
