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
  let view = element.ownerDocument.defaultView;
  while (view && view !== window) {
    const frame = view.frameElement;
    const box = frame.getBoundingClientRect();
    x += box.left + frame.clientLeft;
    y += box.top + frame.clientTop;
    view = frame.ownerDocument.defaultView;
  }
  return {x, y};
}

function boxOf(element) {
  const box = element.getBoundingClientRect();
  const offset = frameOffsetOf(element);
  return [box.left + offset.x, box.top + offset.y, box.width, box.height];
}

function selectorOf(element) {
  const parts = [];
  const root = element.getRootNode();
  for (let node = element; node && node.nodeType === Node.ELEMENT_NODE; node = node.parentElement) {
    if (node.id && root.querySelectorAll(`#${CSS.escape(node.id)}`).length === 1) {
      parts.unshift(`#${CSS.escape(node.id)}`);
      break;
    }
    let part = CSS.escape(node.localName);
    const alike = node.parentElement
      ? [...node.parentElement.children].filter(other => other.localName === node.localName) : [];
    if (alike.length > 1) part += `:nth-of-type(${alike.indexOf(node) + 1})`;
    parts.unshift(part);
  }
  return parts.join(" > ");
}

function describe(element) {
  const role = roleOf(element);
  const name = nameOf(element, role) ||
    (element.childElementCount ? "" : squeeze(element.textContent ?? "").slice(0, 200));
  const testIdAttribute = TEST_ID_ATTRIBUTES.find(attribute => element.hasAttribute(attribute));
  return {
    ref: refOf(element),
    role,
    name,
    test_id: testIdAttribute ? element.getAttribute(testIdAttribute) : "",
    selector: selectorOf(element),
    frame: element.ownerDocument === document ? "" : element.ownerDocument.location.href,
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
    const next = root.elementFromPoint(x, y);
    if (!next || next === found) return found;
    found = next;
    if (found.shadowRoot) {
      root = found.shadowRoot;
    } else if (found.tagName === "IFRAME" && frameDocumentOf(found)) {
      const box = found.getBoundingClientRect();
      x -= box.left + found.clientLeft;
      y -= box.top + found.clientTop;
      root = frameDocumentOf(found);
    } else {
      return found;
    }
  }
}

const parentAcrossShadow = node => node.parentNode ?? node.host ?? null;

function isWithin(node, ancestor) {
  for (; node; node = parentAcrossShadow(node)) if (node === ancestor) return true;
  return false;
}

function reaches(hit, element) {
  return hit !== null && (isWithin(hit, element) || hit.closest("label")?.control === element);
}

// Points in order of preference: centres of the element's fragments, then a grid over its box.
function* candidatePoints(element, offset) {
  const rects = [...element.getClientRects()].filter(rect => rect.width > 0 && rect.height > 0);
  for (const rect of rects.slice(0, 4)) yield* pointsIn(rect, offset, [0.5]);
  if (rects.length) yield* pointsIn(element.getBoundingClientRect(), offset, [0.5, 0.25, 0.75, 0.05, 0.95]);
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

function pointOf(element) {
  if (element.tagName === "OPTION") {
    throw new Refusal("not_a_point", `${shown(element)} is in a select element: select it there.`);
  }
  requireVisible(element);
  const [x, y, width, height] = boxOf(element);
  if (x < 0 || y < 0 || x + width > innerWidth || y + height > innerHeight) {
    element.scrollIntoView({block: "center", inline: "center", behavior: "instant"});
  }
  const offset = frameOffsetOf(element);
  let cover = null, inside = false;
  for (const [px, py] of candidatePoints(element, offset)) {
    inside = true;
    const hit = deepestAt(px, py);
    if (reaches(hit, element)) return [px, py];
    cover = cover ?? hit;
  }
  if (!inside) {
    throw new Refusal("outside", `${shown(element)} has no area inside the viewport.`);
  }
  throw new Refusal("covered", cover
    ? `${shown(element)} is covered by ${shown(cover)}.` : `${shown(element)} takes no clicks.`);
}
