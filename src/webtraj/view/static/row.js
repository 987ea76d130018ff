// One row of the list.

import { thumbnailOf } from "./api.js";
import { add, h, icon, said } from "./dom.js";
import { duration, number, outcomeBadge, short, when } from "./format.js";
import { formatRoute } from "./router.js";

const RESTED = 250;

// The columns, in order; `sort` is the server's name for the field.
const COLUMNS = [
  { name: "label", title: "Label", sort: "label" },
  { name: "outcome", title: "Outcome", sort: "outcome" },
  { name: "last", title: "Page" },
  { name: "dataset", title: "Dataset", sort: "dataset" },
  { name: "task", title: "Task", sort: "task" },
  { name: "goal", title: "Goal" },
  { name: "reward", title: "Reward", sort: "reward", right: true },
  { name: "steps", title: "Steps", sort: "steps", right: true },
  { name: "seconds", title: "Time", sort: "duration", right: true },
  { name: "policy", title: "Policy", sort: "policy" },
  { name: "iteration", title: "Iter.", sort: "iteration", right: true },
  { name: "start_time", title: "Started", sort: "start_time" },
];

// Returns the columns of a list of one dataset or of several, with iterations or without.
export function columnsFor({ several, iterated }) {
  return COLUMNS.filter(({ name }) => (several || name !== "dataset") && (iterated || name !== "iteration"));
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
    task: h("a", { href, tabindex: -1, title: row.task ? null : row.id }, row.task ? nameOf(short(row.task, 200)) : said(endOf(row.id))),
    goal: said(short(row.goal, 300)),
    reward: number(row.reward),
    steps: number(row.steps),
    seconds: duration(row.seconds),
    policy: said(short(`${row.policy ?? ""}${version}`, 120)),
    iteration: number(row.iteration),
    start_time: h("span", { title: when(row.start_time) }, when(row.start_time, { brief: true })),
  };
}

// Tasks of one list often begin alike: the part up to the last slash gives way first.
function nameOf(task) {
  const at = task.lastIndexOf("/") + 1;
  return [at > 0 && said(task.slice(0, at), "family"), said(task.slice(at))];
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
