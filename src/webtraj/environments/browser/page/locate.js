// From a ref to a point that trusted input can be sent to, or to the reason why there is none.
const TEST_ID_ATTRIBUTES = ["data-testid", "data-test-id", "data-test", "data-cy", "data-qa"];

class Refusal extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

function resolve(ref) {
  const element = elementOf(ref);
  if (element) return element;
  if (elementByRef.has(ref)) {
    throw new Refusal("gone", `Element [${ref}] is no longer in the page.`);
  }
  throw new Refusal("unknown_ref", `No element [${ref}] is in the current observation.`);
}

// Where frames are: a matrix takes a point of a frame's window to the window around it. The browser
// tells where in an element the point of an event is, whatever turns, scales or bends the element; four
// points tell the rest. The event's name is unknown to the page, so nobody hears it.
const {DOMMatrix: Matrix, DOMPoint: Point, PointerEvent: Probe} = window;
const PROBE = `probe${Math.random()}`;
const HERE = new Matrix();

function placeIn(frame, clientX, clientY) {
  const event = new Probe(PROBE, {view: windowOf(dom.ownerDocument(frame)), clientX, clientY});
  dom.dispatchEvent(frame, event);
  return [event.offsetX, event.offsetY];
}

function outOfFrame(frame) {
  const {left, top, right, bottom} = dom.getBoundingClientRect(frame);
  // Of a frame that is bent, parts may be at no point of the screen.
  const [x0, x1] = middleOf(left, right, innerWidth), [y0, y1] = middleOf(top, bottom, innerHeight);
  const corners = [[x0, y0], [x1, y0], [x1, y1], [x0, y1]].map(([x, y]) => placeIn(frame, x, y));
  const style = styleOf(frame), zoom = frame.currentCSSZoom ?? 1;
  return new Matrix([1 / zoom, 0, 0, 1 / zoom, -(parseFloat(style.paddingLeft) || 0), -(parseFloat(style.paddingTop) || 0)])
    .multiply(ontoCorners(corners))
    .multiply(new Matrix([1 / (x1 - x0), 0, 0, 1 / (y1 - y0), -x0 / (x1 - x0), -y0 / (y1 - y0)]))
    .inverse();
}

function middleOf(from, to, room) {
  if (to > -room && from < 2 * room) [from, to] = [Math.max(from, -room), Math.min(to, 2 * room)];
  return [0.75 * from + 0.25 * to, 0.25 * from + 0.75 * to];
}

// From the unit square to four points in turn (Heckbert, 1989).
function ontoCorners([[x0, y0], [x1, y1], [x2, y2], [x3, y3]]) {
  const rest = (p, q, r, s) => Math.abs(p - q + r - s) < 1e-3 ? 0 : p - q + r - s;  // As it is without depth.
  const sx = rest(x0, x1, x2, x3), sy = rest(y0, y1, y2, y3);
  const area = (x1 - x2) * (y3 - y2) - (x3 - x2) * (y1 - y2);
  const g = (sx * (y3 - y2) - (x3 - x2) * sy) / area, h = ((x1 - x2) * sy - sx * (y1 - y2)) / area;
  return new Matrix([
    x1 - x0 + g * x1, y1 - y0 + g * y1, 0, g,
    x3 - x0 + h * x3, y3 - y0 + h * y3, 0, h,
    0, 0, 1, 0,
    x0, y0, 0, 1,
  ]);
}

// While much is measured and nothing moves: the matrix of each document's window.
let matrixByDocument = null;

function measuring(work) {
  matrixByDocument = new Map();
  try {
    return work();
  } finally {
    matrixByDocument = null;
  }
}

// From an element's window to the top window.
function outwardOf(element) {
  const inner = dom.ownerDocument(element);
  if (inner === document) return HERE;
  const known = matrixByDocument?.get(inner);
  if (known) return known;
  const frame = windowOf(inner)?.frameElement;
  const matrix = frame ? outwardOf(frame).multiply(outOfFrame(frame)) : HERE;
  matrixByDocument?.set(inner, matrix);
  return matrix;
}

