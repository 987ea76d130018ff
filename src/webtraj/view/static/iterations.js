// Success by iteration: the mean over tasks, each task, and a table. Each point links to its
// episodes.

import { fetchIterations } from "./api.js";
import { add, fill, h, said, scrolled, tableOf } from "./dom.js";
import { count, nameOf, number, short } from "./format.js";
import { setKeys } from "./keys.js";
import { onChange } from "./live.js";
import { listRoute } from "./neighbours.js";
import { failureNotice } from "./notices.js";
import { plotOf, seriesMark } from "./plot.js";
import { formatRoute, go } from "./router.js";

const SHOWN_TASKS = 60;
const LARGE = 280;
const SMALL = [240, 120];

const ORDERS = {
  lowest: { words: "Lowest first", key: (task) => task.last },
  gained: { words: "Most gained first", key: (task) => task.first - task.last },
  name: { words: "By name", key: () => 0 },
};

// Returns the view: {element, update(route), leave()}.
export function iterationsView(route) {
  const element = h("div", { class: "view iterations", tabindex: -1 }, h("p", { class: "loading", role: "status" }, "Counting episodes…"));
  let now = route;
  let shown = null;
  let asked = 0;
  const load = async () => {
    const mine = ++asked;
    try {
      const data = await fetchIterations();
      if (mine !== asked) return;
      if (data.series.length === 0) {
        shown?.leave();
        shown = null;
        fill(element, noIterations());
        return;
      }
      shown ??= iterationsPage(element, () => now);
      shown.take(data);
    } catch (error) {
      if (mine !== asked) return;
      shown?.leave();
      shown = null;
      fill(element, failureNotice("Could not load the iterations", error, load));
    }
  };
  const endListening = onChange(load);
  document.title = "Iterations · webtraj";
  setKeys("view", [
    { keys: ["/"], shown: "/", does: "Search tasks", run: () => element.querySelector("input")?.select() },
    { keys: ["Escape", "u"], shown: "Esc", does: "Back to the list", run: () => go(listRoute()) },
  ]);
  load();
  return {
    element,
    update(to) {
      now = to;
      shown?.draw();
    },
    leave() {
      asked++;
      shown?.leave();
      endListening();
      setKeys("view", []);
    },
  };
}

function noIterations() {
  const what = "This view compares datasets named iteration_0001, iteration_0002 and so on, as soon as they have a success or a failure.";
  return h("div", { class: "empty" }, h("h1", {}, "No iterations"), h("p", {}, what));
}

// Builds the page once; later data is drawn into it.
function iterationsPage(element, route) {
  const change = (params) => go({ view: "iterations", params: { ...route().params, ...params } }, { replace: true });
  const panel = iterationsPanel(() => route().params, change);
  fill(element, h("header", { class: "iterations-head" }, h("h1", {}, "Iterations"), panel.legend), panel.parts);
  return panel;
}

