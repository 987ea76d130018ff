// Any value as a tree that unfolds; members are created when they are unfolded.

import { add, h, said } from "./dom.js";
import { short } from "./format.js";

const MEMBERS_AT_ONCE = 200;
const OPEN_BELOW = 12;

// Returns a value as a tree, with the outer members and small values unfolded.
export function jsonTree(value, depth = 0) {
  if (value === null || typeof value !== "object") return leaf(value);
  const members = Object.entries(value);
  if (members.length === 0) return h("span", { class: "json-leaf" }, Array.isArray(value) ? "[ ]" : "{ }");
  const list = h("ul", { class: "json" });
  showMembers(list, members, 0, depth);
  return list;
}

function showMembers(list, members, from, depth) {
  for (const [name, value] of members.slice(from, from + MEMBERS_AT_ONCE)) list.append(member(name, value, depth));
  const rest = members.length - from - MEMBERS_AT_ONCE;
  if (rest <= 0) return;
  const more = h("li", {}, h("button", { type: "button", class: "more", on: { click: showMore } }, `${rest.toLocaleString("en")} more`));
  function showMore() {
    more.remove();
    showMembers(list, members, from + MEMBERS_AT_ONCE, depth);
  }
  list.append(more);
}

function member(name, value, depth) {
  const key = said(short(name, 200), "json-key");
  const size = value !== null && typeof value === "object" ? Object.keys(value).length : 0;
  if (size === 0) return h("li", {}, key, leafOrEmpty(value));
  const words = Array.isArray(value) ? `[${size}]` : `{${size}}`;
  const details = h("details", {}, h("summary", {}, key, h("span", { class: "json-size" }, words)));
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) add(details, jsonTree(value, depth + 1));
  });
  if (depth === 0 && size <= OPEN_BELOW) details.open = true;
  return h("li", {}, details);
}

function leafOrEmpty(value) {
  return value !== null && typeof value === "object" ? jsonTree(value) : leaf(value);
}

function leaf(value) {
  const type = value === null ? "null" : typeof value;
  const text = type === "string" ? value : String(value);
  if (text.length > 400) {
    const details = h("details", {}, h("summary", {}, said(short(text, 160), "json-leaf")));
    details.addEventListener("toggle", () => {
      if (details.open && details.childElementCount === 1) add(details, wholeText(text));
    });
    return details;
  }
  return h("bdi", { class: "said json-leaf", data: { type }, dir: "auto" }, type === "string" ? JSON.stringify(value) : text);
}

function wholeText(text) {
  return h("pre", { class: "said", dir: "auto" }, text.length > 200_000 ? `${text.slice(0, 200_000)}…` : text);
}
