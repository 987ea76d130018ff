// Refs: short names of elements, kept beside the page and never in it. A ref names the same element
// for as long as that is in its document, and no other element ever.
const refByElement = new WeakMap();
const elementByRef = new Map();
let nextRef = 1;
let refPrefix = "";  // Of documents that are looked into as frames of another origin.

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

// A new document counts on from where the last one ended, so that an old ref names nothing in it.
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
