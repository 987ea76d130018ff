// Two episodes side by side, step by step, in one table so that they scroll together.

import { fetchEpisode, fetchEpisodes } from "./api.js";
import { alignSteps, deedOf } from "./alignment.js";
import { fill, h, said } from "./dom.js";
import { count, duration, number, outcomeBadge, short, stateOf, when } from "./format.js";
import { setKeys } from "./keys.js";
import { BACK_KEY, backLink } from "./neighbours.js";
import { failureNotice } from "./notices.js";
import { stepProblems } from "./problems.js";
import { formatRoute, go } from "./router.js";
import { picture, sideOf } from "./shot.js";
import { targetOf, verbOf } from "./timeline.js";

// Returns the view: {element, update(route), leave()}.
export function compareView(route) {
  const element = h("div", { class: "view compare" }, h("p", { class: "loading", role: "status" }, "Loading two episodes…"));
  let current = route;
  let shown = null;
  let gone = false;
  const load = async () => {
    try {
      const [left, right] = await Promise.all([current.left, current.right].map(({ dataset, id }) => fetchEpisode(dataset, id)));
      if (gone) return;
      shown = comparison(left, right, current);
      fill(element, shown.element);
      shown.update(current);
      setKeys("view", shown.keys(() => current));
      document.title = `${short(left.info?.task, 60)}, compared · webtraj`;
    } catch (error) {
      if (!gone) fill(element, failureNotice("Could not load the episodes to compare", error, load, backLink()));
    }
  };
  setKeys("view", [BACK_KEY]);
  load();
  return {
    element,
    update(to) {
      current = to;
      shown?.update(to);
    },
    leave() {
      gone = true;
      setKeys("view", []);
    },
  };
}

function comparison(left, right, route) {
  const table = h("div", { class: "pairs", tabindex: 0, role: "region", aria: { label: "Steps side by side" } });
  const modes = [["", "By order"], ["actions", "By action"]].map(([align, words]) =>
    h("button", { type: "button", data: { align }, on: { click: () => change({ params: { align } }) } }, words),
  );
  const tasks = new Set([left, right].map(({ info, id }) => info?.task || id));
  const swap = h("button", { type: "button", on: { click: () => go({ ...now, left: now.right, right: now.left }, { replace: true }) } }, "Swap");
  const element = h(
    "div",
    { class: "comparison" },
    h(
      "header",
      { class: "episode-head" },
      h(
        "div",
        { class: "title-line" },
        backLink(),
        h("h1", {}, [...tasks].map((task, i) => [i > 0 && " and ", said(short(task, 120))])),
        h("div", { class: "actions" }, h("div", { class: "segments", role: "group", aria: { label: "Align steps" } }, modes), swap),
      ),
      !samePage(left, right) && h("p", { class: "facts" }, "These episodes start from different pages: their task or seed differs."),
    ),
    h("div", { class: "sides" }, sideHead(left, route.left), sideHead(right, route.right)),
    table,
  );
  let now = route;
  let rows = [];
  let drawn = null;
  const change = ({ step = now.step, params = {} }) => go({ ...now, step, params: { ...now.params, ...params } }, { replace: true });
  const update = (to) => {
    now = to;
    const align = to.params.align === "actions";
    for (const button of modes) button.setAttribute("aria-pressed", String((button.dataset.align === "actions") === align));
    if (drawn !== align) {
      rows = alignSteps(left.steps, right.steps, align);
      fill(table, rows.map((row, i) => pairOf(row, i, left, right, to, change)));
      drawn = align;
    }
    const at = Math.max(0, Math.min(rows.length - 1, to.step ?? 0));
    [...table.children].forEach((row, i) => {
      if (i === at) row.setAttribute("aria-current", "step");
      else row.removeAttribute("aria-current");
    });
    if (to.step !== null) table.children[at]?.scrollIntoView({ block: "nearest" });
  };
  const move = (by) => change({ step: Math.max(0, Math.min(rows.length - 1, (now.step ?? 0) + by)) });
  const open = (side) => {
    const position = rows[now.step ?? 0]?.[side] ?? 0;
    go({ view: "episode", ...now[side], step: position, params: {} });
  };
  const keys = () => [
    { keys: ["j", "ArrowDown"], shown: "j ↓", does: "Next step of both", run: () => move(1) },
    { keys: ["k", "ArrowUp"], shown: "k ↑", does: "Previous step of both", run: () => move(-1) },
    { keys: ["a"], shown: "a", does: "Align by order or by action", run: () => change({ params: { align: now.params.align ? "" : "actions" } }) },
    { keys: ["1"], shown: "1", does: "Open the left episode at this step", run: () => open("left") },
    { keys: ["2"], shown: "2", does: "Open the right episode at this step", run: () => open("right") },
    BACK_KEY,
  ];
  return { element, update, keys };
}