// Not a number for a point that is behind the eye.
const moved = (matrix, x, y) => {
  if (matrix === HERE) return [x, y];
  const point = matrix.transformPoint(new Point(x, y));
  return point.w > 0 ? [tidy(point.x / point.w), tidy(point.y / point.w)] : [NaN, NaN];
};
const tidy = number => Math.round(number * 1e3) / 1e3;

// The rectangle around a moved one.
function movedBox(matrix, {left, top, width, height}) {
  if (matrix === HERE) return [left, top, width, height];
  const corners = [[0, 0], [width, 0], [0, height], [width, height]]
    .map(([x, y]) => moved(matrix, left + x, top + y)).filter(([x]) => !Number.isNaN(x));
  if (!corners.length) return [0, 0, 0, 0];
  const xs = corners.map(([x]) => x), ys = corners.map(([, y]) => y);
  const x = Math.min(...xs), y = Math.min(...ys);
  return [x, y, Math.max(...xs) - x, Math.max(...ys) - y];
}

// The rectangles of an area of an image map, an element's fragments, or else what it holds.
function rectsOf(element) {
  if (dom.tagName(element) === "AREA") return areaRects(element);
  const rects = [...dom.getClientRects(element)].filter(hasArea);
  return rects.length ? rects : contentRectsOf(element, []);
}

const hasArea = rect => rect.width > 0 && rect.height > 0;
const MOST_RECTS = 20;

// Of an element without an area of its own: of the text and the elements in it that have one.
function contentRectsOf(element, found) {
  for (const child of childNodesOf(element)) {
    if (found.length >= MOST_RECTS) break;
    if (dom.nodeType(child) === Node.TEXT_NODE) found.push(...rectsOfText(child));
    else if (dom.nodeType(child) === Node.ELEMENT_NODE && isRendered(child)) {
      const rects = [...dom.getClientRects(child)].filter(hasArea);
      if (rects.length) found.push(...rects);
      else contentRectsOf(child, found);
    }
  }
  return found;
}

function rectsOfText(text) {
  if (!/\S/.test(text.data)) return [];
  const range = dom.ownerDocument(text).createRange();
  range.selectNodeContents(text);
  return [...range.getClientRects()].filter(hasArea);
}

// The image that shows an area of a map.
function imageOfArea(area) {
  const name = dom.getAttribute(dom.closest(area, "map") ?? area, "name");
  const root = dom.getRootNode(area);
  const images = name ? inRoot(root, "querySelectorAll", "img[usemap]") : [];
  return [...images].find(image => dom.getAttribute(image, "usemap") === `#${name}` && isRendered(image));
}

function areaRects(area) {
  const image = imageOfArea(area);
  if (!image) return [];
  const box = dom.getBoundingClientRect(image);
  const numbers = (dom.getAttribute(area, "coords") ?? "").split(/[\s,]+/).map(Number);
  const shape = (dom.getAttribute(area, "shape") ?? "rect").toLowerCase();
  if (shape === "default") return [box];
  if (numbers.length < 3 || numbers.some(Number.isNaN)) return [];
  let xs = numbers.filter((_, at) => at % 2 === 0), ys = numbers.filter((_, at) => at % 2);
  if (shape.startsWith("circ")) {
    const [x, y, radius] = numbers;
    [xs, ys] = [[x - radius, x + radius], [y - radius, y + radius]];
  }
  const zoom = image.currentCSSZoom ?? 1;
  const left = box.left + zoom * Math.min(...xs), top = box.top + zoom * Math.min(...ys);
  const width = zoom * (Math.max(...xs) - Math.min(...xs)), height = zoom * (Math.max(...ys) - Math.min(...ys));
  return [{left, top, width, height, right: left + width, bottom: top + height}].filter(hasArea);
}

// The rectangle around several.
function around(rects) {
  const left = Math.min(...rects.map(rect => rect.left)), top = Math.min(...rects.map(rect => rect.top));
  const right = Math.max(...rects.map(rect => rect.right)), bottom = Math.max(...rects.map(rect => rect.bottom));
  return {left, top, right, bottom, width: right - left, height: bottom - top};
}

