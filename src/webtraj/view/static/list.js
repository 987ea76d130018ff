// The list of episodes: filters on the left, and rows that are fetched as they scroll into view.

import { fetchDatasets, fetchEpisodes, notOpen } from "./api.js";
import { add, fill, h, said } from "./dom.js";
import { facetPanel } from "./facets.js";
import { count, number, percent, short } from "./format.js";
import { setKeys } from "./keys.js";
import { onChange } from "./live.js";
import { rememberList, rememberPlace } from "./neighbours.js";
import { failureNotice, notify } from "./notices.js";
import { go } from "./router.js";
import { columnsFor, headCells, rowElement, tracksOf } from "./row.js";

const ROW = 36;
const BODY_AT_MOST = 8_000_000;
const PAGE = 100;
const PAGES_KEPT = 60;
const MORE_ROWS = 6;
const DEFAULT_SORT = "-start_time";

// The scroll position of each list, for returning to it.
const left = new Map();

// Returns the view: {element, update(route), leave()}.
export function listView(route) {
  const view = new EpisodeList();
  view.update(route);
  return view;
}

class EpisodeList {
  constructor() {
    this.query = {};
    this.total = 0;
    this.several = false;
    this.counts = {};
    this.columns = [];
    this.places = [];
    this.active = 0;
    this.pages = new Map();
    this.asked = new Map();
    this.shown = new Map();
    this.chosen = [];
    this.generation = 0;
    this.build();
    this.endListening = onChange(() => {
      this.fetchDatasets();
      this.refresh();
    });
    this.setOwnKeys();
    this.fetchDatasets();
  }

  build() {
    this.search = h("input", {
      type: "search", id: "search", placeholder: "Search tasks, goals, ids, policies, notes",
      autocomplete: "off", spellcheck: "false", maxlength: 500, aria: { label: "Search episodes" },
      on: { input: () => this.searchSoon(), keydown: (event) => this.fromSearch(event) },
    });
    this.datasets = h("select", {
      aria: { label: "Dataset" }, on: { change: () => this.change({ dataset: this.datasets.value }) },
    });
    this.total_ = h("p", { class: "total", role: "status" });
    this.rate = h("p", { class: "rate" });
    this.compare = h("button", { type: "button", disabled: true, on: { click: () => this.compareChosen() } }, "Compare");
    this.facets = facetPanel((change) => this.change(change));
    this.filters = h("button", { type: "button", class: "on-phone", aria: { expanded: false }, on: { click: () => this.unfold() } }, "Filters");
    this.header = h("div", { role: "row", class: "row head", aria: { rowindex: 1 } });
    this.body = h("div", { role: "rowgroup", class: "body" });
    this.grid = h(
      "div",
      {
        class: "grid", role: "grid", tabindex: 0, aria: { label: "Episodes", multiselectable: true },
        on: { scroll: () => this.draw(), keydown: (event) => this.fromGrid(event), focus: () => this.mark() },
      },
      h("div", { role: "rowgroup", class: "heads" }, this.header),
      this.body,
    );
    this.message = h("div", { class: "message", hidden: true });
    this.problems = h("div", { class: "problem-bar", role: "status", hidden: true });
    const bar = h("div", { class: "bar" }, this.datasets, this.search, this.filters, this.total_, this.rate, this.compare);
    this.element = h(
      "div",
      { class: "view list" },
      h("h1", { class: "unseen" }, "Episodes"),
      this.facets.element,
      h("section", { class: "rows", aria: { label: "Episodes" } }, h("div", {}, bar, this.problems), this.grid, this.message),
    );
    this.resizing = new ResizeObserver(() => {
      this.drawHeader();
      this.draw();
    });
    this.resizing.observe(this.grid);
  }

  leave() {
    left.set(JSON.stringify(this.query), { top: this.grid.scrollTop, active: this.active });
    this.endListening();
    this.resizing.disconnect();
    this.generation++;
    setKeys("view", []);
  }

  update(route) {
    const query = { sort: DEFAULT_SORT, ...route.params };
    if (JSON.stringify(query) === JSON.stringify(this.query)) return;
    this.query = query;
    rememberList(route.params);
    document.title = "Episodes · webtraj";
    if (document.activeElement !== this.search) this.search.value = query.q ?? "";
    this.datasets.value = query.dataset ?? "";
    this.drawHeader();
    const before = left.get(JSON.stringify(query)) ?? { top: 0, active: 0 };
    this.active = before.active;
    this.load(before.top);
  }

