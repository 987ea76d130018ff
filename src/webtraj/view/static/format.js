// Format numbers, times and names for people.

import { h, icon } from "./dom.js";

const END_AT_MOST = 24;

export const OUTCOMES = {
  success: { mark: "M3 8.5 6.5 12 13 4.5", words: "success" },
  failure: { mark: "M4 4 12 12 M12 4 4 12", words: "failure" },
  blocked: { mark: "M3 8h10", words: "blocked" },
  env_error: { mark: "M8 3v6 M8 12v.6", words: "env error" },
  agent_error: { mark: "M8 3v6 M8 12v.6", words: "agent error" },
  model_error: { mark: "M8 3v6 M8 12v.6", words: "model error" },
  judge_error: { mark: "M8 3v6 M8 12v.6", words: "judge error" },
  timeout: { mark: "M8 3v5l3 2", words: "timeout" },
  cancelled: { mark: "M3 13 13 3", words: "cancelled" },
  running: { mark: "M5 3.5v9l7-4.5z", words: "running" },
  unsealed: { mark: "M4 8h1 M8 8h.1 M12 8h.1", words: "cut short" },
  unknown: { mark: "M8 8h.1", words: "unknown" },
};

// Returns an outcome as a badge: a mark and a word, so that colour is not the only difference.
export function outcomeBadge(name) {
  const key = Object.hasOwn(OUTCOMES, name) ? name : "unknown";
  const words = key === "unknown" && name ? name : OUTCOMES[key].words;
  return h("span", { class: "badge", data: { outcome: key } }, icon(OUTCOMES[key].mark), h("bdi", {}, words));
}

// Returns an episode's outcome, or its state while it is open.
export function stateOf(episode) {
  return episode.end?.outcome ?? (episode.state || "running");
}

// Returns seconds as `340 ms`, `2.1 s`, `3 min 20 s` or `2 h 5 min`.
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

// Returns a number with few digits; null as a dash.
export function number(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) return value === null || value === undefined ? "–" : String(value);
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return String(Number(value.toPrecision(3)));
}

// Returns a share from 0 to 1 in percent: `69 %`, `99.5 %`.
export function percent(share) {
  const value = 100 * share;
  const digits = value > 99 || value < 1 ? 1 : 0;
  return `${Number(value.toFixed(digits))} %`;
}

// Returns a name like `env_error` as words.
export function spaced(name) {
  return name.replaceAll("_", " ");
}

// Returns `1 step`, `2 steps`.
export function count(value, noun) {
  return `${number(value)} ${noun}${value === 1 ? "" : "s"}`;
}

// Returns a time, in seconds since the epoch, as text in the local time zone.
export function when(seconds, { brief = false } = {}) {
  if (!Number.isFinite(seconds)) return "–";
  const date = new Date(seconds * 1000);
  if (Number.isNaN(date.getTime())) return "–";
  const two = (part) => String(part).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const minute = `${day} ${two(date.getHours())}:${two(date.getMinutes())}`;
  return brief ? minute : `${minute}:${two(date.getSeconds())}`;
}

// Returns the start of a text, on one line.
export function short(text, length = 120) {
  const line = String(text ?? "").slice(0, length * 4).replace(/\s+/g, " ").trim();
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}

// Returns the name of a task or policy, on one line. Names of one list often begin alike: where there
// is no room for the whole, the beginning gives way, up to the last slash or to the last few words.
export function nameOf(name) {
  const end = name.slice(name.lastIndexOf("/", name.length - 2) + 1);
  const words = end.length > END_AT_MOST ? end.slice(-END_AT_MOST).replace(/^[^-_.\s]*(?=[-_.\s].)/, "") : end;
  const begin = name.slice(0, name.length - words.length);
  return h("span", { class: "name", dir: "auto" }, begin && h("span", { class: "family" }, begin), h("span", {}, words));
}

// Returns a value as text: strings unchanged, other values as JSON.
export function asText(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value, null, 1);
}

// Whether a value has nothing to show.
export function isEmpty(value) {
  if (value === null || value === undefined || value === "") return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}
