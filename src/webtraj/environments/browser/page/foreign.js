// Frames of another origin, seen from the surrounding document: this script cannot look into them,
// but reports where they are, and whether a point of one can be reached.
const LEAST_SIDE = 3;  // Of a frame with content; trackers have one pixel.
const LONGEST_FRAME_MS = 100;  // A background tab draws no frames.

function foreignFrames(found) {
  const frames = [];
  for (const {element, line, depth, private: rule, covered} of found) {
    const {width, height} = dom.getBoundingClientRect(element);
    if (width < LEAST_SIDE || height < LEAST_SIDE) continue;
    const place = {ref: refOf(element), line, depth, covered, matrix: numbersOf(outwardOf(element).multiply(outOfFrame(element)))};
    frames.push(rule ? {...place, private: rule} : place);
  }
  return frames;
}

const numbersOf = ({m11, m12, m14, m21, m22, m24, m41, m42, m44}) =>
  [m11, m12, m14, m21, m22, m24, m41, m42, m44].map(number => Number.isFinite(number) ? number : 0);

// The browser sends a click to the process that it last drew at that point. So a click on a frame
// of another process waits until scrolling has been drawn.
async function drawn() {
  const frames = new Promise(resolve => {
    requestAnimationFrame(() => requestAnimationFrame(resolve));
  });
  await Promise.race([frames, new Promise(resolve => later(resolve, LONGEST_FRAME_MS))]);
}

// Converts points in a frame to this document's window, with the first in view; drops those that are
// covered there.
async function throughFrame({ref, points}) {
  const frame = elementOf(ref);
  if (!frame) return {refused: "gone", message: `Frame [${ref}] is no longer in the page.`};
  const outward = () => outwardOf(frame).multiply(outOfFrame(frame));
  if (!points) return {matrix: numbersOf(outward())};
  await drawn();  // The frame may have scrolled this document.
  const reached = () => {
    const matrix = outward();
    return points.map(point => moved(matrix, ...point)).filter(([x, y]) => deepestAt(x, y) === frame);
  };
  let found = reached();
  const middle = () => moved(outward(), ...points[0]);
  if (!found.length) {
    scrollToPoint(frame, middle);
    await drawn();
    found = reached();
  }
  if (found.length) return {matrix: numbersOf(outward()), points: found};
  const [x, y] = middle();
  if (!(x >= 0 && y >= 0 && x < innerWidth && y < innerHeight)) {
    return {refused: "outside", message: `That part of ${shown(frame)} is outside the viewport.`};
  }
  const hit = deepestAt(x, y);
  return {refused: "covered", message: `${shown(frame)} is covered there${hit ? ` by ${shown(hit)}` : ""}.`};
}

// Scrolls what scrolls around a frame until each shows the point.
function scrollToPoint(frame, point) {
  dom.scrollIntoView(frame, IN_THE_MIDDLE);
  for (let node = parentOnScreen(frame); node; node = parentOnScreen(node)) {
    if (dom.nodeType(node) !== Node.ELEMENT_NODE) continue;
    const isPage = node === dom.ownerDocument(node).scrollingElement;
    if (!isPage && !scrolls(node, styleOf(node))) continue;
    const [left, top, width, height] = isPage ? [0, 0, innerWidth, innerHeight] : boxOf(node);
    const [x, y] = point();
    if (x >= left && y >= top && x < left + width && y < top + height) continue;
    node.scrollBy({left: x - left - width / 2, top: y - top - height / 2, behavior: "instant"});
  }
}

// Which of some points in a frame are visible in this document's window.
function seenThroughFrame({ref, points}) {
  const frame = elementOf(ref);
  if (!frame) return points.map(() => false);
  const matrix = outwardOf(frame).multiply(outOfFrame(frame));
  return points.map(point => deepestAt(...moved(matrix, ...point)) === frame);
}
