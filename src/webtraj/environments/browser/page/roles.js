// ARIA roles, names and states, as far as they matter to someone who acts on the page.
// The rules: W3C HTML-AAM (implicit roles) and accname (names), without their rarest cases.
const ROLE_BY_TAG = {
  ARTICLE: "article", ASIDE: "complementary", BUTTON: "button", CANVAS: "canvas",
  DATALIST: "listbox",
  DETAILS: "group", DIALOG: "dialog", FIELDSET: "group", FOOTER: "contentinfo", FORM: "form",
  H1: "heading", H2: "heading", H3: "heading", H4: "heading", H5: "heading", H6: "heading",
  FRAME: "iframe", HEADER: "banner", HR: "separator", IFRAME: "iframe", IMG: "img", LI: "listitem",
  MAIN: "main",
  MENU: "list", METER: "meter", NAV: "navigation", OL: "list", OPTGROUP: "group",
  OPTION: "option", OUTPUT: "status", P: "paragraph", PROGRESS: "progressbar", SEARCH: "search",
  SUMMARY: "button", TABLE: "table", TD: "cell", TEXTAREA: "textbox", TH: "columnheader",
  TR: "row", UL: "list", VIDEO: "video", AUDIO: "audio",
};
const ROLE_BY_INPUT_TYPE = {
  button: "button", checkbox: "checkbox", file: "button", image: "button", number: "spinbutton",
  radio: "radio", range: "slider", reset: "button", search: "searchbox", submit: "button",
};
const BOOK_LINKS = new Set(["doc-backlink", "doc-biblioref", "doc-glossref", "doc-noteref"]);
const SHAPES = new Set(["circle", "ellipse", "rect", "polygon", "polyline", "path", "line", "image"]);
const NAMED_BY_CONTENT = new Set([
  "button", "link", "option", "heading", "cell", "gridcell", "columnheader", "rowheader", "tab",
  "menuitem", "menuitemcheckbox", "menuitemradio", "treeitem", "checkbox", "radio", "switch",
  "tooltip",
]);
const BUTTON_INPUTS = new Set(["button", "submit", "reset"]);
const MAX_NAME = 1000;
// Fields that take text of one form only.
const TYPES_TOLD = new Set(["date", "time", "datetime-local", "month", "week", "color", "file"]);

function roleOf(element) {
  const given = dom.getAttribute(element, "role")?.trim().split(/\s+/)[0].toLowerCase()
    .replace(/[^a-z0-9-]/g, "");  // It is written without quotes.
  if (given && given !== "none" && given !== "presentation") return BOOK_LINKS.has(given) ? "link" : given;
  const tag = dom.tagName(element);
  if (element instanceof SVGElement || dom.namespaceURI(element)?.endsWith("/svg")) {
    if (tag === "svg") return "img";
    if (tag === "a") return isSvgLink(element) ? "link" : "generic";
    if (tag === "text") return "generic";
    return SHAPES.has(tag) ? tag : "generic";
  }
  if (given) return "generic";
  if (tag === "INPUT") {
    if (suggestionsOf(element)) return "combobox";
    return ROLE_BY_INPUT_TYPE[element.type] ?? "textbox";
  }
  if (tag === "SELECT") return element.multiple || element.size > 1 ? "listbox" : "combobox";
  if (tag === "A" || tag === "AREA") return dom.hasAttribute(element, "href") ? "link" : "generic";
  if (isEditor(element)) return "textbox";
  if ((tag === "OBJECT" || tag === "EMBED") && (frameDocumentOf(element) || isForeign(element))) return "iframe";
  if (tag === "TD" && GRIDS.has(dom.getAttribute(dom.closest(element, "table") ?? element, "role"))) return "gridcell";
  if (tag === "TH" && ROW_SCOPES.has(dom.getAttribute(element, "scope")?.toLowerCase())) return "rowheader";
  return ROLE_BY_TAG[tag] ?? "generic";
}

