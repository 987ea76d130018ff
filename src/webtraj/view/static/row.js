// One row of the list.

import { thumbnailOf } from "./api.js";
import { add, h, icon, said } from "./dom.js";
import { duration, nameOf, number, outcomeBadge, short, when } from "./format.js";
import { formatRoute } from "./router.js";

const RESTED = 250;

// The columns, in order; `sort` is the server's name for the field, `track` the column's width, and
// `from` the width of the list from which there is room for it.
const COLUMNS = [
  { name: "label", title: "Label", sort: "label", track: "56px" },
  { name: "outcome", title: "Outcome", sort: "outcome", track: "126px" },
  { name: "last", title: "Page", track: "60px", from: 640 },
  { name: "dataset", title: "Dataset", sort: "dataset", track: "minmax(80px, .6fr)", from: 1040 },
  { name: "task", title: "Task", sort: "task", track: "minmax(80px, 1fr)" },
  { name: "goal", title: "Goal", track: "minmax(60px, 1.4fr)", from: 640 },
  { name: "reward", title: "Reward", sort: "reward", right: true, track: "78px", from: 480 },
  { name: "steps", title: "Steps", sort: "steps", right: true, track: "68px" },
  { name: "seconds", title: "Time", sort: "duration", right: true, track: "72px", from: 760 },
  { name: "policy", title: "Policy", sort: "policy", track: "minmax(120px, 1fr)", from: 1080 },
  { name: "iteration", title: "Iter.", sort: "iteration", right: true, track: "56px", from: 760 },
  { name: "start_time", title: "Started", sort: "start_time", track: "136px", from: 900 },
];

// Returns the columns that have a value, by the server's counts, and room in a list's width.
export function columnsFor(facets, several, width) {
  const isEmpty = (name) => (name === "dataset" ? !several : facets[name]?.length === 0);
  return COLUMNS.filter(({ name, from = 0 }) => width >= from && !isEmpty(name));
}

// Returns the columns' widths, for the list's grid.
export function tracksOf(columns) {
  return ["36px", ...columns.map(({ track }) => track)].join(" ");
}

// Returns the cells above the columns; `choose` is called with the order that a person selects.
export function headCells(columns, sort, choose) {
  const cells = columns.map(({ name, title, sort: key, right }) => {
    const direction = sort === key ? "ascending" : sort === `-${key}` ? "descending" : null;
    const next = direction === "ascending" ? `-${key}` : key;
    const mark = direction && icon(direction === "ascending" ? "M4 10 8 6 12 10" : "M4 6 8 10 12 6");
    const aria = key ? { sort: direction ?? "none" } : {};
    const button = key && h("button", { type: "button", on: { click: () => choose(next) } }, title, mark);
    return h("div", { role: "columnheader", class: `cell ${name}${right ? " right" : ""}`, aria }, button || title);
  });
  return [h("div", { role: "columnheader", class: "cell choose" }, h("span", { class: "unseen" }, "Compare")), cells];
}

const LABEL_MARKS = {
  success: { path: "M3 8.5 6.5 12 13 4.5", words: "labelled success" },
  failure: { path: "M4 4 12 12 M12 4 4 12", words: "labelled failure" },
  note: { path: "M3 12.5 4 9.5 11 2.5 13.5 5 6.5 12z", words: "has a note" },
};

// Returns an episode's row, with a checkbox; `props` are the row's attributes.
export function rowElement(row, columns, props, chosen, choose, open) {
  const box = h("input", {
    type: "checkbox", tabindex: -1, checked: chosen, aria: { label: `Compare ${short(row.id, 60)}` },
    on: { click: (event) => event.stopPropagation(), change: choose },
  });
  const clicked = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    open();
  };
  const cells = cellsOf(row);
  return h(
    "div",
    { ...props, aria: { ...props.aria, selected: chosen }, on: { click: clicked } },
    h("div", { role: "gridcell", class: "cell choose" }, box),
    columns.map(({ name, right }) =>
      h("div", { role: "gridcell", class: `cell ${name}${right ? " right" : ""}` }, cells[name]),
    ),
  );
}

function cellsOf(row) {
  const href = formatRoute({ view: "episode", dataset: row.dataset, id: row.id });
  const version = row.policy_version && row.policy_version !== row.policy ? ` · ${row.policy_version}` : "";
  return {
    label: labelMark(row.label),
    outcome: outcomeBadge(row.outcome || "unknown"),
    last: thumbnail(row),
    dataset: said(short(row.dataset, 80)),
    task: h("a", { href, tabindex: -1, title: row.task || row.id }, nameOf(short(row.task, 200) || endOf(row.id))),
    goal: said(short(row.goal, 300)),
    reward: number(row.reward),
    steps: number(row.steps),
    seconds: duration(row.seconds),
    policy: nameOf(short(`${row.policy ?? ""}${version}`, 120)),
    iteration: number(row.iteration),
    start_time: h("span", { title: when(row.start_time) }, when(row.start_time, { brief: true })),
  };
}

// Ids begin with the time, so that their ends differ.
function endOf(id) {
  return id.length > 12 ? `…${id.slice(-8)}` : id;
}

// Rows that only scroll past request no picture.
function thumbnail(row) {
  const src = thumbnailOf(row.dataset, row.id);
  const place = h("span", {});
  const gone = (event) => event.target.remove();
  const show = () => add(place, h("img", { src, alt: "", class: "thumbnail", width: 52, height: 32, decoding: "async", on: { error: gone } }));
  setTimeout(() => place.isConnected && show(), RESTED);
  return place;
}

function labelMark(label) {
  const mark = LABEL_MARKS[label];
  if (!mark) return null;
  const svg = icon(mark.path);
  return h("span", { class: "label-mark", data: { label } }, svg, h("span", { class: "unseen" }, mark.words));
}
