// One episode: steps on the left, the page in the middle, the step's details on the right.

import { aboutTab } from "./about.js";
import { pageTab } from "./axtree_diff.js";
import { fill, h, icon, said, saidBlock } from "./dom.js";
import { count, duration, number, outcomeBadge, short, stateOf } from "./format.js";
import { jsonTree } from "./json_tree.js";
import { judgeTab } from "./judge.js";
import { modelTab } from "./model.js";
import { countProblems, problemsTab, stepProblems } from "./problems.js";
import { formatRoute } from "./router.js";
import { shot } from "./shot.js";
import { tabbed } from "./tabs.js";
import { timeline } from "./timeline.js";

const TABS = [["page", "Page"], ["model", "Model"], ["judge", "Judge"], ["errors", "Errors"], ["about", "Episode"], ["raw", "Raw"]];

// Returns the tabs that have something to show.
function tabsOf(episode) {
  const empty = {
    model: !episode.steps.some(({ decision: one }) => one && (one.calls?.length || one.thought || one.memory || one.parse_error)),
    judge: !episode.judgements?.length,
    errors: countProblems(episode) === 0,
  };
  return TABS.filter(([name]) => !empty[name]);
}

// Returns an episode's view: {element, update(route), grow(episode), keys}.
//
// `grow` adds the new steps of a running episode and leaves the rest as a person has it; it returns
// false if that is not enough.
//
// `go` is called with the changed parts of the route: {step} or {params}. `extras` has the header's
// elements that need a server: {back, actions, noted}.
export function episodePanes(episode, route, go, extras = {}) {
  const steps = episode.steps;
  let at = { position: 0, side: "before", tab: "page", page: "tree" };
  let now = route;
  const hrefOf = (position) => formatRoute({ ...now, step: position });
  const linkTo = (id) => (extras.actions ? formatRoute({ view: "episode", dataset: route.dataset, id }) : null);
  const openStep = (position) => go({ step: Math.max(0, Math.min(steps.length - 1, position)) });
  const setParam = (name, value) => go({ params: { [name]: value } });

  const facts = h("p", { class: "facts" }, factsOf(episode));
  let times = timeline(episode, hrefOf, openStep);
  const pictures = shot((side) => setParam("shot", side === "before" ? "" : side));
  const titles = tabsOf(episode);
  const tabs = tabbed(titles, (name) => setParam("tab", name === "page" ? "" : name));
  const action = h("div", { class: "action-card", tabindex: 0, role: "group", aria: { live: "polite", label: "Action" } });
  const middle = h("section", { class: "middle", aria: { label: "Page" } }, pictures.element, action);
  const nothing = h("p", { class: "nothing" }, "This episode has no steps.");
  const panes = h("div", { class: "panes" }, times.element, steps.length > 0 ? middle : h("section", { class: "middle" }, nothing), tabs.element);
  const element = h("div", { class: "view episode" }, episodeHeader(episode, facts, extras), panes);

  const contents = {
    page: (step, { position, side, page }) => (step ? pageTab(steps, position, side, page, (name) => setParam("page", name === "tree" ? "" : name)) : nothing.cloneNode(true)),
    model: (step) => modelTab(step),
    judge: () => judgeTab(episode),
    errors: () => problemsTab(episode, hrefOf),
    about: () => aboutTab(episode, linkTo),
    raw: (step) => h("div", { class: "raw" }, h("h3", {}, step ? `Step ${step.index}` : "Steps"), jsonTree(step ?? []), h("h3", {}, "Episode"), jsonTree({ ...episode, steps: `${steps.length} steps` })),
  };

  const update = (to) => {
    now = to;
    const position = Math.max(0, Math.min(steps.length - 1, to.step ?? 0));
    const side = to.params.shot === "after" ? "after" : "before";
    const page = to.params.page === "changes" ? "changes" : "tree";
    const tab = titles.some(([name]) => name === to.params.tab) ? to.params.tab : "page";
    at = { position, side, page, tab };
    times.show(position);
    // Without a single picture, the page's text gets the room.
    panes.classList.toggle("plain", steps.length > 0 && !steps.some((step) => step.image));
    if (steps.length > 0) pictures.show(steps, position, side);
    fill(action, steps[position] && actionCard(steps[position]));
    tabs.show(tab, contents[tab](steps[position], at));
  };
  tabs.setCount("errors", countProblems(episode));
  tabs.setCount("judge", episode.judgements?.length ?? 0);
  update(route);

  const keys = [
    { keys: ["j", "ArrowDown", "ArrowRight"], shown: "j ↓", does: "Next step", run: () => openStep(at.position + 1) },
    { keys: ["k", "ArrowUp", "ArrowLeft"], shown: "k ↑", does: "Previous step", run: () => openStep(at.position - 1) },
    { keys: ["Home"], shown: "Home", does: "First step", run: () => openStep(0) },
    { keys: ["End"], shown: "End", does: "Last step", run: () => openStep(steps.length - 1) },
    { keys: ["b"], shown: "b", does: "Page before or after the action", run: () => setParam("shot", at.side === "before" ? "after" : "") },
    { keys: ["d"], shown: "d", does: "Show the action's changes", run: () => go({ params: { tab: "", page: at.page === "tree" ? "changes" : "" } }) },
    { keys: ["t"], shown: "t", does: "Next tab", run: () => setParam("tab", tabs.next() === "page" ? "" : tabs.next()) },
  ];
  const grow = (found) => {
    const isMore = !found.end && steps.length > 0 && found.steps.length >= steps.length;
    if (!isMore || String(tabsOf(found)) !== String(titles)) return false;
    steps.push(...found.steps.slice(steps.length));
    Object.assign(episode, found, { steps });
    fill(facts, factsOf(episode));
    tabs.setCount("errors", countProblems(episode));
    const { element: before } = times;
    const { scrollTop } = before;
    const focused = [...before.querySelectorAll("a")].indexOf(document.activeElement);
    times = timeline(episode, hrefOf, openStep);
    before.replaceWith(times.element);
    times.show(at.position);
    times.element.scrollTop = scrollTop;
    if (focused >= 0) times.element.querySelectorAll("a")[focused].focus({ preventScroll: true });
    return true;
  };
  return { element, update, grow, keys };
}

