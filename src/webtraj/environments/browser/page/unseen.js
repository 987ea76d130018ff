// Closed shadow roots and the page's click handlers, which the caller finds (see unseen.py).
const MARKUP = "</";
const MOST_NODES = 200_000;

// How many nodes a search for MARKUP finds in the documents and shadow roots that this script knows;
// null if there are more than MOST_NODES.
function found() {
  const roots = [document.documentElement];
  let count = 0;
  for (const root of roots) {
    if (!root) continue;
    const walker = dom.ownerDocument(root).createTreeWalker(root);
    for (let node = root; node; node = walker.nextNode()) {
      if (dom.nodeType(node) !== Node.ELEMENT_NODE) {
        if (typeof node.data === "string" && node.data.includes(MARKUP)) count++;
        continue;
      }
      if (++count > MOST_NODES) return null;
      if (dom.shadowRoot(node)) roots.push(dom.shadowRoot(node));
      const inner = frameDocumentOf(node);
      if (inner) roots.push(inner.documentElement);
    }
  }
  return count;
}

// Returns whether one of the nodes is in a closed shadow root that was unknown.
function showRootsOf(nodes) {
  let isNew = false;
  for (const root of nodes.map(node => dom.getRootNode(node))) {
    if (!root.host || dom.shadowRoot(root.host) === root) continue;
    closedRoots.set(root.host, root);
    isNew = true;
  }
  return isNew;
}

let handled = new Set();  // The elements on which the page hears clicks.

// Returns whether they changed.
function showHandlers(elements) {
  const before = handled;
  handled = new Set(elements.filter(element => element !== contentOf(dom.ownerDocument(element))));
  return handled.size !== before.size || [...handled].some(element => !before.has(element));
}

page.found = () => toJson(found());
page.showRootsOf = (...nodes) => toJson(showRootsOf(nodes));
page.showHandlers = (...nodes) =>
  toJson(showHandlers(nodes.filter(node => dom.nodeType(node) === Node.ELEMENT_NODE)));
