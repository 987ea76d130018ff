// The content of elements that match the user's redaction rules, to be left out of records. The
// tree marks their lines (see tree.js); this file collects their other texts.
const MAX_PIECES = 300;  // Of text; beyond this, less is recorded.
const TYPED_INTO = "input, textarea, select";

let privateRules = [];  // [name, selector]
let allPrivate = "";  // The rule of the frame around this document.

// Returns the name of a rule with an invalid selector; "" if all are valid.
function setPrivateRules(rules, all) {
  for (const [name, selector] of rules) {
    try {
      inRoot(document, "querySelectorAll", selector);
    } catch {
      return name;
    }
  }
  [privateRules, allPrivate] = [rules, all ?? ""];
  return "";
}

const watchesPrivate = () => privateRules.length > 0 || allPrivate !== "";

function privateNameOf(element) {
  for (const [name, selector] of privateRules) if (dom.matches(element, selector)) return name;
  return "";
}

// The rule for a whole document.
function privateNameOfDocument(body) {
  if (!body) return allPrivate;
  const root = dom.parentElement(body);
  return allPrivate || privateNameOf(body) || (root ? privateNameOf(root) : "");
}

const placeholderOf = name => `<secret:${name}>`;

// The recorded form of a line of the tree.
function privateLine(name, ref, role, given, states) {
  const hidden = toJson(placeholderOf(name));
  const kept = states.map(state => {
    const [key, value] = state.split("=", 2);
    return value?.startsWith('"') ? (key === "value" ? `value=${hidden}` : "") : state;
  });
  return [`[${ref}]`, role, given ? hidden : "", ...kept].filter(part => part).join(" ");
}

class PrivateElements {
  constructor() {
    this.pieces = [];
    this.fields = [];
    this.focused = "";
    this.overflow = false;
    this.known = new Set();
    this.active = focusedElement();
    if (document.documentElement) this.walk(document.documentElement, allPrivate);
  }

  piece(name, text) {
    text = squeeze(text ?? "");
    if (!text || this.known.has(text)) return;
    if (this.known.size >= MAX_PIECES) this.overflow = true;
    else {
      this.known.add(text);
      this.pieces.push([name, text]);
    }
  }

  walk(element, outer, nesting = 0) {
    if (nesting > MAX_NESTING) {
      this.overflow = true;
      return;
    }
    const name = outer || privateNameOf(element);
    if (name) this.element(element, name);
    const inner = frameDocumentOf(element)?.documentElement;
    if (inner) this.walk(inner, name, nesting + 1);
    for (const root of [element, dom.shadowRoot(element)]) {
      for (const child of root ? dom.childNodes(root) : []) {
        if (dom.nodeType(child) === Node.ELEMENT_NODE) this.walk(child, name, nesting + 1);
        else if (name && dom.nodeType(child) === Node.TEXT_NODE) this.piece(name, child.data);
      }
    }
  }

  element(element, name) {
    if (element === this.active) this.focused = name;
    for (const attribute of ["value", "placeholder", "title", "alt", "aria-label", "label"]) {
      this.piece(name, dom.getAttribute(element, attribute));
    }
    if (!dom.matches(element, TYPED_INTO) && !isEditable(element)) return;
    if (typeof element.value === "string") {
      this.piece(name, element.value);
      for (const line of element.value.split("\n")) this.piece(name, line);
    }
    this.fields.push([name, refByElement.get(element) ?? "", boxOf(element)]);
  }
}

function privateSeen(lines) {
  const {pieces, fields, focused, overflow} = new PrivateElements();
  return {lines, pieces, fields, focused, overflow};
}