  change(params) {
    const merged = { ...this.query, ...params };
    if (merged.sort === DEFAULT_SORT) delete merged.sort;
    go({ view: "list", params: merged }, { replace: true });
  }

  async fetchDatasets() {
    try {
      const datasets = await fetchDatasets();
      fill(this.problems, datasets.filter(({ problem }) => problem).map(({ problem }) => h("p", {}, said(problem))));
      this.problems.hidden = !this.problems.hasChildNodes();
      fill(this.datasets, h("option", { value: "" }, "All datasets"));
      for (const { name, episodes, writing } of datasets) {
        const words = `${name} (${number(episodes)}${writing ? ", being written" : ""})`;
        add(this.datasets, h("option", { value: name }, short(words, 60)));
      }
      this.datasets.hidden = datasets.length < 2;
      this.places = datasets.filter(({ problem }) => !problem).map(({ place }) => place);
      this.known = new Set(datasets.flatMap(({ name, place }) => [name, place]));
      if (this.message.querySelector(".none")) this.explain();
      const linked = datasets.find(({ place }) => place === this.query.dataset); // By a report.
      if (linked && this.element.isConnected) this.change({ dataset: linked.name });
      this.datasets.value = this.query.dataset ?? "";
      // A loop's datasets have a number instead.
      this.several = datasets.length > 1 && datasets.some(({ iteration }) => iteration === null);
      this.drawHeader();
    } catch (error) {
      notify(error.message, { problem: true });
    }
  }

  // Fetches the list again; the current rows stay until they are replaced.
  async load(scrollTop) {
    const generation = this.begin();
    try {
      const answer = await fetchEpisodes(this.query, { offset: 0, limit: PAGE });
      if (generation !== this.generation) return;
      this.pages = new Map([[0, answer.rows]]);
      this.take(answer);
      this.grid.scrollTop = scrollTop;
      this.redraw();
    } catch (error) {
      if (generation === this.generation) this.fail(error);
    }
  }

  // Discards earlier requests.
  begin() {
    this.asked.forEach((asking) => asking.abort());
    this.asked.clear();
    return ++this.generation;
  }

  // Like `load`, but keeps the position; called when a dataset changes.
  async refresh() {
    const generation = this.begin();
    const first = Math.floor(this.firstRow() / PAGE);
    try {
      const answer = await fetchEpisodes(this.query, { offset: first * PAGE, limit: PAGE });
      if (generation !== this.generation) return;
      this.pages = new Map([[first, answer.rows]]);
      this.take(answer);
      this.redraw();
    } catch (error) {
      notify(error.message, { problem: true });
    }
  }

  take({ total, facets, graded }) {
    this.total = total;
    this.active = Math.max(0, Math.min(this.active, total - 1));
    this.total_.textContent = count(total, "episode");
    const { success, of, low, high, broken } = graded;
    this.rate.textContent = [of && `${percent(success / of)} success`, broken && count(broken, "infrastructure failure")].filter(Boolean).join(", ");
    this.rate.title = of ? `${number(success)} of ${number(of)} graded episodes; 95 % interval: ${percent(low)} to ${percent(high)}` : "";
    this.grid.setAttribute("aria-rowcount", String(total + 1));
    this.height = Math.min(total * ROW, BODY_AT_MOST);
    this.body.style.height = `${this.height}px`;
    this.facets.show(facets, this.query);
    this.counts = facets;
    this.drawHeader();
    this.grid.hidden = total === 0;
    this.message.hidden = total > 0;
    if (total === 0) this.explain();
    else this.facets.element.hidden = false;
  }