function factsOf(episode) {
  const { info = {}, end } = episode;
  const policy = [info.policy, versionOf(episode)].filter(Boolean).join(" · ");
  return [
    outcomeBadge(stateOf(episode)),
    h("span", {}, "reward ", h("b", {}, number(episode.total_reward))),
    h("span", {}, count(episode.num_steps ?? Math.max(0, episode.steps.length - 1), "step")),
    Number.isFinite(episode.seconds) && h("span", {}, duration(episode.seconds)),
    policy && h("span", {}, said(short(policy, 120))),
    end && h("span", {}, "end ", said(String(end.reason).replaceAll("_", " "))),
    info.group && h("span", {}, `attempt ${number(info.attempt)}`),
  ];
}

function episodeHeader({ info = {}, id, end }, facts, { back = null, actions = null, noted = null }) {
  const error = end?.error;
  return h(
    "header",
    { class: "episode-head" },
    h("div", { class: "title-line" }, back, h("h1", {}, said(short(info.task || id, 200))), actions),
    info.goal && goalLine(info.goal),
    facts,
    error && h("p", { class: "error-line" }, said(short(`${error.type}: ${error.message}`, 160))),
    noted,
  );
}

// A long goal scrolls, so the keyboard must reach it.
function goalLine(goal) {
  const text = short(goal, 1_000);
  const reached = text.length > 200 ? { tabindex: 0, role: "group", aria: { label: "Goal" } } : {};
  return h("div", { class: "goal", ...reached }, said(text));
}

function versionOf(episode) {
  const calls = episode.steps.flatMap((step) => step.decision?.calls ?? []);
  const versions = new Set(calls.map((call) => call.policy_version).filter(Boolean));
  return versions.size > 1 ? `${versions.size} weights` : ([...versions][0] ?? "");
}

function actionCard(step) {
  if (!step.action) {
    return h("p", { class: "action-text" }, h("b", {}, step.index === 0 ? "Start of the episode." : "No action was recorded."));
  }
  const problems = stepProblems(step);
  const { text, role, name } = step.action;
  const element = [role, name && JSON.stringify(name)].filter(Boolean).join(" ");
  return [
    h("p", { class: "action-text" }, h("b", {}, `Step ${step.index}`), " ", h("code", { class: "said", dir: "auto" }, short(text, 600))),
    element && h("p", { class: "action-element" }, "on ", said(short(element, 200))),
    problems.map(({ kind, text: words }) => h("p", { class: "error-line" }, icon("M8 1.5 15 14H1z M8 6v4 M8 12v.5"), `${kind}: `, said(short(words, 600)))),
    step.decision?.thought && saidBlock(short(step.decision.thought, 1_200), "prose thought"),
  ];
}
