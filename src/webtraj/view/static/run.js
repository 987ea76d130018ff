// A rollout while it runs: a cell for each row of its plan, numbers, running episodes, errors.

import { fetchDatasets, fetchRun, fetchRunRow } from "./api.js";
import { add, fill, h, said, scrolled, tableOf } from "./dom.js";
import { count, duration, number, percent, short, spaced } from "./format.js";
import { setKeys } from "./keys.js";
import { BACK_KEY } from "./neighbours.js";
import { formatRoute } from "./router.js";

const EVERY_LOOK = 1_000;
const EVERY_LOOK_AFTER = 5_000;
const CELL_AT_MOST = 18;
const GRID_AT_MOST = 420;
const OTHERS_AT_MOST = 20;

// What each letter of a status's cells means.
const CELLS = {
  ".": ["waiting", "not started, or not visible from here"],
  w: ["again", "will be retried"],
  r: ["resetting", "the environment is resetting"],
  q: ["asking", "the agent is deciding"],
  a: ["acting", "the environment is acting and observing"],
  s: ["sealing", "the episode is being sealed"],
  m: ["elsewhere", "running on another machine"],
  x: ["lost", "open, but its process is gone"],
  j: ["judging", "recorded, not judged yet"],
  "+": ["success", "a success"],
  "-": ["failure", "a failure"],
  u: ["ungraded", "ended without a verdict"],
  b: ["blocked", "the site blocked the agent"],
  e: ["env_error", "the environment or browser failed"],
  g: ["agent_error", "the agent failed"],
  o: ["model_error", "the model's server failed"],
  v: ["judge_error", "the judge failed"],
  t: ["timeout", "a deadline passed"],
  c: ["cut_short", "cancelled, or its process died"],
};

// Returns the view: {element, update(route), leave()}.
export function runView(route) {
  const page = runPage();
  let now = route;
  let timer = 0;
  let asked = 0;
  let datasets = []; // Those with runs, as of when the page or another run was opened.
  const look = async () => {
    clearTimeout(timer);
    const mine = ++asked;
    let wait = EVERY_LOOK;
    try {
      if (datasets.length === 0) datasets = (await fetchDatasets()).filter(({ runs }) => runs.length > 0);
      const dataset = now.params.dataset ?? likeliestOf(datasets);
      const status = await fetchRun(dataset, now.params.run ?? "");
      if (mine !== asked) return;
      page.show(status, dataset, datasets);
      if (status.is_over) wait = EVERY_LOOK_AFTER;
    } catch (error) {
      if (mine !== asked) return;
      page.tell(error.message);
    }
    timer = setTimeout(look, wait);
  };
  document.title = "Run · webtraj";
  setKeys("view", [BACK_KEY]);
  look();
  return {
    element: page.element,
    update(to) {
      now = to;
      datasets = [];
      look();
    },
    leave() {
      asked++;
      clearTimeout(timer);
      page.leave();
      setKeys("view", []);
    },
  };
}

// Returns the dataset that a rollout is writing, or the last one that a rollout wrote.
function likeliestOf(datasets) {
  const found = datasets.find(({ writing }) => writing) ?? datasets.at(-1);
  if (!found) throw new Error("No rollout wrote these datasets. One that has just started appears once its plan is written.");
  return found.name;
}

// Returns links to all runs but the one that is shown.
function otherRuns(datasets, shown, run) {
  const every = datasets.flatMap(({ name, runs }) => runs.map((id) => ({ dataset: name, run: id })));
  const others = every.filter((one) => one.dataset !== shown || one.run !== run).slice(0, OTHERS_AT_MOST);
  return others.map((params) =>
    h("a", { href: formatRoute({ view: "run", params }) }, said(short(datasets.length > 1 ? `${params.dataset}: ${params.run}` : params.run, 80))),
  );
}

