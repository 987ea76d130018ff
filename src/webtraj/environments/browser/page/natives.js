// What the rest of this script uses of the page's world, taken before any script of the page ran,
// so that a page that replaces them neither breaks us nor sees us.
const now = performance.now.bind(performance);
const {timeOrigin} = performance;
const later = window.setTimeout.bind(window);
const stringify = JSON.stringify;
const squeeze = text => text.replace(/\s+/g, " ").trim();

// Also escapes what JSON lets stand though some readers take it for the end of a line, or turn the
// text around from there on.
const toJson = value => stringify(value)?.replace(
  /[\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g,
  character => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
const styleOf = window.getComputedStyle.bind(window);

// A form answers to the names of its fields before its own properties, and a document to those of
// its images and forms: where an <input name="children"> is, form.children is that. So what is read
// of nodes that may be either is read by the prototypes' own accessors.
const accessor = (prototype, name) => {
  const {get, value} = Object.getOwnPropertyDescriptor(prototype, name);
  return get ? node => Reflect.apply(get, node, [])
    : (node, ...given) => Reflect.apply(value, node, given);
};
const accessors = (prototype, names) =>
  Object.fromEntries(names.map(name => [name, accessor(prototype, name)]));
const dom = {
  ...accessors(Node.prototype, [
    "nodeType", "childNodes", "parentNode", "parentElement", "ownerDocument", "isConnected",
    "textContent", "getRootNode",
  ]),
  ...accessors(EventTarget.prototype, ["addEventListener", "dispatchEvent", "removeEventListener"]),
  ...accessors(Element.prototype, [
    "tagName", "localName", "id", "namespaceURI", "children", "childElementCount", "shadowRoot",
    "attributes", "scrollHeight", "scrollWidth", "clientHeight", "clientWidth", "clientLeft",
    "clientTop", "getAttribute", "hasAttribute", "matches", "closest", "checkVisibility",
    "getBoundingClientRect", "getClientRects", "querySelector", "querySelectorAll", "scrollIntoView",
    "scrollLeft", "scrollTo", "scrollTop", "assignedSlot",
  ]),
};
const closedRoots = new WeakMap();  // By their hosts (see unseen.js).
const openRootOf = dom.shadowRoot;
dom.shadowRoot = element => openRootOf(element) ?? closedRoots.get(element) ?? null;
// These three only elements of HTML have.
const html = accessors(HTMLElement.prototype, ["isContentEditable", "onclick", "draggable"]);
const ofHtml = name => element =>
  element && dom.namespaceURI(element) === "http://www.w3.org/1999/xhtml"
    ? html[name](element) : element?.[name];
const isEditable = ofHtml("isContentEditable");
const clickHandlerOf = ofHtml("onclick");
const isDraggable = ofHtml("draggable");
const bodyOf = accessor(Document.prototype, "body");
const windowOf = accessor(Document.prototype, "defaultView");
const documentMethods = accessors(
  Document.prototype, ["querySelectorAll", "elementFromPoint", "getElementById", "getAnimations"]);

// Calls a method of a document or shadow root.
const inRoot = (root, method, ...given) =>
  dom.nodeType(root) === Node.DOCUMENT_NODE
    ? documentMethods[method](root, ...given) : root[method]?.(...given);

// Elements of HTML have upper case names in documents of HTML, and lower case ones in those of XML. One
// that was made with an upper case name is none of HTML's, and has none of its properties.
const tagAsWritten = dom.tagName;
dom.tagName = element => {
  const tag = tagAsWritten(element);
  if (tag > "Z") return dom.namespaceURI(element) === "http://www.w3.org/1999/xhtml" ? tag.toUpperCase() : tag;
  return dom.localName(element) === tag ? tag.toLowerCase() : tag;
};

// Adds listeners to a window now, and again whenever its document is written anew, which drops them. A
// listener that is there already is not added again.
const listening = new WeakMap();  // The functions that add them, by document.

function keepListening(view, add) {
  add(view);
  const shown = view.document;
  const known = listening.get(shown);
  if (known) known.add(add);
  else {
    const adding = new Set([add]);
    listening.set(shown, adding);
    new MutationObserver(() => adding.forEach(each => each(view))).observe(shown, {childList: true});
  }
}
