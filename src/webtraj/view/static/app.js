// The viewer: shows the view for each route, and the controls around it.
//
// Without a server, the page embeds an episode or a report in an element and shows that.

import { compareView } from "./compare.js";
import { episodePanes } from "./episode.js";
import { h } from "./dom.js";
import { listenToKeys, setKeys, showHelp } from "./keys.js";
import { iterationsView } from "./iterations.js";
import { listView } from "./list.js";
import { watchChanges } from "./live.js";
import { failureNotice, notify } from "./notices.js";
import { runView } from "./run.js";
import { markPlace, offerPlaces } from "./places.js";
import { reportView } from "./report.js";
import { go, watchRoute } from "./router.js";
import { episodeView } from "./served.js";
import { nextTheme, restoreTheme } from "./theme.js";

const VIEWS = { list: listView, episode: episodeView, compare: compareView, iterations: iterationsView, run: runView };

function begin() {
  restoreTheme();
  const theme = () => notify(`Theme: ${{ auto: "system", light: "light", dark: "dark" }[nextTheme()]}`);
  document.getElementById("theme").addEventListener("click", theme);
  document.getElementById("help-button").addEventListener("click", showHelp);
  setKeys("all", [
    { keys: ["?"], shown: "?", does: "Show shortcuts", run: showHelp },
    { keys: ["L"], shown: "L", does: "Change theme", run: theme },
  ]);
  listenToKeys();
  const embedded = document.getElementById("page-data");
  if (embedded) showEmbedded(embedded);
  else {
    showServed();
    offerPlaces();
    watchChanges();
  }
}

function showServed() {
  const main = document.getElementById("main");
  let view = null;
  let shown = "";
  watchRoute((route) => {
    markPlace(route.view);
    const key = identityOf(route);
    if (key === shown) {
      view.update(route);
      return;
    }
    view?.leave();
    shown = key;
    view = VIEWS[route.view](route);
    main.replaceChildren(view.element);
    if (route.view === "list") view.element.querySelector(".grid").focus({ preventScroll: true });
    else main.focus({ preventScroll: true });
  });
}

function identityOf(route) {
  if (route.view === "episode") return JSON.stringify([route.dataset, route.id]);
  if (route.view === "compare") return JSON.stringify([route.left, route.right]);
  return route.view;
}

function showEmbedded(element) {
  const main = document.getElementById("main");
  let data;
  try {
    data = JSON.parse(element.textContent);
  } catch (error) {
    main.replaceChildren(failureNotice("This file is damaged", error));
    return;
  }
  if (data.kind === "report") showReport(main, data);
  else showEpisode(main, data);
}

function showReport(main, report) {
  const view = reportView(report);
  main.replaceChildren(view.element);
  view.draw();
}

function showEpisode(main, episode) {
  document.title = `${episode.info?.task || episode.id} · webtraj`;
  let now = null;
  let panes = null;
  const change = ({ step = now.step, params = {} }) => go({ ...now, step, params: { ...now.params, ...params } }, { replace: true });
  watchRoute((route) => {
    now = { view: "episode", dataset: "this", id: episode.id, step: route.step ?? null, params: route.params };
    if (panes) panes.update(now);
    else {
      panes = episodePanes(episode, now, change);
      main.replaceChildren(h("div", { class: "view" }, panes.element));
      setKeys("view", panes.keys);
    }
  });
}

begin();