// Builds the page once; later statuses are put into it.
function runPage() {
  const name = h("bdi", {}, "Run");
  const writer = h("span", { class: "badge writer" });
  const place = h("p", { class: "dim place" });
  const episodes = h("a", {}, "Episodes of this run");
  const others = h("nav", { class: "other-runs", aria: { label: "Other runs" } });
  let linked = "";
  const notes = h("p", { class: "run-notes", role: "status", aria: { live: "polite" } });
  const numbers = h("section", { class: "card run-numbers", aria: { label: "Numbers" } });
  const grid = planGrid();
  const underway = scrolled("Running episodes");
  const outcomes = scrolled("Outcomes");
  const sites = scrolled("Slowest sites");
  const faults = scrolled("Errors");
  const element = h(
    "div",
    { class: "view iterations run", tabindex: -1 },
    h("header", {}, h("h1", {}, name, " ", writer), place, h("p", {}, episodes), others),
    notes,
    numbers,
    h("section", { class: "card" }, h("h2", {}, "Rows of the plan"), grid.element),
    h("section", { class: "card" }, h("h2", {}, "Running"), underway),
    h(
      "div",
      { class: "run-columns" },
      h("section", { class: "card" }, h("h2", {}, "Outcomes of all tries"), outcomes),
      h("section", { class: "card" }, h("h2", {}, "Slowest sites"), sites),
    ),
    h("section", { class: "card" }, h("h2", {}, "Errors"), faults),
  );
  const tell = (text) => {
    if (notes.textContent !== text) notes.textContent = text;
  };
  return {
    element,
    tell,
    leave: grid.leave,
    show(status, dataset, datasets) {
      element.classList.add("known"); // Without a run there is nothing on the cards.
      const episode = (id, words = id) => (id ? h("a", { href: formatRoute({ view: "episode", dataset, id }) }, said(words)) : "");
      document.title = `${status.over}/${status.planned} · ${status.run_id}`;
      name.textContent = status.run_id;
      place.textContent = status.place;
      episodes.setAttribute("href", formatRoute({ view: "list", params: { dataset, run: status.run_id } }));
      writer.textContent = status.writer;
      writer.dataset.writer = status.writer;
      const key = JSON.stringify([dataset, status.run_id, datasets]);
      if (key !== linked) fill(others, otherRuns(datasets, dataset, status.run_id));
      linked = key;
      tell(status.notes.join("\n"));
      fill(numbers, numbersOf(status));
      grid.show(status, dataset, episode);
      fillTable(underway, ["row", "task", "site", "phase", "steps", "age", "idle"], status.underway.map((one) => [
        number(one.row), episode(one.machine ? "" : one.episode_id, one.task) || said(one.task), said(one.site || "–"), said(one.machine || spaced(one.phase)), number(one.steps), duration(one.age), duration(one.quiet ?? NaN),
      ]), "No episode is running.");
      const counted = Object.entries(status.outcomes).sort((one, other) => other[1] - one[1]);
      fillTable(outcomes, ["outcome", "episodes"], counted.map(([outcome, episodes]) => [spaced(outcome), number(episodes)]), "No episode has ended yet.");
      fillTable(sites, ["site", "s / step", "episodes", "errors"], status.sites.map((one) => [
        said(one.site || "–"), one.seconds_per_step.toFixed(2), number(one.episodes), number(one.faults),
      ]), "No episode has ended yet.");
      const shown = status.faults.map((one) => [said(one.kind), number(one.count), said(one.task), said(one.message), episode(one.episode_id)]);
      if (status.faults_unread) shown.push(["not read yet", number(status.faults_unread), "", "", ""]);
      fillTable(faults, ["error", "count", "latest task", "message", "episode"], shown, "No errors.");
    },
  };
}

function fillTable(place, heads, rows, none) {
  fill(place, rows.length === 0 ? h("p", { class: "dim" }, none) : tableOf(heads, rows));
}

function numbersOf(status) {
  const [solved, graded] = status.success;
  const { minute, whole, interval } = status;
  const isOver = status.writer === "over";
  const box = (name, value, more) => h("div", {}, h("div", { class: "dim" }, name), h("div", { class: "value" }, value), h("div", { class: "dim" }, more));
  const left = status.remaining === null || isOver ? "" : `about ${duration(status.remaining)} left`;
  const rows = box("rows done", `${status.over} / ${status.planned}`, left);
  const progress = h("progress", { value: status.over, aria: { label: "Rows done" } });
  progress.max = Math.max(status.planned, 1);
  add(rows, progress);
  const range = interval ? `95 %: ${percent(interval[0])} to ${percent(interval[1])}` : "nothing graded yet";
  const rate = (value) => (value === null ? "–" : value.toFixed(value < 10 ? 2 : 1));
  // The last minute of a run that is over says nothing.
  const pace = (noun, key, more = "") => box(`${noun} / s`, rate((isOver ? whole : minute)[key]), [!isOver && `last minute; overall ${rate(whole[key])}`, more].filter(Boolean).join("; "));
  return [
    rows,
    box("success", graded ? percent(solved / graded) : "–", graded ? `${solved} of ${graded}; ${range}` : range),
    pace("episodes", "episodes_per_second"),
    pace("steps", "steps_per_second", `${number(status.steps)} in total`),
    box("tries", number(status.tries), status.parallel ? `${status.parallel} at a time` : ""),
    status.judged !== null && box("judged", number(status.judged), ""),
    status.unsent > 0 && box("not uploaded yet", number(status.unsent), "in this machine's spool"),
  ];
}