  explain() {
    const missing = [this.query.dataset ?? []].flat().find((one) => one && this.known && !this.known.has(one));
    const isFiltered = Object.entries(this.query).some(([name, value]) => name !== "sort" && [value].flat().join("") !== "");
    this.facets.element.hidden = !isFiltered;
    const parts = isFiltered
      ? [
          h("p", {}, missing ? said(notOpen(missing)) : "No episode matches the filters."),
          h("button", { type: "button", on: { click: () => go({ view: "list", params: {} }) } }, "Show all episodes"),
        ]
      : [
          h("p", {}, "Nothing is recorded here yet. Episodes appear as soon as they begin. To play some:"),
          h("code", { class: "said" }, `webtraj rollout --preset miniwob/click-test --agent oracle --episodes 4 --out ${this.places[0] ?? "runs/x"}`),
        ];
    fill(this.message, h("div", { class: "empty none" }, h("h2", {}, "No episodes"), parts));
  }

  // Shows or hides the filters on a narrow page; on a wide one they are always there.
  unfold() {
    this.filters.setAttribute("aria-expanded", String(this.facets.element.classList.toggle("unfolded")));
  }

  fail(error) {
    this.grid.hidden = true;
    this.message.hidden = false;
    fill(this.message, failureNotice("Could not load the episodes", error, () => this.load(0)));
  }

  // With more rows than a browser can lay out, the scrollbar's range is compressed.
  firstRow() {
    const room = Math.max(1, this.height - this.room());
    const far = Math.max(0, this.total * ROW - this.room());
    const scale = this.total * ROW > BODY_AT_MOST ? far / room : 1;
    return Math.floor((this.grid.scrollTop * scale) / ROW);
  }

  room() {
    return Math.max(0, this.grid.clientHeight - ROW);
  }

  redraw() {
    this.shown.forEach((row) => row.remove());
    this.shown.clear();
    this.draw();
  }

  draw() {
    if (this.total === 0) return;
    const first = this.firstRow();
    const from = Math.max(0, first - MORE_ROWS);
    const to = Math.min(this.total, first + Math.ceil(this.room() / ROW) + MORE_ROWS);
    const squeezed = this.total * ROW > BODY_AT_MOST;
    for (const [index, row] of this.shown) {
      if (index < from || index >= to || (row.dataset.waiting && this.rowAt(index))) {
        row.remove();
        this.shown.delete(index);
      }
    }
    for (let index = from; index < to; index++) {
      if (!this.shown.has(index)) {
        const row = this.drawRow(index);
        this.shown.set(index, row);
        this.body.append(row);
      }
      const y = squeezed ? this.grid.scrollTop + (index - first) * ROW : index * ROW;
      this.shown.get(index).style.transform = `translateY(${y}px)`;
    }
    this.mark();
    this.fetchSoon(Math.floor(from / PAGE), Math.floor(Math.max(from, to - 1) / PAGE));
  }

  rowAt(index) {
    return this.pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  }

  fetchSoon(first, last) {
    for (const [page, asking] of this.asked) {
      if (page < first || page > last) {
        asking.abort();
        this.asked.delete(page);
      }
    }
    for (let page = first; page <= last; page++) {
      if (!this.pages.has(page) && !this.asked.has(page)) this.fetchPage(page);
    }
  }

  async fetchPage(page) {
    const generation = this.generation;
    const asking = new AbortController();
    this.asked.set(page, asking);
    try {
      // Dragging the scrollbar passes many pages; only fetch the page where it rests.
      await new Promise((resolve) => setTimeout(resolve, 40));
      if (asking.signal.aborted) return;
      const { rows } = await fetchEpisodes(this.query, { offset: page * PAGE, limit: PAGE, signal: asking.signal });
      if (generation !== this.generation) return;
      this.pages.set(page, rows);
      if (this.pages.size > PAGES_KEPT) this.pages.delete(this.pages.keys().next().value);
      this.asked.delete(page);
      this.draw();
    } catch (error) {
      if (this.asked.get(page) === asking) this.asked.delete(page);
      if (error.name !== "AbortError") notify(error.message, { problem: true });
    }
  }

  // Draws the columns' heads and the rows again if there are other columns now, or another order.
  drawHeader() {
    const columns = columnsFor(this.counts, this.several, this.grid.clientWidth);
    const { sort = "" } = this.query;
    const key = [sort, ...columns.map(({ name }) => name)].join(" ");
    if (key === this.drawn) return;
    this.drawn = key;
    this.columns = columns;
    const focused = [...this.header.children].findIndex((cell) => cell.contains(document.activeElement));
    fill(this.header, headCells(columns, sort, (next) => this.change({ sort: next })));
    this.header.children[focused]?.querySelector("button")?.focus();
    this.grid.style.setProperty("--tracks", tracksOf(columns));
    this.redraw();
  }

