// Shows /api/status, updated every second. All text is inserted with textContent.

const LETTERS = {
  ".": "waiting", w: "again", r: "resetting", q: "asking", a: "acting", s: "sealing", m: "elsewhere",
  x: "lost",
  j: "judging", "+": "success", "-": "failure", u: "ungraded", b: "blocked", e: "env_error",
  g: "agent_error", o: "model_error", v: "judge_error", t: "timeout", c: "cut_short",
};
const MEANINGS = {
  waiting: "not started, or not visible from here", again: "will be retried",
  resetting: "the environment is resetting", asking: "the agent is deciding",
  acting: "the environment is acting and observing", sealing: "the episode is being sealed",
  elsewhere: "running on another machine",
  lost: "open, but its process is gone", judging: "recorded, not judged yet",
  success: "a success", failure: "a failure", ungraded: "ended without a verdict",
  blocked: "the site blocked the agent", env_error: "the environment or browser failed",
  agent_error: "the agent failed", model_error: "the model's server failed", judge_error: "the judge failed",
  timeout: "a deadline passed", cut_short: "cancelled, or its process died",
};
const EVERY = 1000;
const byId = (id) => document.getElementById(id);

let shown = null;
let chosen = -1;

function element(tag, text = "", className = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

const words = (name) => name.replaceAll("_", " ");
const percent = (share) => `${(100 * share).toFixed(1)} %`;
const rate = (value, digits) => (value === null ? "–" : value.toFixed(digits));

function span(seconds) {
  if (seconds < 60) return `${Math.max(seconds, 0).toFixed(0)} s`;
  const whole = Math.floor(seconds);
  const two = (number) => String(number).padStart(2, "0");
  const minutes = `${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
  return whole < 3600 ? `${minutes} min` : `${Math.floor(whole / 3600)}:${minutes} h`;
}

function fill(table, columns, rows, none) {
  const head = element("tr");
  for (const [name, kind] of columns) {
    const cell = element("th", name, kind);
    cell.scope = "col";
    head.append(cell);
  }
  const lines = rows.map((values) => {
    const line = element("tr");
    values.forEach((value, index) => line.append(element("td", value, columns[index][1])));
    return line;
  });
  if (!rows.length) {
    const line = element("tr");
    const cell = element("td", none);
    cell.colSpan = columns.length;
    line.append(cell);
    lines.push(line);
  }
  const header = element("thead");
  header.append(head);
  const body = element("tbody");
  body.append(...lines);
  table.replaceChildren(header, body);
}

function number(name, value, more) {
  const box = element("div");
  box.append(element("div", name, "name"), element("div", value, "value"), element("div", more, "more"));
  return box;
}

function showNumbers(status) {
  const left = status.remaining === null || status.writer === "over" ? "" : `about ${span(status.remaining)} left`;
  const progress = element("progress");
  progress.max = Math.max(status.planned, 1);
  progress.value = status.over;
  progress.setAttribute("aria-label", "Rows done");
  const rows = number("rows done", `${status.over} / ${status.planned}`, left);
  rows.append(progress);
  const [solved, graded] = status.success;
  const interval = status.interval ? `95 %: ${percent(status.interval[0])} to ${percent(status.interval[1])}` : "nothing graded yet";
  const { minute, whole } = status;
  byId("numbers").replaceChildren(
    rows,
    number("success", graded ? percent(solved / graded) : "–", graded ? `${solved} of ${graded}; ${interval}` : interval),
    number("episodes / s", rate(minute.episodes_per_second, 2), `last minute; overall ${rate(whole.episodes_per_second, 2)}`),
    number("steps / s", rate(minute.steps_per_second, 1), `last minute; overall ${rate(whole.steps_per_second, 1)}; ${status.steps} in total`),
    number("tries", String(status.tries), status.parallel ? `${status.parallel} at a time` : ""),
    ...(status.judged === null ? [] : [number("judged", String(status.judged), "")]),
    ...(status.unsent ? [number("not uploaded yet", String(status.unsent), "in this machine's spool")] : []),
  );
}

function showNotes(status) {
  const notes = [];
  const left = status.planned - status.over;
  if (status.writer === "gone")
    notes.push("No process on this machine is running it, and nothing has changed for a while. To resume, run `webtraj rollout … --resume`.");
  if (status.writer === "over" && left)
    notes.push(`The run ended with ${left} rows left. To run them, use \`webtraj rollout … --resume\`.`);
  if (status.trouble) notes.push(`Showing the last known status: ${status.trouble}`);
  say(notes.join("\n"));
}

function say(text) {
  if (byId("notes").textContent !== text) byId("notes").textContent = text;
}

// The grid: as many columns as fit, each cell as large as the number of rows allows.

function layout() {
  const canvas = byId("grid");
  const width = canvas.clientWidth || 600;
  const count = Math.max(shown.cells.length, 1);
  let size = 18;
  while (size > 3 && Math.ceil(count / Math.floor(width / size)) * size > 420) size -= 1;
  const columns = Math.max(Math.floor(width / size), 1);
  return { canvas, width, size, columns, height: Math.ceil(count / columns) * size };
}

