// What lies over an element so that a person cannot see it, or not use it.
const PAINTED = new Set(["IMG", "CANVAS", "VIDEO", "IFRAME", "FRAME", "OBJECT", "EMBED"]);
const PROBES = [[0.5, 0.5], [0.1, 0.1], [0.9, 0.1], [0.1, 0.9], [0.9, 0.9]];

const MOST_TESTS = 400;  // In a tree: finding what is at a point takes time by the number of elements.
let tests = 0;
let modal = null;  // The dialog that makes the rest of the document inert.

// Of several, the last that was opened: it alone is not inert, so it alone can be hit.
function noteModal() {
  tests = 0;
  const modals = [...inRoot(document, "querySelectorAll", "dialog:modal")].reverse();
  modal = (modals.length > 1 && modals.find(isHit)) || (modals[0] ?? null);
}

function isHit(element) {
  for (const point of candidatePoints(element)) if (isWithin(deepestAt(...point), element)) return true;
  return false;
}

// Only what is inside the viewport can be tested: one point is enough for what can be seen.
function isCovered(element) {
  if (modal && !isWithin(element, modal)) return true;
  if (tests >= MOST_TESTS) return false;
  const rect = rectOf(element);
  if (!isAllCovered(element, rect)) return false;
  if (styleOf(element).pointerEvents === "none") return false;
  const seen = clippedByScrollers(element, rect);
  return seen === rect || (hasArea(seen) && isAllCovered(element, seen));
}

function isAllCovered(element, rect) {
  const view = windowOf(dom.ownerDocument(element));
  const left = Math.max(rect.left, 0), right = Math.min(rect.right, view.innerWidth);
  const top = Math.max(rect.top, 0), bottom = Math.min(rect.bottom, view.innerHeight);
  if (right <= left || bottom <= top) return false;
  const matrix = outwardOf(element);
  let tested = false;
  for (const [fx, fy] of PROBES) {
    const [x, y] = moved(matrix, left + (right - left) * fx, top + (bottom - top) * fy);
    if (x < 0 || y < 0 || x >= innerWidth || y >= innerHeight) continue;
    const hit = deepestAt(x, y);
    tests++;
    if (!hit || isWithin(hit, element) || isWithin(element, hit)) return false;
    if (labelAround(hit)?.control === element || !hides(hit, element)) return false;
    tested = true;
  }
  return tested;
}

// Whether something is painted between what is hit and what both are in.
function hides(hit, element) {
  let painted = false;
  for (let node = hit; node && !isWithin(element, node); node = parentOnScreen(node)) {
    if (dom.nodeType(node) !== Node.ELEMENT_NODE) continue;
    const style = styleOf(node);
    if (style.opacity === "0") return false;
    painted ||= PAINTED.has(dom.tagName(node)) || colorOf(style) !== "" || style.backgroundImage !== "none";
  }
  return painted;
}

// The part of an element that the lists around it show.
function clippedByScrollers(element, rect) {
  let clipped = rect;
  for (let node = parentOnScreen(element); node; node = parentOnScreen(node)) {
    if (dom.nodeType(node) === Node.DOCUMENT_NODE) break;
    if (dom.nodeType(node) !== Node.ELEMENT_NODE || styleOf(node).overflow === "visible") continue;
    const box = dom.getBoundingClientRect(node);
    const left = Math.max(clipped.left, box.left), right = Math.min(clipped.right, box.right);
    const top = Math.max(clipped.top, box.top), bottom = Math.min(clipped.bottom, box.bottom);
    if (left > clipped.left || right < clipped.right || top > clipped.top || bottom < clipped.bottom) {
      clipped = {left, top, right, bottom, width: right - left, height: bottom - top};
    }
  }
  return clipped;
}