  drawRow(index) {
    const row = this.rowAt(index);
    const props = { role: "row", class: "row", id: `row-${index}`, aria: { rowindex: index + 2 } };
    if (!row) {
      return h("div", { ...props, data: { waiting: "yes" } }, h("div", { role: "gridcell", class: "cell wait" }, "…"));
    }
    const chosen = this.chosen.some((one) => one.id === row.id && one.dataset === row.dataset);
    return rowElement(row, this.columns, props, chosen, () => this.choose(row), () => this.open(index));
  }

  mark() {
    for (const [index, row] of this.shown) row.classList.toggle("active", index === this.active);
    if (this.shown.has(this.active)) this.grid.setAttribute("aria-activedescendant", `row-${this.active}`);
    else this.grid.removeAttribute("aria-activedescendant");
  }

  move(to) {
    if (this.total === 0) return;
    this.active = Math.max(0, Math.min(this.total - 1, to));
    const top = this.active * ROW;
    const most = this.total * ROW - this.room();
    const scale = this.total * ROW > BODY_AT_MOST ? most / Math.max(1, this.height - this.room()) : 1;
    const seen = this.grid.scrollTop * scale;
    if (top < seen) this.grid.scrollTop = top / scale;
    if (top + ROW > seen + this.room()) this.grid.scrollTop = (top + ROW - this.room()) / scale;
    if (document.activeElement !== this.grid) this.grid.focus({ preventScroll: true });
    this.draw();
  }

  open(index) {
    const row = this.rowAt(index);
    if (!row) return;
    this.active = index;
    rememberPlace(this.query, index, row.dataset, row.id);
    go({ view: "episode", dataset: row.dataset, id: row.id, params: {} });
  }

  choose(row) {
    const others = this.chosen.filter((one) => one.id !== row.id || one.dataset !== row.dataset);
    this.chosen = others.length === this.chosen.length ? [...this.chosen.slice(-1), row] : others;
    this.compare.disabled = this.chosen.length !== 2;
    this.compare.textContent = this.chosen.length ? `Compare (${this.chosen.length} of 2)` : "Compare";
    this.redraw();
  }

  compareChosen() {
    if (this.chosen.length !== 2) {
      notify("Choose two episodes to compare, with their checkboxes or the x key.");
      return;
    }
    const [one, other] = this.chosen.map(({ dataset, id }) => ({ dataset, id }));
    go({ view: "compare", left: one, right: other, params: {} });
  }

  searchSoon() {
    clearTimeout(this.searching);
    this.searching = setTimeout(() => this.change({ q: this.search.value.trim() }), 200);
  }

  fromSearch(event) {
    if (event.key !== "Enter" && event.key !== "ArrowDown") return;
    event.preventDefault();
    this.grid.focus();
  }

  fromGrid(event) {
    const page = Math.max(1, Math.floor(this.room() / ROW) - 1);
    const to = {
      PageDown: this.active + page, PageUp: this.active - page, Home: 0, End: this.total - 1,
    }[event.key];
    if (event.target !== this.grid || to === undefined) return;
    event.preventDefault();
    this.move(to);
  }

  setOwnKeys() {
    const chooseActive = () => this.rowAt(this.active) && this.choose(this.rowAt(this.active));
    setKeys("view", [
      { keys: ["j", "ArrowDown"], shown: "j ↓", does: "Next episode", run: () => this.move(this.active + 1) },
      { keys: ["k", "ArrowUp"], shown: "k ↑", does: "Previous episode", run: () => this.move(this.active - 1) },
      { keys: ["Enter", "o"], shown: "Enter", does: "Open the episode", run: () => this.open(this.active) },
      { keys: ["x"], shown: "x", does: "Choose for comparison", run: chooseActive },
      { keys: ["c"], shown: "c", does: "Compare the chosen episodes", run: () => this.compareChosen() },
      { keys: ["/"], shown: "/", does: "Search", run: () => this.search.select() },
    ]);
  }
}
