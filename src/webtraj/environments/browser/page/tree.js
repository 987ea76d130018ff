// The page as text, one line an element; the grammar stands in observation.py.
const NEVER_SHOWN = new Set(["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "HEAD", "META", "LINK"]);

// Children as rendered: through shadow roots and slots.
function childNodesOf(element) {
  if (dom.shadowRoot(element)) return dom.shadowRoot(element).childNodes;
  if (dom.tagName(element) === "SLOT") {
    const assigned = element.assignedNodes();
    return assigned.length ? assigned : dom.childNodes(element);
  }
  return dom.childNodes(element);
}

const FRAMES = "iframe, frame, object, embed";
const FRAME_TAGS = new Set(["IFRAME", "FRAME", "OBJECT", "EMBED"]);

// The document that a frame shows; null where there is none, or it is of another origin.
function frameDocumentOf(element) {
  if (!FRAME_TAGS.has(dom.tagName(element))) return null;
  try {
    return dom.tagName(element) === "EMBED" ? embeddedIn(element) : element.contentDocument;
  } catch {
    return null;
  }
}

function embeddedIn(element) {
  const {frames} = windowOf(dom.ownerDocument(element));
  for (let at = 0; at < frames.length; at++) {
    try {
      if (frames[at].frameElement === element) return frames[at].document;
    } catch {
      // Of another origin.
    }
  }
  return null;
}

// Whether a frame shows a document of another origin.
const isForeign = element => FRAME_TAGS.has(dom.tagName(element)) && !frameDocumentOf(element) &&
  (element.contentWindow ?? null) !== null;

// What a document shows: its body, or all of it in one that has none.
const contentOf = shown => bodyOf(shown) ?? shown.documentElement;

// An element with `display: contents` has no box, but what is in it may have.
function isRendered(element) {
  if (dom.checkVisibility(element)) return true;
  for (let node = element; styleOf(node).display === "contents";) {
    node = parentAcrossShadow(node);
    if (node && dom.nodeType(node) === Node.DOCUMENT_FRAGMENT_NODE) node = node.host;
    if (!node || dom.nodeType(node) !== Node.ELEMENT_NODE) return false;
    if (dom.checkVisibility(node)) return true;
  }
  return false;
}

// As what is hidden until it is found in the page.
const skipsContent = element => styleOf(element).contentVisibility === "hidden";

// Plain elements that a person would still take for something to act on.
function invitesAction(element, style) {
  return (clickHandlerOf(element) ?? null) !== null || dom.hasAttribute(element, "onclick") ||
    dom.hasAttribute(element, "tabindex") || isDraggable(element) || isLooseAnchor(element) ||
    (style.cursor === "pointer" && (!dom.parentElement(element) ||
      styleOf(dom.parentElement(element)).cursor !== "pointer"));
}

// An <a> that neither leads anywhere nor is a place to lead to has a handler somewhere.
const isLooseAnchor = element => dom.tagName(element) === "A" &&
  !["href", "id", "name"].some(attribute => dom.hasAttribute(element, attribute));

class TreeWriter {
  // `limit`: of characters, not counting indents. What comes after it is counted, not written.
  // `allCovered`: the frame around the document is covered.
  constructor(hidden, limit, allCovered) {
    this.hidden = hidden;
    this.room = limit;
    this.leftOut = 0;
    this.nesting = 0;
    this.lines = [];
    this.entries = [];
    this.foreign = [];
    this.private = "";  // The rule that what is written now falls under (see private.js).
    this.privateLines = [];
    this.listed = new Set();  // Lists of suggestions that are written.
    this.allCovered = allCovered;
    this.covered = allCovered;  // Whether the element whose content is written is covered.
  }

  text(text, depth) {
    text = squeeze(text);
    if (!text) return;
    if (text.length > this.room && this.room > 0) {
      text = text.slice(0, this.room).replace(/\S*$/, "") + CUT;
      this.leftOut++;
    }
    const covered = this.covered ? " covered" : "";
    const recorded = this.private && `text ${toJson(placeholderOf(this.private))}${covered}`;
    this.write(`text ${toJson(text)}${covered}`, depth, recorded);
  }

  // `covered`: whether it is, if that is known.
  line(element, role, name, states, depth, covered = null) {
    if (this.room > 0) {
      this.entries.push({element, role, name});
      this.covered = this.allCovered || (covered ?? isCovered(element));
      if (this.covered) states.push("covered");
    }
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
    const closed = (dom.tagName(element) === "DETAILS" && !element.open) || skipsContent(element);
    for (const child of childNodesOf(element)) {
      if (dom.nodeType(child) === Node.ELEMENT_NODE) this.element(child, depth, quiet);
      else if (dom.nodeType(child) === Node.TEXT_NODE && !quiet && !closed) this.text(child.data, depth);
    }
  }

  element(element, depth, quiet) {
    if (this.room <= 0 || this.nesting >= MAX_NESTING) {
      this.leftOut += 1 + dom.querySelectorAll(element, "*").length;
      return;
    }
    const {private: outer, covered} = this;
    if (!outer && watchesPrivate()) this.private = privateNameOf(element);
    this.nesting++;
    this.shown(element, depth, quiet);
    this.nesting--;
    this.private = outer;
    this.covered = covered;
  }

  // Writes under the rules for an element and its ancestors below `known`, whose rules hold already.
  underRulesOf(element, write, known = null) {
    const outer = this.private;
    for (let each = element; each !== known && watchesPrivate() && !this.private;) {
      this.private = privateNameOf(each);
      each = dom.parentElement(each);
    }
    write();
    this.private = outer;
  }

  isHidden(element) {
    return Boolean(this.hidden) && dom.matches(element, this.hidden);
  }

  document(shown, depth) {
    const outer = this.private, content = contentOf(shown);
    if (!outer && watchesPrivate()) this.private = privateNameOfDocument(content);
    // Scripts may add elements beside the body.
    for (const part of bodyOf(shown) ? childNodesOf(shown.documentElement) : [content]) {
      if (part && part === content && !isEditor(part)) this.children(part, depth, false);
      else if (part && dom.nodeType(part) === Node.ELEMENT_NODE) this.element(part, depth, false);
    }
    this.private = outer;
  }

  shown(element, depth, quiet) {
    if (NEVER_SHOWN.has(dom.tagName(element))) return;
    if (this.isHidden(element)) return;
    if (dom.getAttribute(element, "aria-hidden") === "true") return;
    if (dom.tagName(element) === "SLOT") return this.children(element, depth, quiet);
    if (!isRendered(element)) return;
    const style = styleOf(element);
    if (style.visibility !== "visible") return this.visibleIn(element, depth, quiet);
    if (dom.shadowRoot(element)) watchMutations(dom.shadowRoot(element));
    quiet &&= !isBranch(element) && !isPanel(element);
    const standsFor = dom.tagName(element) === "LABEL" ? element.control : null;
    if (standsFor && isShown(standsFor)) {
      // A label repeats the name of its control.
      return this.children(element, depth, quiet || repeats(element, standsFor));
    }
    const control = meaningOf(element);
    const role = roleOf(control);
    const kids = childNodesOf(element);
    let leaf = true, ownText = false;
    for (const kid of kids) {
      if (dom.nodeType(kid) === Node.ELEMENT_NODE) {
        if (dom.tagName(kid) === "SLOT" || isRendered(kid)) leaf = false;
      }
      else if (dom.nodeType(kid) === Node.TEXT_NODE && /\S/.test(kid.data)) ownText = !skipsContent(element);
    }
    const states = statesOf(control, role, style);
    const patch = role === "generic" && leaf && !ownText && isPatch(element, style);
    if (patch && colorOf(style)) states.push(`color=${toJson(colorOf(style))}`);
    const plain = role === "generic" && !patch && !(ownText && !quiet) && !states.length &&
      !invitesAction(element, style) && !dom.getAttribute(element, "aria-label");
    if (plain) return this.children(element, depth, quiet);

    let name = nameOf(control, role);
    const hint = hintOf(element);
    if (hint && hint !== name) states.push(`placeholder=${toJson(hint)}`);
    const isField = dom.tagName(element) === "TEXTAREA" || isEditable(element);
    if (!name && leaf && ownText && !isField) {
      const text = squeeze(textOf(element));
      if (text.length <= MAX_NAME) name = text;
    }
    if (quiet && role === "generic" && leaf && !name && !invitesAction(element, style)) return;
    const chosen = dom.tagName(element) === "SELECT" && !element.multiple && element.selectedOptions[0];
    this.underRulesOf(chosen || element, () => this.line(element, role, name, states, depth), element);
    const inner = frameDocumentOf(element);
    if (dom.tagName(element) === "SELECT") {
      // Those of a list that opens are nowhere, and are there if it is.
      this.options(element, depth + 1, style, role === "listbox" ? null : this.covered);
    } else if (suggestionsOf(element)) {
      this.suggestions(suggestionsOf(element), depth + 1);
    } else if (inner) {
      watchMutations(inner);
      if (windowOf(inner)) keepListening(windowOf(inner), hearCopies);
      this.document(inner, depth + 1);
    } else if (isForeign(element)) {
      if (this.room > 0) this.foreign.push({element, line: this.lines.length - 1, depth, private: this.private, covered: this.covered});
    } else if (isEditable(element)) {
      this.controls(element, depth + 1);
    } else if (!isField) {
      const labelled = isNamedApart(element) || control !== element;
      const told = name !== "" && (NAMED_BY_CONTENT.has(role) || labelled || leaf) && saysAll(element, role, name);
      if (!(leaf && (told || !ownText))) {
        this.children(element, depth + 1, told || (quiet && !labelled));
      }
    }
    if (dom.tagName(element) === "IMG" && dom.hasAttribute(element, "usemap")) this.areas(element, depth + 1);
  }

  // What an editor holds besides its text, which is its value.
  controls(editor, depth) {
    for (const child of childNodesOf(editor)) {
      if (dom.nodeType(child) !== Node.ELEMENT_NODE) continue;
      if (ACTED_ON.has(roleOf(child))) this.element(child, depth, true);
      else if (isRendered(child)) this.controls(child, depth);
    }
  }

  // What can be seen in an element that cannot.
  visibleIn(element, depth, quiet) {
    for (const child of childNodesOf(element)) {
      if (dom.nodeType(child) === Node.ELEMENT_NODE) this.element(child, depth, quiet);
    }
  }

  suggestions(list, depth) {
    if (this.hidden && dom.closest(list, this.hidden)) return;
    const {covered} = this;
    this.underRulesOf(list, () => {
      this.line(list, "listbox", nameOf(list, "listbox"), [], depth, covered);
      if (!this.listed.has(list)) this.options(list, depth + 1, styleOf(list), covered);
    });
    this.listed.add(list);
  }

  options(parent, depth, style, covered) {
    for (const child of dom.children(parent)) {
      if (!isOffered(child) || this.isHidden(child)) continue;
      this.underRulesOf(child, () => this.option(child, depth, style, covered), parent);
    }
  }

  option(element, depth, style, covered) {
    const tag = dom.tagName(element);
    if (tag === "OPTGROUP") {
      this.line(element, "group", squeeze(element.label), isDisabled(element) ? ["disabled"] : [], depth, covered);
      this.options(element, depth + 1, style, covered);
    } else if (tag !== "OPTION") {
      this.options(element, depth, style, covered);
    } else {
      this.line(element, "option", nameOf(element, "option"), statesOf(element, "option", style), depth, covered);
    }
  }

  // The links of an image's map.
  areas(image, depth) {
    const name = dom.getAttribute(image, "usemap").replace(/^#/, "");
    const root = dom.getRootNode(image);
    for (const area of inRoot(root, "querySelectorAll", "map area[href]") ?? []) {
      if (dom.getAttribute(dom.closest(area, "map"), "name") !== name || imageOfArea(area) !== image) continue;
      if (this.hidden && dom.closest(area, this.hidden)) continue;
      this.underRulesOf(area, () => this.line(area, "link", nameOf(area, "link"), [], depth));
    }
  }
}

// Whether an element has a line of its own.
const isShown = element => isVisible(element) && !dom.closest(element, "[aria-hidden=true]");

// Whether an element in a label has controls besides the label's own, such as a calendar that opens there:
// its text is no part of the control's name.
function isPanel(element) {
  const label = dom.parentElement(element);
  if (!label || dom.tagName(label) !== "LABEL" || !label.control || isWithin(label.control, element)) return false;
  return [...dom.querySelectorAll(element, "*")].some(node => ACTED_ON.has(roleOf(node)) && isVisible(node));
}

// Whether a label says nothing that the name of its control does not. Of several, the first stands at the
// control; another may stand anywhere.
const repeats = (label, control) => labelsOf(control)[0] === label &&
  nameOf(control, roleOf(control)).toLowerCase().includes(squeeze(textOf(label, control)).toLowerCase());

function treeOf(hidden, limit, allCovered = false) {
  const writer = new TreeWriter(hidden, limit, allCovered);
  labelsByRoot = new Map();
  noteModal();
  try {
    measuring(() => writer.document(document, 0));
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