// The list of what the browser suggests for a text field.
const suggestionsOf = element => dom.tagName(element) === "INPUT" ? element.list : null;
const isSuggestion = element => dom.tagName(element) === "OPTION" && dom.closest(element, "datalist") !== null;

// What the browser shows of an option.
const labelOf = option => squeeze(option.label) || (isSuggestion(option) ? squeeze(option.value) : "");

const GRIDS = new Set(["grid", "treegrid"]);
const ROW_SCOPES = new Set(["row", "rowgroup"]);

// What can be edited as a whole: a document is edited in its body.
const isEditor = element => isEditable(element) &&
  (!isEditable(dom.parentElement(element)) || element === bodyOf(dom.ownerDocument(element)));

// The button of a <details> element.
const isDisclosure = element => {
  const around = dom.tagName(element) === "SUMMARY" ? dom.parentElement(element) : null;
  return around !== null && dom.tagName(around) === "DETAILS" &&
    [...dom.children(around)].find(child => dom.tagName(child) === "SUMMARY") === element;
};

const isSvgLink = element => dom.hasAttribute(element, "href") ||
  element.getAttributeNS("http://www.w3.org/1999/xlink", "href") !== null;

// Of elements in each other: what is nested more deeply is not read, as the stack has an end.
const MAX_NESTING = 600;  // A parser nests no more than 512.

// The words of a node as they are read aloud. `named`: what they are to name, which is no part of its
// own name.
function textOf(node, named = null, nesting = 0) {
  if (dom.nodeType(node) === Node.TEXT_NODE) return node.data;
  if (dom.nodeType(node) !== Node.ELEMENT_NODE || !isRendered(node) || nesting > MAX_NESTING) return "";
  const tag = dom.tagName(node);
  if (tag === "IMG") return ` ${node.alt} `;
  if (tag === "BR") return " ";
  if (tag === "SCRIPT" || tag === "STYLE" || tag === "TEXTAREA" || (named && node === named)) return "";
  if (isBranch(node)) return " ";
  if (tag === "SELECT") return ` ${node.selectedOptions[0]?.label ?? ""} `;
  if (dom.getAttribute(node, "role") === "listbox") return ` ${chosenIn(node, nesting)} `;
  const label = dom.getAttribute(node, "aria-label");
  if (label) return ` ${label} `;
  let text = tag === "svg" ? ` ${titleOf(node)} ` : "";
  for (const child of childNodesOf(node)) text += textOf(child, named, nesting + 1);
  return styleOf(node).display.startsWith("inline") ? text : ` ${text} `;
}

// A list within a name adds its selected options to the name, not its own label.
const chosenIn = (list, nesting) =>
  [...dom.querySelectorAll(list, "[aria-selected=true]")].map(each => textOf(each, null, nesting + 1)).join(" ");

// The items below an item of a tree, which are no part of its name.
function isBranch(element) {
  if (dom.getAttribute(element, "role") !== "group") return false;
  const around = dom.parentElement(element);
  return around !== null && dom.getAttribute(around, "role") === "treeitem";
}

// The words that are seen, whatever they are called.
function wordsIn(node, nesting = 0) {
  if (dom.nodeType(node) === Node.TEXT_NODE) return node.data;
  if (dom.nodeType(node) !== Node.ELEMENT_NODE || NEVER_SHOWN.has(dom.tagName(node))) return "";
  if (!isRendered(node) || nesting > MAX_NESTING) return "";
  if (dom.tagName(node) === "TEXTAREA" || dom.tagName(node) === "SELECT") return "";
  let text = " ";
  for (const child of childNodesOf(node)) text += wordsIn(child, nesting + 1);
  return text;
}

// The title of a drawing in SVG.
function titleOf(element) {
  for (const child of dom.children(element)) {
    if (dom.tagName(child) === "title") return dom.textContent(child);
  }
  return "";
}

