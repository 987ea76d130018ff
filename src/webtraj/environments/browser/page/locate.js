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

// The offset of an element's frame in the top window, and that frame's window.
function frameOffsetOf(element) {
  let x = 0, y = 0;
  let view = dom.ownerDocument(element).defaultView;
  while (view && view !== window) {
    const frame = view.frameElement;
    const box = dom.getBoundingClientRect(frame);
    x += box.left + dom.clientLeft(frame);
    y += box.top + dom.clientTop(frame);
    view = dom.ownerDocument(frame).defaultView;
  }
  return {x, y};
}

function boxOf(element) {
  const box = dom.getBoundingClientRect(element);
  const offset = frameOffsetOf(element);
  return [box.left + offset.x, box.top + offset.y, box.width, box.height];
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

function describe(element) {
  const role = roleOf(element);
  const name = nameOf(element, role) ||
    (dom.childElementCount(element) ? "" : squeeze(dom.textContent(element) ?? "").slice(0, 200));
  const testIdAttribute = TEST_ID_ATTRIBUTES.find(attribute => dom.hasAttribute(element, attribute));
  return {
    ref: refOf(element),
    role,
    name,
    test_id: testIdAttribute ? dom.getAttribute(element, testIdAttribute) : "",
    named_by: namedBy(element, role, name),
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
    if (dom.shadowRoot(found)) {
      root = dom.shadowRoot(found);
    } else if (dom.tagName(found) === "IFRAME" && frameDocumentOf(found)) {
      const box = dom.getBoundingClientRect(found);
      x -= box.left + dom.clientLeft(found);
      y -= box.top + dom.clientTop(found);
      root = frameDocumentOf(found);
    } else {
      return found;
    }
  }
}

const parentAcrossShadow = node => dom.parentNode(node) ?? node.host ?? null;

function isWithin(node, ancestor) {
  for (; node; node = parentAcrossShadow(node)) if (node === ancestor) return true;
  return false;
}

function reaches(hit, element) {
  return hit !== null && (isWithin(hit, element) || dom.closest(hit, "label")?.control === element);
}

// Points in order of preference: centres of the element's fragments, then a grid over its box.
function* candidatePoints(element, offset) {
  const rects = [...dom.getClientRects(element)].filter(rect => rect.width > 0 && rect.height > 0);
  for (const rect of rects.slice(0, 4)) yield* pointsIn(rect, offset, [0.5]);
  if (rects.length) yield* pointsIn(dom.getBoundingClientRect(element), offset, [0.5, 0.25, 0.75, 0.05, 0.95]);
}

function* pointsIn(rect, offset, fractions) {
  const left = Math.max(rect.left + offset.x, 0), top = Math.max(rect.top + offset.y, 0);
  const right = Math.min(rect.right + offset.x, innerWidth);
  const bottom = Math.min(rect.bottom + offset.y, innerHeight);
  if (right <= left || bottom <= top) return;
  for (const fy of fractions) for (const fx of fractions) {
    yield [left + (right - left) * fx, top + (bottom - top) * fy];
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

// The point of an element that a click reaches; if there is none, what covers it.
function reach(element) {
  let cover = null, inside = false;
  for (const [x, y] of candidatePoints(element, frameOffsetOf(element))) {
    inside = true;
    const hit = deepestAt(x, y);
    if (reaches(hit, element)) return {point: [x, y], cover: null, inside};
    cover = cover ?? hit;
  }
  return {point: null, cover, inside};
}

// The same with the element in the middle of the lists that it is in, which may have hidden it, as
// may a bar at the edge. What was scrolled in vain is scrolled back.
function reachByScrolling(element) {
  const before = [];
  for (let node = element; node; node = parentAcrossShadow(node)) {
    if (dom.nodeType(node) !== Node.ELEMENT_NODE) continue;
    before.push([node, {left: dom.scrollLeft(node), top: dom.scrollTop(node), behavior: "instant"}]);
  }
  dom.scrollIntoView(element, {block: "center", inline: "center", behavior: "instant"});
  const found = reach(element);
  if (!found.point) for (const [node, place] of before) dom.scrollTo(node, place);
  return found;
}

function pointOf(element) {
  if (dom.tagName(element) === "OPTION") {
    throw new Refusal("not_a_point", `${shown(element)} is in a select element: select it there.`);
  }
  requireVisible(element);
  const [x, y, width, height] = boxOf(element);
  if (x < 0 || y < 0 || x + width > innerWidth || y + height > innerHeight) {
    dom.scrollIntoView(element, {block: "center", inline: "center", behavior: "instant"});
  }
  let {point, cover, inside} = reach(element);
  if (!point) ({point, cover, inside} = reachByScrolling(element));
  if (point) return point;
  if (!inside) {
    throw new Refusal("outside", `${shown(element)} has no area inside the viewport.`);
  }
  throw new Refusal("covered", cover
    ? `${shown(element)} is covered by ${shown(cover)}.` : `${shown(element)} takes no clicks.`);
}
