// One call a step: begin an episode if asked, settle, look. Returns one JSON string, since
// Playwright's own way of returning objects costs more than everything else here.
const TREE_CHANNELS = ["axtree", "changes", "boxes", "set_of_marks"];

async function observe(options) {
  const result = {};
  const bad = setPrivateRules(options.private ?? [], options.all_private);
  if (bad) return toJson({bad_selector: bad});
  if (options.begin !== undefined) {
    forgetRefs();
    takeCopied();
    result.begun = await page.task.begin(options.begin);
  }
  if (options.ref_prefix) refPrefix = options.ref_prefix;
  else continueRefsFrom(options.first_ref);
  held = options.clipboard ?? held;
  momentOptions = options.moments ? options : null;
  noteMoment();
  result.settle = await settle(options.settle);
  return toJson({...result, ...seenNow(options), copied: takeCopied(), moments: takeMoments()});
}

// If asked for: what the page showed after each change since the last look, and as this one began. Pages that
// never rest change often, so reading them takes at most MOMENTS_MS between two looks.
const MOMENTS_MS = 500;
let momentOptions = null;
let moments = [];
let momentsTook = 0;

function noteMoment() {
  if (!momentOptions || momentsTook > MOMENTS_MS) return;
  const start = now();
  const {hidden, axtree_limit, all_covered} = momentOptions;
  const axtree = treeOf(hidden, axtree_limit, all_covered).lines.join("\n");
  if (axtree !== moments.at(-1)?.axtree) moments.push({url: location.href, title: document.title, axtree});
  momentsTook += now() - start;
}

function takeMoments() {
  momentsTook = 0;
  return moments.splice(0);
}

// What the page shows at this moment.
function seenNow(options) {
  const result = {};
  const start = now();
  const want = new Set(options.channels);
  result.url = location.href;
  if (want.has("title")) result.title = document.title;
  let privateLines = [];
  const isTold = TREE_CHANNELS.some(channel => want.has(channel));
  // Without the tree, frames of another origin may still hold passwords and private elements.
  if (isTold || options.passwords || watchesPrivate()) {
    const tree = treeOf(options.hidden, options.axtree_limit, options.all_covered);
    privateLines = tree.privateLines;
    const foreign = foreignFrames(tree.foreign);
    if (foreign.length) result.foreign = foreign;
    if (isTold) result.axtree = tree.lines.join("\n");
    if (isTold) page.noteShown?.(tree.entries, options);
    if (want.has("boxes")) result.boxes = measuring(() => boxesOf(tree.entries));
    if (want.has("set_of_marks")) result.marks = measuring(() => marksOf(tree.entries));
  }
  if (want.has("text")) result.text = textOfDocument();
  if (want.has("focused")) result.focused = focusedRef();
  if (want.has("scroll")) result.scroll = scrollExtents();
  if (options.passwords) result.passwords = passwordsSeen();
  if (watchesPrivate()) result.private = privateSeen(privateLines);
  result.task = page.task ? page.task.state() : null;
  result.next_ref = nextRef;
  result.ms = now() - start;
  return result;
}

function textOfDocument() {
  const shown = document.documentElement;
  return shown?.innerText ?? (shown ? dom.textContent(shown) : "");
}

function focusedElement() {
  let active = document.activeElement;
  for (;;) {
    const inner = active && (dom.shadowRoot(active) ?? frameDocumentOf(active))?.activeElement;
    if (!inner) break;
    active = inner;
  }
  return !active || (active === active.ownerDocument.body && !hasCaret(active)) ? null : active;
}

function focusedRef() {
  const element = focusedElement();
  return element ? refOf(element) : "";
}

function scrollExtents() {
  const root = document.scrollingElement ?? document.documentElement;
  return {
    x: root.scrollLeft,
    y: root.scrollTop,
    width: innerWidth,
    height: innerHeight,
    page_width: root.scrollWidth,
    page_height: root.scrollHeight,
  };
}

// For scripted oracles: elements by CSS selector, with the properties that a script selects by.
function query(selector) {
  return [...document.querySelectorAll(selector)].map(element => ({
    ref: refOf(element),
    tag: dom.localName(element),
    text: squeeze(dom.textContent(element) ?? ""),
    value: typeof element.value === "string" ? element.value : "",
    checked: element.checked === true,
    visible: isRendered(element) && styleOf(element).visibility === "visible",
    box: boxOf(element),
    attributes: Object.fromEntries([...element.attributes].map(({name, value}) => [name, value])),
  }));
}

// The ref of the first element at a path of selectors, each inside the one before (a frame, a shadow
// host or any element), with exactly this text if one is given; null if there is none.
function find(path, text) {
  let found = [document];
  for (const selector of path) {
    found = found.flatMap(element => [
      ...(element.shadowRoot ?? element.contentDocument ?? element).querySelectorAll(selector),
    ]);
  }
  const fitting = found.find(
    element => text === null || squeeze(dom.textContent(element) ?? "") === text);
  return fitting ? refOf(fitting) : null;
}

page.observe = text => observe(JSON.parse(text));
page.prepare = text => toJson(prepare(JSON.parse(text)));
page.query = text => toJson(query(JSON.parse(text)));
page.find = text => toJson(find(...JSON.parse(text)));
page.refOf = refOf;
page.elementOf = elementOf;
page.throughFrame = async text => toJson(await throughFrame(JSON.parse(text)));
page.seenThroughFrame = text => toJson(seenThroughFrame(JSON.parse(text)));
page.elementAt = text => {
  const [x, y] = JSON.parse(text);
  const found = deepestAt(x, y);
  return toJson(found && describe(found));
};

// The elements at paths from the document: child numbers, "shadow" and "frame".
function elementAtPath(path) {
  let node = path && document;
  for (const part of path ?? []) {
    if (part === "shadow") node = dom.shadowRoot(node);
    else if (part === "frame") node = frameDocumentOf(node);
    else node = dom.childNodes(node)[part];
    if (!node) return null;
  }
  return node?.nodeType === Node.ELEMENT_NODE ? node : null;
}

page.elementsAt = text => {
  const {paths, hidden} = JSON.parse(text);
  const elements = paths.map(elementAtPath).map(element => element && {
    ref: refOf(element),
    password: knownPasswordFields.has(element),
    hidden: hidden !== "" && dom.matches(element, hidden),
  });
  return toJson({elements, next_ref: nextRef});
};
