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

// Where frames are: a matrix takes a point of a frame's window to the window around it. What of it is
// not a shift (scaling, turning, zoom) is the product of what the frame and the boxes around it say; the
// shift follows from where the frame's middle is.
const {DOMMatrix: Matrix, DOMPoint: Point} = window;
const HERE = new Matrix();

function turnOf(frame) {
  const zoom = frame.currentCSSZoom ?? 1;
  let turn = new Matrix([zoom, 0, 0, zoom, 0, 0]);
  for (let node = frame; node; node = parentAcrossShadow(node)) {
    if (dom.nodeType(node) !== Node.ELEMENT_NODE) continue;
    const {display, transform, rotate, scale} = styleOf(node);
    // What has no box of its own is not transformed; a frame, and what is in a drawing, is.
    if (node !== frame && /^(inline|contents)$/.test(display) && !dom.namespaceURI(node)?.endsWith("/svg")) continue;
    let own = HERE;
    if (rotate !== "none") own = own.multiply(rotationOf(rotate));
    if (scale !== "none") {
      const [x, y = x] = scale.split(" ").map(Number);
      own = own.multiply(new Matrix([x, 0, 0, y, 0, 0]));
    }
    if (transform !== "none") own = own.multiply(new Matrix(transform));
    if (own !== HERE) turn = new Matrix([own.a, own.b, own.c, own.d, 0, 0]).multiply(turn);
  }
  return turn;
}

// Of CSS's `rotate`: an angle, after an axis by its letter or as three numbers if that is not z.
function rotationOf(rotate) {
  const axis = rotate.split(" ");
  const angle = parseFloat(axis.pop());
  const [x, y, z] = axis.length === 3 ? axis.map(Number) : ["x", "y", "z"].map(name => Number((axis[0] ?? "z") === name));
  return HERE.rotateAxisAngle(x, y, z, angle);
}

function outOfFrame(frame) {
  const box = dom.getBoundingClientRect(frame);
  const style = styleOf(frame);
  const left = dom.clientLeft(frame) + (parseFloat(style.paddingLeft) || 0);
  const top = dom.clientTop(frame) + (parseFloat(style.paddingTop) || 0);
  const {a, b, c, d} = turnOf(frame);
  if (b === 0 && c === 0 && a > 0 && d > 0) {
    return new Matrix([a, 0, 0, d, box.left + a * left, box.top + d * top]);
  }
  const x = left - frame.offsetWidth / 2, y = top - frame.offsetHeight / 2;
  return new Matrix([
    a, b, c, d,
    box.left + box.width / 2 + a * x + c * y,
    box.top + box.height / 2 + b * x + d * y,
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

const moved = (matrix, x, y) => {
  if (matrix === HERE) return [x, y];
  const point = matrix.transformPoint(new Point(x, y));
  return [point.x, point.y];
};

// The rectangle around a moved one.
function movedBox(matrix, {left, top, width, height}) {
  if (matrix === HERE) return [left, top, width, height];
  const corners = [[0, 0], [width, 0], [0, height], [width, height]]
    .map(([x, y]) => moved(matrix, left + x, top + y));
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

function selectorOf(element) {
  const parts = [];
  const root = dom.getRootNode(element);
  for (let node = element; node; node = dom.parentElement(node)) {
    const byId = dom.id(node) && `#${CSS.escape(dom.id(node))}`;
    if (byId && inRoot(root, "querySelectorAll", byId).length === 1) {
      parts.unshift(byId);
      break;
    }
    let part = CSS.escape(dom.localName(node));
    const alike = dom.parentElement(node)
      ? [...dom.children(dom.parentElement(node))]
        .filter(other => dom.localName(other) === dom.localName(node)) : [];
    if (alike.length > 1) part += `:nth-of-type(${alike.indexOf(node) + 1})`;
    parts.unshift(part);
  }
  return parts.join(" > ");
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
    named_by: meant === element ? namedBy(element, role, name) : "label",
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
  for (;;) {
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

// The point of an element that a click reaches; if there is none, what covers it. A point on another
// control comes last, and only if that is the same thing to a person or the element is no control.
function reach(element) {
  const found = {point: null, cover: null, inside: false, other: null};
  let last = null, worse = null;
  for (const [x, y] of candidatePoints(element)) {
    found.inside = true;
    const hit = deepestAt(x, y);
    if (!reaches(hit, element)) {
      found.cover ??= hit;
      continue;
    }
    const other = othersThere(hit, element);
    if (!other && !hasHandlerWithin(hit, isWithin(hit, element) ? element : labelAround(hit))) return {...found, point: [x, y]};
    if (other) last ??= {point: [x, y], other};
    else worse ??= [x, y];
  }
  if (worse) return {...found, point: worse};
  if (!last) return found;
  const role = roleOf(element), name = nameOf(element, role);
  const same = !isControl(element) || role === "combobox" ||
    (name !== "" && nameOf(last.other, roleOf(last.other)) === name);
  return same ? {...found, point: last.point} : {...found, other: last.other};
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
  if (!found.point) for (const [node, place] of before) dom.scrollTo(node, place);
  return found;
}

function reachInView(element) {
  const [x, y, width, height] = boxOf(element);
  if (x < 0 || y < 0 || x + width > innerWidth || y + height > innerHeight) scrollToMiddle(element);
  const found = reach(element);
  return found.point ? found : reachByScrolling(element);
}

// The labels that a person presses instead of a control: of a checkbox, a radio button or a choice of
// files that cannot be reached itself.
const STANDS_FOR = new Set(["checkbox", "radio", "file"]);
const labelsInsteadOf = element =>
  dom.tagName(element) === "INPUT" && STANDS_FOR.has(element.type)
    ? labelsOf(element).filter(isVisible) : [];

const isVisible = element => isRendered(element) && styleOf(element).visibility === "visible";

function pointOf(element) {
  const labels = labelsInsteadOf(element);
  if (!labels.length && dom.tagName(element) !== "AREA") requireVisible(element);
  const found = {point: null, cover: null, inside: false, other: null};
  for (const target of isVisible(element) || !labels.length ? [element, ...labels] : labels) {
    const {point, cover, inside, other} = reachInView(target);
    if (point) return point;
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
