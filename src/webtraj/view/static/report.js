// A report: results of datasets, and their differences. `webtraj.view.report` describes the data.

import { fill, h, linkToViewer, said, scrolled } from "./dom.js";
import { number, short, spaced } from "./format.js";
import { iterationsPanel } from "./iterations.js";
import { plotOf, seriesMark } from "./plot.js";

const NUMBER_PLOT = [240, 120];

// The outcomes that have the colour of a run's cell with another name.
const CELL_OF_OUTCOME = { unknown: "ungraded", cancelled: "cut_short" };

// Returns the view: {element, draw()}. `draw` draws the plots that need the width, so call it after the element is shown.
export function reportView(report) {
  linkToViewer(report.viewer);
  document.title = report.title;
  const { panel, element: iterations } = iterationsOf(report.iterations);
  const element = h(
    "div",
    { class: "view iterations report", tabindex: -1 },
    h("h1", {}, said(report.title)),
    report.about.map((text) => h("p", { class: "dim" }, said(text))),
    h("section", { class: "card headline" }, h("ul", {}, report.headline.map(([name, text]) => h("li", {}, h("strong", {}, said(name)), ": ", said(text))))),
    iterations,
    report.sections.map(reportSection),
  );
  return { element, draw: () => panel?.take(report.iterations) };
}

function iterationsOf(data) {
  if (data.series.length === 0) return { panel: null, element: null };
  let params = {};
  const panel = iterationsPanel(() => params, (changed) => {
    params = { ...params, ...changed };
    panel.draw();
  });
  const head = h("header", { class: "iterations-head" }, h("h2", {}, "Iterations"), panel.legend);
  return { panel, element: h("section", { class: "iterations-panel", aria: { label: "Iterations" } }, head, panel.parts) };
}

function reportSection({ title, parts }) {
  const first = parts.find(({ table }) => table);
  const labelOf = (part) => part.table?.caption || (part === first ? title : `${title}: ${part.table?.columns[0]}`);
  return h("section", { class: "card" }, h("h2", {}, said(title)), parts.map((part) => reportPart(part, short(labelOf(part), 200))));
}

function reportPart({ text, legend, table, numbers }, label) {
  if (legend) return reportLegend(legend);
  if (numbers) return numberPlots(numbers);
  if (table) return scrolled(label, table.caption && h("p", { class: "dim" }, said(table.caption)), reportTable(table));
  return h("p", { class: "dim" }, said(text));
}

function reportLegend(legend) {
  const [[kind, names]] = Object.entries(legend);
  const mark = (name, index) => (kind === "series" ? seriesMark(index) : h("i", { class: "cell", css: { "--cell": colourOf(kind, name) } }));
  return h("ul", { class: "plot-legend" }, names.map((name, index) => h("li", {}, mark(name, index), said(kind === "series" ? name : spaced(name)))));
}

function reportTable({ columns, rows }) {
  return h(
    "table",
    { class: "numbers" },
    h("thead", {}, h("tr", {}, columns.map((name) => (name ? h("th", { scope: "col" }, said(name)) : h("td", {}))))),
    h("tbody", {}, rows.map(([first, ...others]) => h("tr", {}, h("th", { scope: "row" }, cellContent(first)), others.map((cell) => h("td", { class: cell.mark }, cellContent(cell)))))),
  );
}

function cellContent(cell) {
  if (typeof cell === "string") return said(cell);
  if (cell.intervals) return intervalsOf(cell);
  if (cell.shares) return sharesOf(cell);
  return cell.link ? h("a", { href: cell.link }, said(cell.text)) : said(cell.text);
}

// Returns a strip for each series: its rate, or signed difference of rates, as a mark with an interval.
function intervalsOf({ intervals, signed }) {
  const place = (value) => (signed ? (value + 1) / 2 : value);
  return h("div", { class: signed ? "strips signed" : "strips" }, intervals.map(({ series, name, value, low, high }) => {
    const ends = low === null ? "" : `; 95 %: ${percentOf(low)} to ${percentOf(high)}`;
    const words = `${name && `${short(name, 120)}: `}${percentOf(value)}${ends}`;
    return h(
      "div",
      { class: "strip", role: "img", title: words, aria: { label: words }, data: { series: series % 4 } },
      low !== null && h("i", { class: "strip-interval", css: { "--low": place(low), "--high": place(high) } }),
      h("span", { class: "strip-mark", css: { "--at": place(value) } }, seriesMark(series)),
    );
  }));
}

function sharesOf({ shares, kind }) {
  const total = shares.reduce((sum, [, value]) => sum + value, 0);
  const words = shares.map(([name, value]) => `${spaced(name)} ${percentOf(value / total)}`).join(", ");
  return h("div", { class: "bars shares", role: "img", title: words, aria: { label: words } }, shares.map(([name, value]) => h("span", { css: { "--share": value / total, "--phase": colourOf(kind, name) } })));
}

// Returns a small plot for each number, from its least to its greatest value.
function numberPlots(numbers) {
  const told = h("p", { class: "dim", role: "status" });
  const plots = numbers.map(({ name, points }) => {
    const [ats, values] = [points.map(([at]) => at), points.map(([, value]) => value)];
    const marks = points.map(([at, value]) => ({
      at, value, low: value, high: value, key: `number ${name} ${at}`, words: `${name}, iteration ${number(at)}: ${number(value)}.`,
    }));
    const options = { range: [Math.min(...ats), Math.max(...ats)], ends: [Math.min(...values), Math.max(...values)], label: name, size: NUMBER_PLOT };
    return h("section", { class: "card" }, h("h3", {}, said(name)), plotOf([{ series: 0, points: marks }], { ...options, told: ({ words }) => fill(told, said(words)) }));
  });
  return [h("div", { class: "plots" }, plots), told];
}

function colourOf(kind, name) {
  return kind === "phase" ? `var(--${name})` : `var(--cell-${CELL_OF_OUTCOME[name] ?? name})`;
}

function percentOf(value) {
  return `${(100 * value).toFixed(1)} %`;
}
