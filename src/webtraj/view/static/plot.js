// Plots numbers by iteration or step: a line for each series; points have intervals and may be links.

import { drawn } from "./dom.js";
import { number } from "./format.js";

// A mark for each series, so that colour is not the only difference; 10 by 10, centred.
const SERIES_MARKS = ["M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", "M-4 -4h8v8h-8z", "M0 -5 5 0 0 5 -5 0z", "M-5 4 0 -5 5 4z"];
const APART = 5;

// Returns a series' mark, for a legend.
export function seriesMark(series) {
  return drawn("svg", { viewBox: "-8 -6 16 12", class: "mark", data: { series: series % SERIES_MARKS.length }, aria: { hidden: true } }, drawn("path", { d: SERIES_MARKS[series % SERIES_MARKS.length] }));
}

// Returns the plot. `lines` is [{series, points: [{at, value, low, high, words, href, key, open}]}],
// `range` the first and last iteration of the axis; `told` is called with a point that gets focus.
// `ends` are the least and greatest value; without them, values are rates. `href` is optional.
export function plotOf(lines, { range, label, size, told, ends = null }) {
  const [width, height] = size;
  const left = 44;
  const room = { top: 10, right: 14, bottom: 24 };
  const [first, last] = range;
  const x = (at) => left + 12 + ((at - first) / Math.max(1, last - first)) * (width - left - 24 - room.right);
  const [least, most] = ends ?? [0, 1];
  const y = (value) => room.top + (1 - (value - least) / (most - least)) * (height - room.top - room.bottom);
  const links = [];
  const shapes = lines.map(({ series, points }) => {
    const kind = series % SERIES_MARKS.length;
    const beside = (lines.length > 1 ? lines.findIndex((line) => line.series === series) - (lines.length - 1) / 2 : 0) * APART;
    const places = points.map((point) => [x(point.at) + beside, y(point.value)]);
    const way = places.map(([px, py], index) => `${index ? "L" : "M"}${fixed(px)} ${fixed(py)}`).join("");
    const marks = points.map((point, index) => {
      const link = linkOf(point, places[index], [y(point.low), y(point.high)], kind, told);
      links.push(link);
      return link;
    });
    return drawn("g", { data: { series: kind } }, drawn("path", { class: "plot-line", d: way }), marks);
  });
  links.sort((one, other) => Number(one.dataset.x) - Number(other.dataset.x));
  links.forEach((link, index) => link.setAttribute("tabindex", index === 0 ? "0" : "-1"));
  return drawn(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, class: "plot", role: "group", aria: { label }, on: { keydown: (event) => walk(event, links) } },
    axes({ width, height, left, right: room.right, x, y, range, ends, fine: height > 200 }),
    shapes,
  );
}

function linkOf(point, [x, y], [low, high], kind, told) {
  const caps = `M${fixed(x - 3)} ${fixed(high)}h6M${fixed(x)} ${fixed(high)}V${fixed(low)}M${fixed(x - 3)} ${fixed(low)}h6`;
  const tell = () => told(point);
  return drawn(
    point.href ? "a" : "g",
    {
      ...(point.href ? { href: point.href } : { role: "img" }),
      class: point.open ? "point-link open" : "point-link", aria: { label: point.words },
      data: { key: point.key, x: fixed(x) }, on: { pointerenter: tell, focus: tell },
    },
    drawn("path", { class: "interval", d: caps }),
    drawn("path", { class: "plot-mark", d: SERIES_MARKS[kind], transform: `translate(${fixed(x)} ${fixed(y)})` }),
    drawn("circle", { class: "reach", cx: fixed(x), cy: fixed(y), r: 10 }),
  );
}

function axes({ width, height, left, right, x, y, range, ends, fine }) {
  const values = ends ?? (fine ? [0, 0.25, 0.5, 0.75, 1] : [0, 0.5, 1]);
  const [first, last] = range;
  const step = Math.max(1, Math.ceil((last - first + 1) / (fine ? 16 : 6)));
  const numbers = [];
  for (let at = first; at <= last; at += step) numbers.push(at);
  return drawn(
    "g",
    { class: "axes", aria: { hidden: true } },
    values.map((value) => drawn("path", { class: "grid-line", d: `M${left} ${fixed(y(value))}H${width - right}` })),
    values.map((value) => drawn("text", { x: left - 6, y: fixed(y(value) + 4), "text-anchor": "end" }, ends ? number(value) : `${value * 100} %`)),
    numbers.map((at) => drawn("text", { x: fixed(x(at)), y: height - 6, "text-anchor": "middle" }, at)),
  );
}

// The points of a plot share one Tab stop; the arrow keys move between them.
function walk(event, links) {
  const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  const next = links[links.indexOf(event.target) + by];
  if (!by || !links.includes(event.target)) return;
  event.preventDefault();
  next?.focus();
}

function fixed(value) {
  return String(Math.round(value * 10) / 10);
}