function rectOf(element) {
  const box = dom.getBoundingClientRect(element);
  if (hasArea(box)) return box;
  const rects = rectsOf(element);
  return rects.length ? around(rects) : box;
}

function boxOf(element) {
  return movedBox(outwardOf(element), rectOf(element));
}

const GENERATED = /\d{4}/;  // An id that may differ when the page is loaded again.

// A CSS selector of an element in its document. ` >> ` leads from a host into its open shadow root, as in
// Playwright, which also searches the host's own children there. In a closed root, the selector begins at the root.
function selectorOf(element) {
  const root = dom.getRootNode(element), {host} = root;
  const parts = [];
  for (let node = element; node; node = dom.parentElement(node)) {
    const byId = !host && dom.id(node) && `#${CSS.escape(dom.id(node))}`;
    if (byId && (node === element || !GENERATED.test(byId)) && inRoot(root, "querySelectorAll", byId).length === 1) {
      parts.unshift(byId);
      break;
    }
    parts.unshift(partOf(node));
  }
  if (!host) return parts.join(" > ");
  const into = openRootOf(host) === root ? `${selectorOf(host)} >> ` : "";
  return `${into}:scope > ${parts.join(" > ")}`;
}

function partOf(node) {
  const parent = dom.parentElement(node) ?? dom.getRootNode(node).host;
  if (!parent) return CSS.escape(dom.localName(node));
  const alike = elementsIn(dom.parentNode(node)).filter(other => dom.localName(other) === dom.localName(node));
  const place = alike.length > 1 ? `:nth-of-type(${alike.indexOf(node) + 1})` : "";
  let part = `${CSS.escape(dom.localName(node))}${place}`;
  const within = [parent, openRootOf(parent)].filter(Boolean).flatMap(elementsIn);
  for (const other of within) if (other !== node && dom.matches(other, part)) part += differenceOf(node, other);
  return part;
}

const elementsIn = parent => [...dom.childNodes(parent)].filter(node => dom.nodeType(node) === Node.ELEMENT_NODE);

// An attribute that distinguishes a child of a host from one of its root.
function differenceOf(node, other) {
  for (const name of ["slot", "part", "id", "class"]) {
    const value = dom.getAttribute(node, name);
    if (value !== null && value !== dom.getAttribute(other, name)) return `[${name}="${CSS.escape(value)}"]`;
    if (value === null && dom.hasAttribute(other, name)) return `:not([${name}])`;
  }
  return "";
}

// What an element is to a person: the label of a box that cannot be seen is that box.
function meaningOf(element) {
  const control = dom.tagName(element) === "LABEL" ? element.control : null;
  return control && STANDS_FOR.has(control.type) && !isShown(control) ? control : element;
}

function describe(element) {
  const meant = meaningOf(element);
  const role = roleOf(meant);
  const name = nameOf(meant, role) ||
    (dom.childElementCount(element) ? "" : squeeze(dom.textContent(element) ?? "").slice(0, 200));
  const testIdAttribute = TEST_ID_ATTRIBUTES.find(attribute => dom.hasAttribute(element, attribute));
  return {
    ref: refOf(element),
    role,
    name,
    test_id: testIdAttribute ? dom.getAttribute(element, testIdAttribute) : "",
    named_by: meant === element ? namedBy(element, role, name).join(" ") : "label",
    selector: selectorOf(element),
    frame: dom.ownerDocument(element) === document ? "" : dom.ownerDocument(element).location.href,
    box: boxOf(element),
  };
}

const shown = element => {
  const {ref, role, name} = describe(element);
  return `[${ref}] ${role}${name ? ` ${toJson(name.slice(0, 80))}` : ""}`;
};

function deepestAt(x, y) {
  let root = document, found = null;
  while (Number.isFinite(x) && Number.isFinite(y)) {
    const next = inRoot(root, "elementFromPoint", x, y);
    if (!next || next === found) return found;
    found = next;
    const inner = dom.shadowRoot(found) ?? frameDocumentOf(found);
    if (!inner) return found;
    if (inner === dom.shadowRoot(found)) root = inner;
    else {
      [x, y] = moved(outOfFrame(found).inverse(), x, y);
      root = inner;
    }
  }
  return found;
}

