// The page as text, one line an element; the grammar stands in observation.py.
const NEVER_SHOWN = new Set(["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "HEAD", "META", "LINK"]);

// Children as rendered: through open shadow roots and slots.
function childNodesOf(element) {
  if (dom.shadowRoot(element)) return dom.shadowRoot(element).childNodes;
  if (dom.tagName(element) === "SLOT") {
    const assigned = element.assignedNodes();
    return assigned.length ? assigned : dom.childNodes(element);
  }
  return dom.childNodes(element);
}

function frameDocumentOf(element) {
  try {
    return element.contentDocument;  // Null, or throws, where the frame is of another origin.
  } catch {
    return null;
  }
}

function isRendered(element) {
  return dom.checkVisibility(element);
}

// Plain elements that a person would still take for something to act on.
function invitesAction(element, style) {
  return (clickHandlerOf(element) ?? null) !== null ||
    dom.hasAttribute(element, "tabindex") || isDraggable(element) ||
    (style.cursor === "pointer" && (!dom.parentElement(element) ||
      styleOf(dom.parentElement(element)).cursor !== "pointer"));
}

class TreeWriter {
  // `limit`: of characters, not counting indents. What comes after it is counted, not written.
  constructor(hidden, limit) {
    this.hidden = hidden;
    this.room = limit;
    this.leftOut = 0;
    this.lines = [];
    this.entries = [];
    this.foreign = [];
    this.private = "";  // The rule that what is written now falls under (see private.js).
    this.privateLines = [];
  }

  text(text, depth) {
    text = squeeze(text);
    const recorded = this.private && `text ${toJson(placeholderOf(this.private))}`;
    if (text) this.write(`text ${toJson(text)}`, depth, recorded);
  }

  line(element, role, name, states, depth) {
    if (this.room > 0) this.entries.push({element, role, name});
    const ref = this.room > 0 ? refOf(element) : "";
    const parts = [`[${ref}]`, role];
    if (name) parts.push(toJson(name));
    const recorded = this.private && privateLine(this.private, ref, role, name, states);
    this.write([...parts, ...states].join(" "), depth, recorded);
  }

  write(line, depth, recorded) {
    if (this.room <= 0) {
      this.leftOut++;
      return;
    }
    this.room -= line.length + 1;
    this.lines.push("  ".repeat(depth) + line);
    if (recorded && recorded !== line) this.privateLines.push([this.private, line, recorded]);
  }

  // `quiet`: the text below is in an ancestor's name already.
  children(element, depth, quiet) {
    for (const child of childNodesOf(element)) {
      if (dom.nodeType(child) === Node.ELEMENT_NODE) this.element(child, depth, quiet);
      else if (dom.nodeType(child) === Node.TEXT_NODE && !quiet) this.text(child.data, depth);
    }
  }

  element(element, depth, quiet) {
    const outer = this.private;
    if (!outer && watchesPrivate()) this.private = privateNameOf(element);
    this.shown(element, depth, quiet);
    this.private = outer;
  }

  document(body, depth) {
    const outer = this.private;
    if (!outer && watchesPrivate()) this.private = privateNameOfDocument(body);
    this.children(body, depth, false);
    this.private = outer;
  }

  shown(element, depth, quiet) {
    if (NEVER_SHOWN.has(dom.tagName(element))) return;
    if (this.hidden && dom.matches(element, this.hidden)) return;
    if (dom.getAttribute(element, "aria-hidden") === "true") return;
    if (dom.tagName(element) === "SLOT") return this.children(element, depth, quiet);
    if (!isRendered(element)) return;
    const style = styleOf(element);
    if (style.visibility !== "visible") return this.children(element, depth, true);
    if (dom.shadowRoot(element)) watchMutations(dom.shadowRoot(element));
    // A label repeats the name of its control, unless the control itself cannot be seen.
    if (dom.tagName(element) === "LABEL" && element.control && isRendered(element.control)) {
      return this.children(element, depth, true);
    }
    const role = roleOf(element);
    const kids = childNodesOf(element);
    let leaf = true, ownText = false;
    for (const kid of kids) {
      if (dom.nodeType(kid) === Node.ELEMENT_NODE) {
        if (dom.tagName(kid) === "SLOT" || isRendered(kid)) leaf = false;
      }
      else if (dom.nodeType(kid) === Node.TEXT_NODE && /\S/.test(kid.data)) ownText = true;
    }
    const states = statesOf(element, role, style);
    const patch = role === "generic" && leaf && !ownText && isPatch(element, style);
    if (patch && colorOf(style)) states.push(`color=${toJson(colorOf(style))}`);
    const plain = role === "generic" && !patch && !(ownText && !quiet) && !states.length &&
      !invitesAction(element, style) && !dom.getAttribute(element, "aria-label");
    if (plain) return this.children(element, depth, quiet);

    let name = nameOf(element, role);
    const isField = dom.tagName(element) === "TEXTAREA" || isEditable(element);
    if (!name && leaf && ownText && !isField) name = squeeze(textOf(element)).slice(0, MAX_NAME);
    if (quiet && role === "generic" && leaf && !invitesAction(element, style)) return;
    this.line(element, role, name, states, depth);
    if (dom.tagName(element) === "SELECT") {
      for (const option of element.options) {
        this.line(option, "option", nameOf(option, "option"), statesOf(option, "option", style), depth + 1);
      }
    } else if (dom.tagName(element) === "IFRAME") {
      const inner = frameDocumentOf(element);
      const body = inner && bodyOf(inner);
      if (body) {
        watchMutations(body.ownerDocument);
        this.document(body, depth + 1);
      } else if (!inner && this.room > 0) {
        this.foreign.push({element, line: this.lines.length - 1, depth, private: this.private});
      }
    } else if (!isField && !(leaf && name)) {
      this.children(element, depth + 1, quiet || NAMED_BY_CONTENT.has(role));
    }
  }
}

function treeOf(hidden, limit) {
  const writer = new TreeWriter(hidden, limit);
  const body = bodyOf(document);
  labelsByRoot = new Map();
  try {
    if (body) writer.document(body, 0);
  } finally {
    labelsByRoot = null;
  }
  if (writer.leftOut) writer.lines.push(`... ${writer.leftOut} more lines`);
  return writer;
}

// The boxes of elements that have some area inside the viewport.
function boxesOf(entries) {
  const refs = [], boxes = [];
  for (const {element} of entries) {
    const [x, y, width, height] = boxOf(element);
    if (width <= 0 || height <= 0 || x >= innerWidth || y >= innerHeight) continue;
    if (x + width <= 0 || y + height <= 0) continue;
    refs.push(refOf(element));
    boxes.push([x, y, width, height]);
  }
  return {refs, boxes};
}
