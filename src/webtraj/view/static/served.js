// An episode's view with a server: labels, neighbours, comparison, and live updates.

import { datasetAt, fetchEpisode } from "./api.js";
import { chooseOther } from "./compare.js";
import { fill, h, icon } from "./dom.js";
import { episodePanes } from "./episode.js";
import { short } from "./format.js";
import { setKeys } from "./keys.js";
import { labelButtons } from "./labels.js";
import { onChange } from "./live.js";
import { BACK_KEY, backLink, neighbourOf } from "./neighbours.js";
import { failureNotice, notify } from "./notices.js";
import { go } from "./router.js";

// Returns the view: {element, update(route), leave()}.
export function episodeView(route) {
  const element = h("div", { class: "view" }, h("p", { class: "loading", role: "status" }, "Loading the episode…"));
  let now = route;
  let panes = null;
  let episode = null;
  let gone = false;

  const change = ({ step = now.step, params = {} }) => {
    go({ ...now, step, params: { ...now.params, ...params } }, { replace: true });
  };
  const show = () => {
    const labels = labelButtons(now.dataset, episode);
    const others = h("dialog", { class: "choose-dialog", aria: { label: "Compare with another episode" } });
    const compare = () => chooseOther(others, { dataset: now.dataset, id: now.id }, episode.info ?? {});
    const step = (by, path, words) => h("button", { type: "button", class: "icon-button", title: words, aria: { label: words }, on: { click: () => neighbour(by) } }, icon(path));
    const actions = h(
      "div",
      { class: "actions" },
      labels.element,
      h("button", { type: "button", on: { click: compare } }, "Compare…"),
      step(-1, "M10 3 5 8 10 13", "Previous episode"),
      step(1, "M6 3 11 8 6 13", "Next episode"),
      others,
    );
    panes = episodePanes(episode, now, change, { back: backLink(), actions, noted: labels.noted });
    fill(element, panes.element);
    setKeys("view", [
      ...panes.keys,
      ...labels.keys,
      { keys: ["["], shown: "[", does: "Previous episode", run: () => neighbour(-1) },
      { keys: ["]"], shown: "]", does: "Next episode", run: () => neighbour(1) },
      { keys: ["c"], shown: "c", does: "Compare with another episode", run: compare },
      BACK_KEY,
    ]);
    document.title = `${short(episode.info?.task || episode.id, 80)} · webtraj`;
  };
  const neighbour = async (by) => {
    try {
      const row = await neighbourOf(now.dataset, now.id, episode.info?.task ?? "", by);
      if (!row) notify(by > 0 ? "This is the last episode in the list." : "This is the first episode in the list.");
      else if (!gone) go({ view: "episode", dataset: row.dataset, id: row.id, params: now.params });
    } catch (error) {
      notify(error.message, { problem: true });
    }
  };
  const load = async () => {
    try {
      if (now.dataset.includes("/")) { // A place, in a report's link; names have no slash.
        const dataset = await datasetAt(now.dataset);
        if (!gone) go({ ...now, dataset }, { replace: true });
        return;
      }
      const found = await fetchEpisode(now.dataset, now.id);
      if (gone) return;
      episode = found;
      show();
    } catch (error) {
      if (!gone) fill(element, failureNotice("Could not load the episode", error, load, backLink()));
    }
  };
  // The last step of a running episode follows it; on an earlier step, nothing that is read moves.
  const refresh = async () => {
    if (!episode || episode.end || document.querySelector("dialog[open]")) return;
    const following = (now.step ?? 0) >= episode.steps.length - 1;
    const found = await fetchEpisode(now.dataset, now.id).catch(() => null);
    if (gone || found === null) return; // The next change asks again.
    if (!panes.grow(found)) {
      episode = found;
      show();
    }
    if (following && episode.steps.length > 0) change({ step: episode.steps.length - 1 });
  };
  const endListening = onChange(refresh);
  setKeys("view", [BACK_KEY]);
  load();
  return {
    element,
    update(to) {
      now = to;
      panes?.update(to);
    },
    leave() {
      gone = true;
      endListening();
      setKeys("view", []);
    },
  };
}
