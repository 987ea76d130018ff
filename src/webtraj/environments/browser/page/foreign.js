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

const numbersOf = ({a, b, c, d, e, f}) => [a, b, c, d, e, f];

// The browser sends a click to the process that it last drew at that point. So a click on a frame
// of another process waits until scrolling has been drawn.
async function drawn() {
  const frames = new Promise(resolve => {
    requestAnimationFrame(() => requestAnimationFrame(resolve));
  });
  await Promise.race([frames, new Promise(resolve => later(resolve, LONGEST_FRAME_MS))]);
}

// Converts a point in a frame to this document's window, scrolled into view.
async function throughFrame({ref, point}) {
  const frame = elementOf(ref);
  if (!frame) return {refused: "gone", message: `Frame [${ref}] is no longer in the page.`};
  const outward = () => outwardOf(frame).multiply(outOfFrame(frame));
  if (!point) return {matrix: numbersOf(outward())};
  await drawn();  // The frame may have scrolled this document.
  let matrix, x, y;
  const isOutside = () => {
    matrix = outward();
    [x, y] = moved(matrix, ...point);
    return x < 0 || y < 0 || x >= innerWidth || y >= innerHeight;
  };
  if (isOutside()) {
    dom.scrollIntoView(frame, IN_THE_MIDDLE);
    if (isOutside()) {
      window.scrollBy({left: x - innerWidth / 2, top: y - innerHeight / 2, behavior: "instant"});
    }
    await drawn();
  }
  if (isOutside()) {
    return {refused: "outside", message: `That part of ${shown(frame)} is outside the viewport.`};
  }
  const hit = deepestAt(x, y);
  if (hit === frame) return {matrix: numbersOf(matrix), point: [x, y]};
  const cover = hit ? ` by ${shown(hit)}` : "";
  return {refused: "covered", message: `${shown(frame)} is covered there${cover}.`};
}

// Which of some points in a frame are visible in this document's window.
function seenThroughFrame({ref, points}) {
  const frame = elementOf(ref);
  if (!frame) return points.map(() => false);
  const matrix = outwardOf(frame).multiply(outOfFrame(frame));
  return points.map(point => deepestAt(...moved(matrix, ...point)) === frame);
}