// The plan as a grid: as many columns as fit, each cell as large as the number of rows allows.
function planGrid() {
  const canvas = h("canvas", { class: "run-grid", tabindex: 0, role: "img", aria: { label: "A cell for each row; select one with the arrow keys" } });
  const legend = h("ul", { class: "plot-legend" });
  const told = h("p", { class: "run-told", role: "status", aria: { live: "polite" } }, "Point at a row, or move with the arrow keys, to see its task and tries.");
  const marks = Object.fromEntries(Object.entries(CELLS).map(([letter, [name]]) => [letter, cellMark(name)]));
  const palette = h("div", { hidden: true }, Object.values(marks));
  let run = null;
  let chosen = -1;

  const layout = () => {
    const width = canvas.clientWidth || 600;
    const rows = Math.max(run.status.cells.length, 1);
    let size = CELL_AT_MOST;
    while (size > 3 && Math.ceil(rows / Math.floor(width / size)) * size > GRID_AT_MOST) size -= 1;
    const columns = Math.max(Math.floor(width / size), 1);
    return { width, size, columns, height: Math.ceil(rows / columns) * size };
  };
  const draw = () => {
    if (run === null) return;
    const { width, size, columns, height } = layout();
    const scale = window.devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = height * scale;
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    const colours = Object.fromEntries(Object.entries(marks).map(([letter, mark]) => [letter, getComputedStyle(mark).backgroundColor]));
    const room = size > 6 ? 2 : size > 3 ? 1 : 0;
    const box = (row) => [(row % columns) * size, Math.floor(row / columns) * size, size - room, size - room];
    [...run.status.cells].forEach((letter, row) => {
      context.fillStyle = colours[letter] ?? colours["."];
      context.fillRect(...box(row));
    });
    if (chosen < 0) return;
    context.strokeStyle = getComputedStyle(canvas).color;
    context.lineWidth = 2;
    context.strokeRect(...box(chosen));
  };
  const choose = async (row) => {
    if (run === null || row < 0 || row >= run.status.cells.length || row === chosen) return;
    chosen = row;
    draw();
    const { status, dataset, episode } = run;
    try {
      const about = await fetchRunRow(dataset, status.run_id, row);
      if (row !== chosen) return;
      const level = about.level === "unknown" ? "" : about.level;
      const state = spaced((CELLS[status.cells[row]] ?? CELLS["."])[0]);
      const parts = [`row ${row}: ${short(about.task, 200)}`, about.site, level, `seed ${about.seed}`, state];
      const tries = about.tries.map((one) => [" · ", episode(one.episode_id, spaced(one.outcome)), `, ${count(one.steps, "step")} in ${duration(one.seconds)}`]);
      fill(told, said(parts.filter(Boolean).join(" · ")), tries);
    } catch (error) {
      if (row === chosen) told.textContent = error.message;
    }
  };
  canvas.addEventListener("pointermove", (event) => {
    if (run === null) return;
    const { size, columns } = layout();
    const bounds = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - bounds.left) / size);
    if (column < columns) choose(Math.floor((event.clientY - bounds.top) / size) * columns + column);
  });
  canvas.addEventListener("keydown", (event) => {
    if (run === null) return;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -layout().columns, ArrowDown: layout().columns };
    if (!Object.hasOwn(steps, event.key)) return;
    event.preventDefault();
    choose(chosen < 0 ? 0 : chosen + steps[event.key]);
  });
  const resizing = new ResizeObserver(draw);
  resizing.observe(canvas);
  return {
    element: h("div", {}, canvas, legend, told, palette),
    leave: () => resizing.disconnect(),
    show(status, dataset, episode) {
      run = { status, dataset, episode };
      const letters = Object.entries(CELLS).filter(([, [name]]) => status.counts[name]);
      fill(legend, letters.map(([, [name, means]]) => h("li", { title: means }, cellMark(name), `${spaced(name)} ${number(status.counts[name])}`)));
      draw();
    },
  };
}

function cellMark(name) {
  return h("i", { class: "cell", css: { "--cell": `var(--cell-${name})` } });
}
