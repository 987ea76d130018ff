// The page's screenshot, with the action's target marked.

import { fill, h, isOwnPicture, said } from "./dom.js";
import { short } from "./format.js";

// Returns {element, show(steps, position, side)}; side is "before" or "after" the step's action.
// `choose` is called with the side that a person selects.
export function shot(choose) {
  const sides = ["before", "after"].map((side) =>
    h("button", { type: "button", data: { side }, on: { click: () => choose(side) } }, side === "before" ? "Before" : "After"),
  );
  const large = h("button", { type: "button", aria: { pressed: false }, on: { click: () => enlarge() } }, "Actual size");
  const where = h("p", { class: "where" });
  const stage = h("div", { class: "stage-room", tabindex: 0, role: "group", aria: { label: "Screenshot" } });
  const element = h(
    "div",
    { class: "shot" },
    h("div", { class: "shot-bar" }, h("div", { class: "segments", role: "group", aria: { label: "Page before or after the action" } }, sides), where, large),
    stage,
  );
  const enlarge = () => {
    const pressed = stage.classList.toggle("actual");
    large.setAttribute("aria-pressed", String(pressed));
  };
  return {
    element,
    show(steps, position, side) {
      const { step, marked, shown } = sideOf(steps, position, side);
      for (const button of sides) {
        button.setAttribute("aria-pressed", String(button.dataset.side === shown));
        button.disabled = button.dataset.side === "before" && position === 0;
      }
      fill(where, said(short(step?.title ?? "", 80), "title"), " ", said(short(withoutFolders(step?.url ?? ""), 160)));
      fill(stage, picture(step, marked, `The page ${shown} step ${steps[position]?.index ?? ""}`));
    },
  };
}

// Shortens a file URL to its folder and name.
function withoutFolders(url) {
  return url.replace(/^file:\/\/\/.*\/([^/]+\/[^/]+)$/, "…/$1");
}

// Returns the step whose observation a side shows, and the action to mark on it.
export function sideOf(steps, position, side) {
  const after = side === "after" || position === 0;
  const step = steps[after ? position : position - 1];
  return { step, marked: after ? null : steps[position]?.action, shown: after ? "after" : "before" };
}

// Returns a step's image with the action's point and box, or a text if there is no image.
export function picture(step, action, alt) {
  const image = step?.image;
  if (!image || !isOwnPicture(image.url)) return h("p", { class: "nothing" }, "No screenshot was recorded.");
  const img = h("img", { src: image.url, alt, decoding: "async", draggable: "false" });
  const sheet = h("div", { class: "sheet" }, img);
  const frame = h("div", { class: "stage" }, sheet);
  const measure = (width, height) => {
    if (!(width > 0 && height > 0)) return;
    sheet.querySelectorAll(".box, .point").forEach((mark) => mark.remove());
    // Coordinates are in viewport pixels; the image may be smaller.
    const [across, down] = isNumbers(step.viewport, 2) ? step.viewport : [width, height];
    const marks = marksOf(action, across, down);
    sheet.append(...marks);
    // The empty rest of a small picture is left out, unless the action went there.
    const at = (mark, name) => Number(mark.style.getPropertyValue(name));
    const within = ([right, bottom]) => marks.every((mark) => at(mark, "--x") * width <= right && at(mark, "--y") * height <= bottom);
    const content = isNumbers(image.content, 2) && within(image.content) ? image.content : [width, height];
    frame.style.setProperty("--w", content[0]);
    frame.style.setProperty("--h", content[1]);
    sheet.style.setProperty("--across", width / content[0]);
    sheet.style.setProperty("--down", height / content[1]);
  };
  measure(Number(image.width), Number(image.height));
  img.addEventListener("load", () => !(Number(image.width) > 0) && measure(img.naturalWidth, img.naturalHeight));
  img.addEventListener("error", () => fill(frame, h("p", { class: "nothing" }, "The screenshot cannot be shown.")));
  return frame;
}

// An action on an element's ref has no point; then its centre was clicked.
function marksOf(action, width, height) {
  const marks = [];
  const box = isNumbers(action?.box, 4) && action.box[2] > 0 && action.box[3] > 0 ? action.box : null;
  if (box) {
    const [x, y, across, down] = box;
    marks.push(h("span", { class: "box", css: { "--x": x / width, "--y": y / height, "--bw": across / width, "--bh": down / height } }));
  }
  const points = Array.isArray(action?.path) ? action.path.slice(0, 100) : [action?.point];
  if (!action?.point && box && /click|tap|press|hover|check|select/i.test(action.verb ?? "")) {
    points.push([box[0] + box[2] / 2, box[1] + box[3] / 2]);
  }
  for (const point of points.filter((one) => isNumbers(one, 2))) {
    marks.push(h("span", { class: "point", css: { "--x": point[0] / width, "--y": point[1] / height } }));
  }
  return marks;
}

function isNumbers(values, length) {
  return Array.isArray(values) && values.length === length && values.every(Number.isFinite);
}