const CUT = "\u2026";

function nameOf(element, role) {
  const name = squeeze(rawNameOf(element, role));
  return name.length > MAX_NAME ? name.slice(0, MAX_NAME - 1) + CUT : name;
}

// Whether all words that are seen in an element are in its name.
function saysAll(element, role, name) {
  if (name.endsWith(CUT) && name.length === MAX_NAME) return false;
  if (NAMED_BY_CONTENT.has(role) && !isNamedApart(element)) return true;
  const said = name.toLowerCase();
  const words = squeeze(wordsIn(element)).toLowerCase();
  return said.includes(words) || !/[\p{L}\p{N}]/u.test(words);
}

// Whether something else than its content may name an element.
const isNamedApart = element =>
  dom.hasAttribute(element, "aria-label") || dom.hasAttribute(element, "aria-labelledby") ||
  labelsOf(element).length > 0;

// Why Playwright may not find an element by its name; see `LastAction`.
function namedBy(element, role, name) {
  if (!name) return [];
  const found = isBehindLabel(element) ? ["behind"] : [];
  const ownText = WITHOUT_TEXT.has(dom.tagName(element)) || squeeze(playwrightTextOf(element)) === name;
  if (squeeze(dom.getAttribute(element, "aria-label") ?? "") === name) {
    return ownText ? found : [...found, "aria-label"];
  }
  const byContent = NAMED_BY_CONTENT.has(role);
  if (byContent && squeeze(dom.getAttribute(element, "title") ?? "").slice(0, MAX_NAME) === name &&
      !textOf(element).trim()) return [...found, "title"];
  const named = [...labelsOf(element), ...(byContent ? [element] : [])];
  const parts = named.flatMap(each => [each, ...dom.querySelectorAll(each, "*")]).slice(0, 50);
  if (parts.some(part => hasIcon(part, "::before") || hasIcon(part, "::after"))) found.push("icon");
  return ownText ? found : [...found, "parts"];
}

const WITHOUT_TEXT = new Set(["INPUT", "TEXTAREA", "SELECT", "IMG", "IFRAME"]);

// The text by which Playwright finds an element, visible or not.
function playwrightTextOf(node, nesting = 0) {
  if (dom.nodeType(node) === Node.TEXT_NODE) return node.data;
  const tag = dom.tagName(node);
  if (tag === "SCRIPT" || tag === "NOSCRIPT" || tag === "STYLE" || nesting > MAX_NESTING) return "";
  if (tag === "INPUT" && BUTTON_INPUTS.has(node.type)) return node.value;
  return [node, openRootOf(node)].filter(Boolean).flatMap(root => [...dom.childNodes(root)])
    .filter(child => dom.nodeType(child) === Node.TEXT_NODE || dom.nodeType(child) === Node.ELEMENT_NODE)
    .map(child => playwrightTextOf(child, nesting + 1)).join("");
}

// Whether a click on a box hits its label instead.
function isBehindLabel(element) {
  if (dom.tagName(element) !== "INPUT" || !STANDS_FOR.has(element.type) || !labelsOf(element).length) return false;
  const [x, y, width, height] = boxOf(element);
  const hit = deepestAt(x + width / 2, y + height / 2);
  return hit !== null && !isWithin(hit, element);
}

function hasIcon(element, part) {
  const content = styleOf(element, part).content;
  return content !== "none" && content !== "normal" && content !== '""';
}

// While a tree is written: the labels of each control, by root. An element's own `labels` searches
// the whole document each time, which takes a minute on a page of 25,000 buttons.
let labelsByRoot = null;

function labelsOf(element) {
  if (!labelsByRoot) return element.labels?.length ? [...element.labels] : [];
  const root = dom.getRootNode(element);
  let labels = labelsByRoot.get(root);
  if (!labels) {
    labels = new Map();
    for (const label of inRoot(root, "querySelectorAll", "label") ?? []) {
      const control = label.control;
      if (!control) continue;
      if (labels.has(control)) labels.get(control).push(label);
      else labels.set(control, [label]);
    }
    labelsByRoot.set(root, labels);
  }
  return labels.get(element) ?? [];
}