const parentAcrossShadow = node => dom.parentNode(node) ?? node.host ?? null;

// As it is drawn: through slots, and out of frames of this origin.
const parentOnScreen = node => {
  const type = dom.nodeType(node);
  if (type === Node.ELEMENT_NODE) return dom.assignedSlot(node) ?? dom.parentNode(node);
  return type === Node.DOCUMENT_NODE ? windowOf(node)?.frameElement : parentAcrossShadow(node);
};

function isWithin(node, ancestor) {
  for (; node; node = parentOnScreen(node)) if (node === ancestor) return true;
  return false;
}

// The control that a label stands for.
const controlOf = element =>
  dom.tagName(element) === "LABEL" ? element.control ?? element : element;

// What a press at a point would act on, if that is a control of its own inside the element; null if a
// press there is one on the element itself.
function controlWithin(hit, element) {
  const own = controlOf(element);
  for (let node = hit; node && node !== element; node = parentOnScreen(node)) {
    if (dom.nodeType(node) === Node.ELEMENT_NODE && node !== own && isControl(node)) return node;
  }
  return null;
}

// Whether something plain in the element does something of its own when it is pressed.
function hasHandlerWithin(hit, element) {
  for (let node = hit; node && node !== element; node = parentOnScreen(node)) {
    if (dom.nodeType(node) !== Node.ELEMENT_NODE) continue;
    if ((clickHandlerOf(node) ?? null) !== null || dom.hasAttribute(node, "onclick")) return true;
  }
  return false;
}

const isControl = node => ACTED_ON.has(roleOf(node)) || dom.tagName(node) === "IFRAME";

// Whether a press at what a point hits is one on the element, or on a label of it.
function reaches(hit, element) {
  if (hit === null) return false;
  if (isWithin(hit, element)) return true;
  const label = labelAround(hit);
  return label !== null && label.control === element;
}

function labelAround(node) {
  for (; node; node = parentAcrossShadow(node)) {
    if (dom.nodeType(node) === Node.ELEMENT_NODE && dom.tagName(node) === "LABEL") return node;
  }
  return null;
}

const othersThere = (hit, element) =>
  controlWithin(hit, isWithin(hit, element) ? element : labelAround(hit));

// Points in the top window, in order of preference: centres of the element's fragments, then a grid.
function* candidatePoints(element) {
  const rects = rectsOf(element);
  if (!rects.length) return;
  const matrix = outwardOf(element);
  const view = windowOf(dom.ownerDocument(element));
  for (const rect of rects.slice(0, 4)) yield* pointsIn(rect, matrix, view, [0.5]);
  yield* pointsIn(around(rects), matrix, view, [0.5, 0.25, 0.75, 0.05, 0.95]);
}

function* pointsIn(rect, matrix, view, fractions) {
  const left = Math.max(rect.left, 0), top = Math.max(rect.top, 0);
  const right = Math.min(rect.right, view.innerWidth), bottom = Math.min(rect.bottom, view.innerHeight);
  if (right <= left || bottom <= top) return;
  for (const fy of fractions) for (const fx of fractions) {
    const [x, y] = moved(matrix, left + (right - left) * fx, top + (bottom - top) * fy);
    if (x >= 0 && y >= 0 && x < innerWidth && y < innerHeight) yield [x, y];
  }
}

function requireVisible(element) {
  if (!isRendered(element) || styleOf(element).visibility !== "visible") {
    throw new Refusal("hidden", `${shown(element)} cannot be seen.`);
  }
}

function requireEnabled(element) {
  if (isDisabled(element)) throw new Refusal("disabled", `${shown(element)} is disabled.`);
}