function draw() {
  if (!shown) return;
  const { canvas, width, size, columns, height } = layout();
  const scale = window.devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  const colours = {};
  const styles = getComputedStyle(document.documentElement);
  for (const [letter, name] of Object.entries(LETTERS)) colours[letter] = styles.getPropertyValue(`--${name}`);
  const gap = size > 6 ? 2 : size > 3 ? 1 : 0;
  for (let row = 0; row < shown.cells.length; row += 1) {
    context.fillStyle = colours[shown.cells[row]];
    context.fillRect((row % columns) * size, Math.floor(row / columns) * size, size - gap, size - gap);
  }
  if (chosen >= 0 && chosen < shown.cells.length) {
    context.strokeStyle = styles.getPropertyValue("--ink");
    context.lineWidth = 2;
    context.strokeRect((chosen % columns) * size, Math.floor(chosen / columns) * size, size - gap, size - gap);
  }
}

async function choose(row) {
  if (!shown || row < 0 || row >= shown.cells.length || row === chosen) return;
  chosen = row;
  draw();
  const answer = await fetch(`api/rows/${row}`);
  const about = await answer.json();
  if (row !== chosen) return;
  if (!answer.ok) {
    byId("row").textContent = about.error;
    return;
  }
  const phase = LETTERS[shown.cells[row]];
  const parts = [`row ${row}: ${about.task}`, about.site, about.level === "unknown" ? "" : about.level, `seed ${about.seed}`, words(phase)];
  const tries = about.tries.map((one) => `${one.episode_id} ${words(one.outcome)}, ${one.steps} steps in ${span(one.seconds)}`);
  byId("row").textContent = [...parts.filter(Boolean), ...tries].join(" · ");
}

function chooseByPointer(event) {
  if (!shown) return;
  const { canvas, size, columns } = layout();
  const box = canvas.getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left) / size);
  if (column < columns) choose(Math.floor((event.clientY - box.top) / size) * columns + column);
}

function chooseByKey(event) {
  if (!shown) return;
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -layout().columns, ArrowDown: layout().columns };
  if (!(event.key in steps)) return;
  event.preventDefault();
  choose(chosen < 0 ? 0 : chosen + steps[event.key]);
}

function showLegend(status) {
  const items = Object.entries(status.counts).map(([name, count]) => {
    const item = element("li");
    const colour = element("i");
    colour.style.background = `var(--${name})`;
    item.append(colour, `${words(name)} ${count}`);
    item.title = MEANINGS[name];
    return item;
  });
  byId("legend").replaceChildren(...items);
}

function show(status) {
  shown = status;
  document.title = `${status.over}/${status.planned} · ${status.run_id}`;
  byId("run").textContent = status.run_id;
  byId("place").textContent = status.place;
  byId("writer").textContent = status.writer;
  byId("writer").className = `badge ${status.writer}`;
  showNotes(status);
  showNumbers(status);
  showLegend(status);
  draw();
  fill(byId("underway"),
    [["row", "number"], ["task", ""], ["site", ""], ["phase", ""], ["steps", "number"], ["age", "number"], ["idle", "number"]],
    status.underway.map((one) => [String(one.row), one.task, one.site || "–", one.machine || words(one.phase), String(one.steps ?? "–"), span(one.age), one.quiet === null ? "–" : span(one.quiet)]),
    "No episode is running.");
  const outcomes = Object.entries(status.outcomes).sort((one, other) => other[1] - one[1]);
  fill(byId("outcomes"), [["outcome", ""], ["episodes", "number"]],
    outcomes.map(([name, count]) => [words(name), String(count)]), "No episode has ended yet.");
  fill(byId("sites"), [["site", ""], ["s / step", "number"], ["episodes", "number"], ["errors", "number"]],
    status.sites.map((one) => [one.site || "–", one.seconds_per_step.toFixed(2), String(one.episodes), String(one.faults)]),
    "No episode has ended yet.");
  const faults = status.faults.map((one) => [one.kind, String(one.count), one.task, one.message, one.episode_id]);
  if (status.faults_unread) faults.push(["not read yet", String(status.faults_unread), "", "", ""]);
  fill(byId("faults"), [["error", ""], ["count", "number"], ["latest task", ""], ["message", ""], ["episode", ""]], faults, "No errors.");
}

async function look() {
  try {
    const answer = await fetch("api/status");
    const data = await answer.json();
    if (answer.ok) show(data);
    else say(data.error);
  } catch {
    say("The monitor does not respond. Showing the last known status.");
  }
  setTimeout(look, shown && shown.is_over ? 5 * EVERY : EVERY);
}

byId("grid").addEventListener("pointermove", chooseByPointer);
byId("grid").addEventListener("keydown", chooseByKey);
addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
look();