// A label that is hidden names its control all the same.
function labelText(label, named) {
  if (!label) return "";
  return isRendered(label) ? textOf(label, named) : dom.getAttribute(label, "aria-label") ?? dom.textContent(label);
}

function rawNameOf(element, role) {
  const ids = dom.getAttribute(element, "aria-labelledby");
  if (ids) {
    const root = dom.getRootNode(element);
    const text = ids.split(/\s+/).map(id => labelText(inRoot(root, "getElementById", id), element)).join(" ");
    if (text.trim()) return text;
  }
  const label = dom.getAttribute(element, "aria-label");
  if (label?.trim()) return label;
  if (dom.tagName(element) === "INPUT" && BUTTON_INPUTS.has(element.type)) {
    return element.value || browsersNameOf(element);
  }
  const labels = labelsOf(element).map(label => labelText(label, element)).join(" ");
  if (labels.trim()) return labels;
  if (typeof element.alt === "string" && element.alt) return element.alt;
  if (dom.tagName(element) === "OPTION") return labelOf(element);
  if (dom.tagName(element) === "svg" && titleOf(element).trim()) return titleOf(element);
  if (NAMED_BY_CONTENT.has(role)) {
    const text = textOf(element);
    if (text.trim()) return text;
  }
  if (dom.tagName(element) === "FIELDSET") {
    const legend = dom.querySelector(element, "legend");
    if (legend) return textOf(legend);
  }
  return dom.getAttribute(element, "title") || dom.getAttribute(element, "placeholder") || browsersNameOf(element);
}

// What the browser writes on a button that nothing else names.
function browsersNameOf(element) {
  if (dom.tagName(element) !== "INPUT") return "";
  if (element.type === "file") return element.multiple ? "Choose Files" : "Choose File";
  return {image: "Submit", submit: "Submit", reset: "Reset"}[element.type] ?? "";
}

function statesOf(element, role, style) {
  const states = [];
  const aria = name => dom.getAttribute(element, `aria-${name}`);
  const isInput = dom.tagName(element) === "INPUT";
  if (isInput && (element.type === "checkbox" || element.type === "radio")) {
    if (element.type === "checkbox" && element.indeterminate) states.push("checked=mixed");
    else if (element.checked) states.push("checked");
  } else if (aria("checked") === "mixed") states.push("checked=mixed");
  else if (aria("checked") === "true") states.push("checked");
  if (aria("selected") === "true" || (dom.tagName(element) === "OPTION" && element.selected && !isSuggestion(element))) {
    states.push("selected");
  }
  if (aria("pressed") === "mixed") states.push("pressed=mixed");
  else if (aria("pressed") === "true") states.push("pressed");
  if (aria("expanded")) states.push(`expanded=${aria("expanded") === "true"}`);
  else if (isDisclosure(element)) states.push(`expanded=${dom.parentElement(element).open}`);
  if (isDisabled(element)) states.push("disabled");
  if (element.readOnly || aria("readonly") === "true") states.push("readonly");
  if (dom.tagName(element) === "TEXTAREA" || aria("multiline") === "true") states.push("multiline");
  if (role === "heading") states.push(`level=${parseInt(aria("level")) || levelOf(element)}`);
  if (isInput && TYPES_TOLD.has(element.type)) states.push(`type=${element.type}`);
  const value = valueOf(element, role);
  if (value) states.push(`value=${toJson(value)}`);
  if (isFilled(element, role, style)) states.push(`fill=${toJson(style.fill)}`);
  const image = role === "generic" || role === "img" ? imageOf(element, style) : "";
  if (image) states.push(`image=${toJson(image)}`);
  if (isFocused(element)) states.push("focused");
  else if (isActive(element)) states.push("active");
  if (scrolls(element, style)) states.push("scrollable");
  return states;
}