// Returns the parts of the page: {legend, parts, draw(), leave(), take(data)}. `paramsOf` returns the
// search parameters; `change` sets some of them and calls `draw`.
export function iterationsPanel(paramsOf, change) {
  const search = h("input", {
    type: "search", placeholder: "Search tasks", autocomplete: "off", spellcheck: "false", maxlength: 500,
    aria: { label: "Search tasks" }, on: { input: () => change({ q: search.value.trim(), all: "" }) },
  });
  const order = h("select", { aria: { label: "Order of the tasks" }, on: { change: () => change({ order: order.value === "lowest" ? "" : order.value }) } });
  for (const [value, { words }] of Object.entries(ORDERS)) add(order, h("option", { value }, words));
  const legend = h("ul", { class: "plot-legend" });
  const mean = h("div", { class: "mean" });
  const told = h("p", { class: "told" }, "Point at a mark to see its numbers; click it to see its episodes.");
  const found = h("p", { class: "total", role: "status" });
  const plots = h("div", { class: "plots" });
  const more = h("button", { type: "button", on: { click: () => change({ all: "1" }) } });
  const numbers = scrolled("Numbers");
  const gradient = h("section", { class: "card", hidden: true });
  const parts = [
    h("section", { class: "card" }, h("h2", {}, "Mean success over tasks, with 95 % intervals"), mean),
    h("div", { class: "bar" }, h("h2", {}, "Tasks"), search, order, found),
    plots,
    more,
    gradient,
    h("section", { class: "card" }, h("h2", {}, "Numbers"), numbers),
    told,
  ];
  let data = null;
  let tasks = [];
  // Text in a drawing keeps its size where the drawing is as wide as its place.
  const large = () => [Math.max(280, mean.clientWidth), LARGE];
  let width = 0;
  const resizing = new ResizeObserver(() => {
    if (data && mean.clientWidth !== width) draw();
  });
  resizing.observe(mean);
  const tell = ({ words, open }) => fill(told, said(words), open ? " Still being written." : "");

  const draw = () => {
    const { q = "", order: by = "", all = "" } = paramsOf();
    const key = Object.hasOwn(ORDERS, by) ? by : "lowest";
    if (document.activeElement !== search) search.value = q;
    order.value = key;
    const words = q.toLowerCase().split(/\s+/).filter(Boolean);
    const met = tasks.filter(({ task }) => words.every((word) => task.toLowerCase().includes(word)));
    met.sort((one, other) => ORDERS[key].key(one) - ORDERS[key].key(other) || (one.task < other.task ? -1 : 1));
    const most = all ? met.length : SHOWN_TASKS;
    const focused = document.activeElement?.dataset?.key;
    const range = rangeOf(data);
    width = mean.clientWidth;
    fill(legend, data.series.map(({ title, after }, index) => h("li", {}, seriesMark(index), said(`${title}${after ? ", after the iteration" : ""}`))));
    fill(mean, plotOf(meanLines(data), { range, label: "Mean over tasks by iteration", size: large(), told: tell }));
    fill(plots, met.slice(0, most).map((task) => taskPlot(task, range, tell)));
    found.textContent = `${count(met.length, "task")}${data.left_out ? `, and ${number(data.left_out)} with more success` : ""}`;
    more.hidden = met.length <= most;
    more.textContent = `Show all ${number(met.length)}`;
    gradient.hidden = !data.gradient?.length;
    if (!gradient.hidden) fill(gradient, gradientOf(data, range, large(), tell));
    fill(numbers, numbersTable(data));
    if (focused) parts.flatMap((part) => [...part.querySelectorAll("[data-key]")]).find((one) => one.dataset.key === focused)?.focus({ preventScroll: true });
  };

  return {
    legend,
    parts,
    draw,
    leave: () => resizing.disconnect(),
    take(answer) {
      data = answer;
      tasks = answer.tasks.map((one) => withLines(one, answer.series));
      draw();
    },
  };
}

function rangeOf({ series }) {
  const all = series.flatMap(({ points }) => points.map(({ at }) => at));
  return [Math.min(...all), Math.max(...all)];
}

function meanLines({ series }) {
  return series.map(({ title, after, points }, index) => ({
    series: index,
    points: points.map((point) => ({
      ...placed(point),
      value: point.mean.value, low: point.mean.low, high: point.mean.high,
      words: `${title}, ${whenOf(point, after)}: ${share(point.mean.value)}, mean over ${count(point.mean.tasks, "task")}; 95 %: ${share(point.mean.low)} to ${share(point.mean.high)}.`,
      href: episodesOf(point), key: `mean ${point.dataset}`,
    })),
  }));
}

