// Refs: short names of elements, stored outside the page. A ref names the same element for as long
// as it is in its document, and is never reused.
const refByElement = new WeakMap();
const elementByRef = new Map();
let nextRef = 1;
let refPrefix = "";  // In documents of frames of another origin.

function refOf(element) {
  let ref = refByElement.get(element);
  if (ref === undefined) {
    ref = `${refPrefix}${nextRef++}`;
    refByElement.set(element, ref);
    elementByRef.set(ref, new WeakRef(element));
    notePasswordField(element);
  }
  return ref;
}

function elementOf(ref) {
  const element = elementByRef.get(ref)?.deref();
  return element?.isConnected ? element : null;
}

// A new document continues the numbering, so that an old ref names nothing in it.
function continueRefsFrom(number) {
  nextRef = Math.max(nextRef, number);
}

function forgetRefs() {
  for (const element of elementByRef.values()) {
    const held = element.deref();
    if (held) refByElement.delete(held);
  }
  elementByRef.clear();
  nextRef = 1;
}

// Gives elements the refs that they had in the page of which this one is a copy.
page.renameRefs = text => {
  const {pairs, next} = JSON.parse(text);
  const renamed = pairs.map(([now, then]) => [elementOf(now), then]);
  forgetRefs();
  for (const [element, ref] of renamed) {
    if (!element) continue;
    refByElement.set(element, ref);
    elementByRef.set(ref, new WeakRef(element));
  }
  nextRef = next;
  return toJson(true);
};