const levelOf = element => /^H([1-6])$/.exec(dom.tagName(element))?.[1] ?? 2;

// Shapes have a colour, and so has the text among them unless it is black.
function isFilled(element, role, style) {
  if (SHAPES.has(role)) return style.fill !== "none";
  return dom.tagName(element) === "text" && role === "generic" && style.fill !== "rgb(0, 0, 0)";
}

// The file name of an image that has no words, its own or its style's.
function imageOf(element, style) {
  const url = dom.tagName(element) === "IMG" && !element.alt ? element.src
    : /url\("?([^")]+)/.exec(`${style.content} ${style.backgroundImage}`)?.[1] ?? "";
  return url.startsWith("data:") ? "" : url.split(/[?#]/)[0].split("/").pop();
}

// A plain element without content that is still seen, as a patch of colour or a frame.
function isPatch(element, style) {
  const {width, height} = dom.getBoundingClientRect(element);
  if (width < 4 || height < 4) return false;
  return colorOf(style) !== "" || style.borderTopStyle !== "none" || style.borderLeftStyle !== "none";
}

function colorOf(style) {
  const color = style.backgroundColor;
  return color === "transparent" || /^rgba\(.*, 0\)$/.test(color) ? "" : color;
}

// A password shows as it does to the eye.
function valueOf(element, role) {
  if (dom.tagName(element) === "INPUT") {
    if (role === "button" || role === "checkbox" || role === "radio") return "";
    return element.type === "password" ? "•".repeat(element.value.length) : element.value;
  }
  if (dom.tagName(element) === "TEXTAREA") return element.value;
  if (isSuggestion(element)) return element.value === labelOf(element) ? "" : element.value;
  if (dom.tagName(element) === "SELECT") {
    return element.multiple ? "" : squeeze(element.selectedOptions[0]?.label ?? "");
  }
  if (role === "progressbar" || role === "meter") return String(element.value ?? "");
  if (role === "textbox") return squeeze(wordsOfEditor(element));
  return dom.getAttribute(element, "aria-valuetext") || dom.getAttribute(element, "aria-valuenow") || "";
}

// What an empty field shows.
function hintOf(element) {
  const isField = dom.tagName(element) === "INPUT" || dom.tagName(element) === "TEXTAREA";
  return isField && dom.matches(element, ":placeholder-shown") ? squeeze(element.placeholder) : "";
}

// Lines and blocks of an editor apart.
function wordsOfEditor(element) {
  let text = "";
  for (const child of childNodesOf(element)) text += textOf(child);
  return text;
}

function isDisabled(element) {
  return dom.matches(element, ":disabled") || dom.closest(element, "[aria-disabled=true], [inert]") !== null;
}

function isFocused(element) {
  const root = dom.getRootNode(element);
  return root.activeElement === element && (element !== dom.ownerDocument(element).body || hasCaret(element));
}

// A body is the active element where nothing is.
const hasCaret = body => isEditable(body) && dom.ownerDocument(body).hasFocus() &&
  dom.ownerDocument(body).getSelection().rangeCount > 0;

// Whether the keyboard acts on an element though another has the focus: an option of an open list.
function isActive(element) {
  const id = dom.id(element);
  if (!id) return false;
  const focused = dom.getRootNode(element).activeElement;
  return Boolean(focused) && dom.getAttribute(focused, "aria-activedescendant") === id && focused !== element;
}

function scrolls(element, style) {
  if (!/auto|scroll/.test(style.overflowY + style.overflowX)) return false;
  if (dom.scrollHeight(element) <= dom.clientHeight(element) + 1 && dom.scrollWidth(element) <= dom.clientWidth(element) + 1) {
    return false;
  }
  return dom.clientHeight(element) > 0;
}