// Adds a task's points by series, and its first and latest rate in the first series that has it.
function withLines({ task, rates }, series) {
  const lines = series.map((_, index) => ({ series: index, points: [] }));
  for (const [index, at, successes, graded, low, high] of rates) {
    const point = series[index].points[at];
    const value = successes / graded;
    lines[index].points.push({
      ...placed(point), value, low, high,
      words: `${short(task, 200)}, ${series[index].title}, ${whenOf(point, series[index].after)}: ${share(value)}, ${number(successes)} of ${number(graded)}; 95 %: ${share(low)} to ${share(high)}.`,
      href: episodesOf(point, task), key: `task ${point.dataset} ${task}`,
    });
  }
  const first = lines.find(({ points }) => points.length > 0).points;
  return { task, lines, first: first[0].value, last: first[first.length - 1].value };
}

function placed({ at, writing }) {
  return { at, open: writing };
}

function whenOf({ at }, after) {
  return after ? (at === 0 ? "before the first iteration" : `after iteration ${at}`) : `iteration ${at}`;
}

function episodesOf({ dataset, iteration }, task = "") {
  return formatRoute({ view: "list", params: { dataset, iteration, task } });
}

function taskPlot({ task, lines }, range, told) {
  const name = h("h3", {}, h("a", { href: formatRoute({ view: "list", params: { task } }) }, nameOf(short(task || "no task", 200))));
  return h("section", { class: "card" }, name, plotOf(lines, { range, label: short(task, 120), size: SMALL, told }));
}

function numbersTable({ series }) {
  const heads = ["", "Iteration", "Mean", "95 %", "Tasks", "Successes", "Graded", "Episodes"];
  const rows = series.flatMap(({ title, after, points }) => points.map((point) => [
    said(title), whenOf(point, after), share(point.mean.value), `${share(point.mean.low)} to ${share(point.mean.high)}`,
    number(point.mean.tasks), number(point.all.successes), number(point.all.graded),
    [h("a", { href: episodesOf(point) }, said(point.dataset)), point.writing && ", being written"],
  ]));
  return tableOf(heads, rows);
}

// What trainings on groups of attempts measured: mean reward and share of groups kept as lines, and all in a table.
const GRADIENT_LINES = [
  { name: "Mean reward", value: ({ reward }) => reward },
  { name: "Groups with different rewards", value: ({ groups, groups_kept: kept }) => (groups ? kept / groups : undefined) },
];
const GRADIENT_NUMBERS = [
  ["Reward", "reward", 3], ["Groups", "groups", 0], ["Kept", "groups_kept", 0], ["Ratio", "ratio", 4],
  ["Clipped", "clipped", 4], ["Entropy", "entropy", 4], ["Mismatch", "mismatch", 7], ["Staleness", "staleness", 2],
];

function gradientOf({ gradient }, range, size, told) {
  const lines = gradient.flatMap(({ title, points }, place) => GRADIENT_LINES.map(({ name, value }, index) => ({
    series: index,
    points: points.filter((point) => value(point) !== undefined).map((point) => {
      const rate = Math.min(Math.max(value(point), 0), 1);
      return {
        ...placed(point), value: rate, low: rate, high: rate,
        words: `${title}, iteration ${point.at}: ${name.toLowerCase()} ${share(value(point))}.`,
        href: episodesOf(point), key: `gradient ${place} ${index} ${point.dataset}`,
      };
    }),
  })));
  const marks = GRADIENT_LINES.map(({ name }, index) => h("li", {}, seriesMark(index), name));
  const rows = gradient.flatMap(({ title, points }) => points.map((point) => [
    said(title), [h("a", { href: episodesOf(point) }, `iteration ${point.at}`)],
    ...GRADIENT_NUMBERS.map(([, name, digits]) => (point[name] === undefined ? "-" : String(Number(point[name].toFixed(digits))))),
  ]));
  return [
    h("h2", {}, "Policy gradient"),
    h("ul", { class: "plot-legend" }, marks),
    plotOf(lines, { range, label: "Policy gradient by iteration", size, told }),
    scrolled("Numbers of policy gradient", tableOf(["", "Iteration", ...GRADIENT_NUMBERS.map(([head]) => head)], rows)),
  ];
}

function share(rate) {
  return `${Number((100 * rate).toFixed(1))} %`;
}