// Whether both episodes play the same task with the same seed, so that their pages start equal.
function samePage({ info: one = {} }, { info: other = {} }) {
  return one.task === other.task && (one.seed ?? null) === (other.seed ?? null);
}

function sideHead(episode, place) {
  const { info = {} } = episode;
  const policy = [info.policy, info.group && `attempt ${info.attempt}`].filter(Boolean).join(" · ");
  return h(
    "section",
    { class: "side" },
    h("h2", {}, h("a", { href: formatRoute({ view: "episode", ...place }) }, said(short(place.dataset, 40)), " / ", said(episode.id))),
    h("p", { class: "goal" }, said(short(info.goal, 160))),
    h(
      "p",
      { class: "facts" },
      outcomeBadge(stateOf(episode)),
      h("span", {}, "reward ", h("b", {}, number(episode.total_reward))),
      h("span", {}, count(episode.num_steps ?? Math.max(0, episode.steps.length - 1), "step")),
      h("span", {}, duration(episode.seconds)),
      policy && h("span", {}, said(short(policy, 100))),
    ),
  );
}

function pairOf(row, index, left, right, route, change) {
  const one = left.steps[row.left];
  const other = right.steps[row.right];
  const same = one && other && deedOf(one) === deedOf(other) && (one.action || samePage(left, right));
  const select = (event) => event.target.closest("a") || change({ step: index });
  return h(
    "div",
    { class: "pair", data: { same: same ? "yes" : "no" }, on: { click: select } },
    cellOf(left, row.left, route.left),
    h("span", { class: "between", title: same ? "Same action" : "Different actions" }, same ? "=" : "≠"),
    cellOf(right, row.right, route.right),
  );
}

function cellOf(episode, position, place) {
  const step = episode.steps[position];
  if (!step) return h("div", { class: "pair-cell none" }, "no such step");
  const seen = sideOf(episode.steps, position, "before");
  const problems = stepProblems(step);
  const href = formatRoute({ view: "episode", ...place, step: position });
  return h(
    "div",
    { class: "pair-cell" },
    picture(seen.step, seen.marked, `Page before step ${step.index}`),
    h(
      "div",
      { class: "pair-words" },
      h("p", {}, h("a", { href, class: "step-number", aria: { label: `Open step ${step.index}` } }, step.index), " ", h("b", {}, said(verbOf(step))), " ", said(targetOf(step), "target")),
      typeof step.reward === "number" && step.reward !== 0 && h("p", { class: "facts" }, h("span", {}, "reward ", h("b", {}, number(step.reward)))),
      problems.map(({ kind }) => h("p", { class: "error-line" }, kind)),
      step.decision?.thought && h("p", { class: "step-thought" }, said(short(step.decision.thought, 240))),
    ),
  );
}

// Lets a person choose another episode of the task to compare with.
//
// Episodes with the same seed come first, as they start from the same page, then the latest others.
export async function chooseOther(dialog, place, { task = "", seed = null }) {
  const list = h("ul", { class: "plain choices" }, h("li", {}, "Loading episodes…"));
  const close = h("button", { type: "button", on: { click: () => dialog.close() } }, "Cancel");
  fill(dialog, h("h2", {}, "Compare with"), list, h("div", { class: "actions" }, close));
  dialog.showModal();
  try {
    const query = { task, sort: "-start_time" };
    const pages = await Promise.all([Number.isSafeInteger(seed) && seed >= 0 && fetchEpisodes({ ...query, seed }), fetchEpisodes(query)]);
    const seen = new Set([`${place.dataset}/${place.id}`]);
    const isNew = ({ dataset, id }) => seen.size !== seen.add(`${dataset}/${id}`).size;
    const others = pages.flatMap((found) => found.rows ?? []).filter(isNew);
    const choose = (row) => {
      dialog.close();
      go({ view: "compare", left: place, right: { dataset: row.dataset, id: row.id }, params: {} });
    };
    fill(list, others.map((row) => h("li", {}, h("button", { type: "button", on: { click: () => choose(row) } }, choiceOf(row)))));
    if (others.length === 0) fill(list, h("li", {}, "No other episode of this task."));
    list.querySelector("button")?.focus();
  } catch (error) {
    fill(list, h("li", { role: "alert" }, said(error.message)));
  }
}

function choiceOf(row) {
  return [
    outcomeBadge(row.outcome),
    h("span", {}, said(short(row.policy, 60))),
    h("span", {}, `seed ${number(row.seed)}, attempt ${number(row.attempt)}, ${count(row.steps, "step")}, reward ${number(row.reward)}`),
    h("span", { class: "dim" }, said(short(row.dataset, 40)), ` ${when(row.start_time)}`),
  ];
}
