// Notices and error messages.

import { fill, h, said } from "./dom.js";

const SHOWN_FOR = 4_000;
let hiding = 0;

// Shows a notice at the foot of the page. Problems stay until they are closed.
export function notify(text, { problem = false } = {}) {
  const place = document.getElementById("notices");
  clearTimeout(hiding);
  const close = h("button", { type: "button", class: "quiet", on: { click: () => fill(place) } }, "Close");
  fill(place, h("div", { class: problem ? "notice problem" : "notice" }, said(text), problem && close));
  if (!problem) hiding = setTimeout(() => fill(place), SHOWN_FOR);
}

// Returns an error message that replaces content that could not be loaded, with a link elsewhere.
export function failureNotice(what, error, retry = null, back = null) {
  return h(
    "div",
    { class: "empty", role: "alert" },
    h("h2", {}, what),
    h("p", {}, said(error.message)),
    retry && h("button", { type: "button", on: { click: retry } }, "Try again"),
    back,
  );
}