// The points of an element that a click reaches, the best first; if there is none, what covers it. A point on another
// control comes last, and only if that is the same thing to a person or the element is no control.
function reach(element) {
  const found = {points: [], cover: null, inside: false, other: null};
  let last = null, worse = null;
  for (const [x, y] of candidatePoints(element)) {
    found.inside = true;
    const hit = deepestAt(x, y);
    if (!reaches(hit, element)) {
      found.cover ??= hit;
      continue;
    }
    const other = othersThere(hit, element);
    if (other) last ??= {point: [x, y], other};
    else if (hasHandlerWithin(hit, isWithin(hit, element) ? element : labelAround(hit))) worse ??= [x, y];
    else found.points.push([x, y]);
    if (found.points.length && window === window.top) break;  // Elsewhere the frame may be covered there.
  }
  if (found.points.length) return found;
  if (worse) return {...found, points: [worse]};
  if (!last) return found;
  const role = roleOf(element), name = nameOf(element, role);
  const same = !isControl(element) || role === "combobox" ||
    (name !== "" && nameOf(last.other, roleOf(last.other)) === name);
  return same ? {...found, points: [last.point]} : {...found, other: last.other};
}

const IN_THE_MIDDLE = {block: "center", inline: "center", behavior: "instant"};

// What to scroll to, for an element that may have no area of its own.
function scrollToMiddle(element) {
  const target = dom.tagName(element) === "AREA" ? imageOfArea(element) : element;
  dom.scrollIntoView(target && isBoxed(target) ? target : firstBoxedIn(target ?? element), IN_THE_MIDDLE);
}

const isBoxed = element => [...dom.getClientRects(element)].some(hasArea);

function firstBoxedIn(element) {
  for (const child of childNodesOf(element)) {
    if (dom.nodeType(child) !== Node.ELEMENT_NODE) continue;
    if (isBoxed(child)) return child;
    const inner = firstBoxedIn(child);
    if (inner !== child) return inner;
  }
  return element;
}

// The same with the element in the middle of the lists that it is in, which may have hidden it, as
// may a bar at the edge. What was scrolled in vain is scrolled back.
function reachByScrolling(element) {
  const before = [];
  for (let node = element; node; node = parentAcrossShadow(node)) {
    if (dom.nodeType(node) !== Node.ELEMENT_NODE) continue;
    before.push([node, {left: dom.scrollLeft(node), top: dom.scrollTop(node), behavior: "instant"}]);
  }
  scrollToMiddle(element);
  const found = reach(element);
  if (!found.points.length) for (const [node, place] of before) dom.scrollTo(node, place);
  return found;
}

function reachInView(element) {
  const [x, y, width, height] = boxOf(element);
  if (x < 0 || y < 0 || x + width > innerWidth || y + height > innerHeight) scrollToMiddle(element);
  const found = reach(element);
  return found.points.length ? found : reachByScrolling(element);
}

// The labels that a person presses instead of a control: of a checkbox, a radio button or a choice of
// files that cannot be reached itself.
const STANDS_FOR = new Set(["checkbox", "radio", "file"]);
const labelsInsteadOf = element =>
  dom.tagName(element) === "INPUT" && STANDS_FOR.has(element.type)
    ? labelsOf(element).filter(isVisible) : [];

const isVisible = element => isRendered(element) && styleOf(element).visibility === "visible";

// What to press: one point in this window or, in a frame of another origin, several to choose from.
function pointsOf(element) {
  const labels = labelsInsteadOf(element);
  if (!labels.length && dom.tagName(element) !== "AREA") requireVisible(element);
  const found = {cover: null, inside: false, other: null};
  for (const target of isVisible(element) || !labels.length ? [element, ...labels] : labels) {
    const {points, cover, inside, other} = reachInView(target);
    if (points.length) return {point: points[0], points};
    found.cover ??= cover;
    found.inside ||= inside;
    found.other ??= other;
  }
  if (found.other) {
    throw new Refusal("covered", `${shown(found.other)} lies on all of ${shown(element)}: click that instead.`);
  }
  if (!found.inside) {
    throw new Refusal("outside", `${shown(element)} has no area inside the viewport.`);
  }
  throw new Refusal("covered", found.cover
    ? `${shown(element)} is covered by ${shown(found.cover)}.` : `${shown(element)} takes no clicks.`);
}
