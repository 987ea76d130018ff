// Tells what a person, or a program through the debugging protocol, does on the page, joined into
// gestures: trusted events only, and of those that a page's script can cause (execCommand, click())
// only the ones that follow from the person's own. Each gesture is told when it begins, with what the page shows before
// any of the page's own handlers ran, and when it is complete. See listener.py for the messages.
const BINDING = "webtrajTell";
const LEAST_DRAG = 6;  // CSS pixels; a hand that clicks also moves.
const MAX_PATH = 16;
const ROLL_MS = 250;  // Without a turn of the wheel, a scroll is over.
const DOUBLE_MS = 500;
const HERE_MS = 500;  // Without a move of the mouse, it may have been in another tab.
const LARGE = 120;  // CSS pixels: on a larger plain element, the place of a click matters.
const PICKED = new Set(["date", "time", "datetime-local", "month", "week", "color", "range"]);
const EDITING = new Set(["Backspace", "Delete"]);
const MOVING = new Set(["ArrowLeft", "ArrowRight", "Home", "End"]);
const MAX_MOVES = 100;
const MODIFIERS = new Set(["Shift", "Control", "Alt", "Meta", "AltGraph", "CapsLock", "NumLock"]);

let shownElements = new WeakSet();
let lookOptions = page.lookOptions;
let press = null;  // The mouse button that is down.
let lastPress = null;
let roll = null;  // The scroll in progress.
let typing = null;  // A text being typed: its `keys`, null once anything else changed it, and those `reported`.
let heldKey = null;  // A key in a text field, until it is known whether the page handles it itself.
let moves = null;  // The keys that moved the caret or the selection of a field since its text last changed.
let movedAt = -Infinity;

// In seconds, by the clock of the browser's machine.
const moment = () => (timeOrigin + now()) / 1000;
const tell = message => window[BINDING]?.(stringify({at: moment(), ...message}));

// The page as it is before the gesture.
const before = () => lookOptions && seenNow(lookOptions);

// `since`: the key that began it, if that was pressed earlier.
function begin(what, more = () => ({}), since = null) {
  const at = since?.at ?? moment();
  endRoll();
  if (what !== "type") endKey();
  const moved = moves;
  moves = null;
  if (what !== "type") typing = null;
  if (moved) {
    tell({kind: "begin", at: moved.at, what: "key", before: moved.seen});
    tell({kind: "key", keys: moved.keys.join(" "), repeat: false, element: told(meant(moved.field))});
  }
  const seen = since?.seen ?? before();  // Before the element is named: it names all that is shown.
  tell({kind: "begin", at, what, before: seen, ...more()});
}

function beginTyping(field, since) {
  if (typing?.field === field && !moves) return;
  // A text that is reported as a whole does not depend on the caret.
  if (moves?.field === field && !(typing?.field === field && typing.reported)) moves = null;
  begin("type", undefined, since);
  typing = {field, keys: [], answered: catchesKeys(field), replaces: valueIn(field) !== "", reported: ""};
}

// Whether a field cannot be seen: it takes the keys for an editor that draws the text elsewhere.
function catchesKeys(field) {
  const {width, height} = dom.getBoundingClientRect(field);
  return !isEditable(field) && (Math.min(width, height) < 2 || styleOf(field).opacity === "0");
}

const hasCommand = event => event.ctrlKey || event.metaKey || event.altKey;

const isMove = (event, lines) => MOVING.has(event.key) || (hasCommand(event)
  ? /^a$/i.test(event.key) : lines && /^Arrow(Up|Down)$/.test(event.key));

// Whether a key in a text field is for the text: it changes it, copies it, or moves the caret.
const isForText = (event, lines) => EDITING.has(event.key) || isMove(event, lines) ||
  (hasCommand(event) ? /^[cvxyz]$/i.test(event.key) : event.key.length === 1);

function chordOf(event) {
  const shift = event.shiftKey && (hasCommand(event) || event.key.length > 1);
  const held = modifiersOf(event).filter(name => name !== "Shift" || shift);
  return [...held, event.key === " " ? "Space" : event.key].join("+");
}

// Report a key that the page handled itself. One that the browser handled changed the text, which `input`
// reports, or moved the caret.
function endKey() {
  const ended = heldKey;
  heldKey = null;
  if (!ended) return;
  const {event, field, lines, at, seen, events} = ended;
  if (!events.some(each => each.defaultPrevented)) {
    if (!isMove(event, lines)) return;
    if (moves?.field !== field) moves = {field, keys: [], at, seen};
    if (moves.keys.length < MAX_MOVES) moves.keys.push(chordOf(event));
  } else if (hasCommand(event) || event.key.length > 1) {
    begin("key", undefined, ended);
    tell({kind: "key", keys: chordOf(event), repeat: false, element: told(meant(field))});
  } else {
    beginTyping(field, ended);
    typing.keys?.push(event.key);
    typing.answered = true;
    tellText(field);
  }
}

// Report a field's text; and the keys if the field does not keep them, as an editor with its text elsewhere.
function tellText(field) {
  const element = told(meant(field));
  const own = typing?.field === field ? typing : null;
  const isKept = !own?.keys || element.secret || (!own.answered && keeps(field, own.keys));
  const keys = isKept ? "" : own.keys.join("");
  if (own) own.reported = keys;
  const value = valueIn(field);
  // Whether the keys alone produced the text.
  const typed = !element.secret && own?.keys?.join("") === value;
  tell({kind: "text", element, value, keys, typed, replaces: typed && own.replaces});
}

function keeps(field, keys) {
  const value = valueIn(field).toLowerCase();
  let at = 0;
  return keys.every(letter => /\s/.test(letter) || (at = value.indexOf(letter.toLowerCase(), at) + 1) > 0);
}

function noteTyped({inputType, data}) {
  const {keys} = typing;
  if (inputType === "insertText" && data !== null) keys?.push(...data);
  else if (inputType === "deleteContentBackward" && keys?.length) keys.pop();
  else if (!/^insert(LineBreak|Paragraph)$/.test(inputType)) typing.keys = null;
}

page.noteShown = (entries, options) => {
  shownElements = new WeakSet(entries.map(({element}) => element));
  const {begin: ignored, settle: alsoIgnored, ...kept} = options;
  lookOptions = kept;
  listenIn(window);
  listenInFrames(document);
};

function listenInFrames(root) {
  for (const frame of inRoot(root, "querySelectorAll", FRAMES) ?? []) {
    const inner = frameDocumentOf(frame);
    if (!inner?.defaultView) continue;
    listenIn(inner.defaultView);
    listenInFrames(inner);
  }
}

// What the person does right now. A script makes trusted input and change events, too, but no
// trusted beforeinput, key or click of a pointer before them.
let edit = null;  // The last beforeinput, until its input.
let clicked = [];  // The path of the click being done.
let keyed = null;  // The element of the key being pressed or released.
const touched = new WeakSet();  // The select elements that were pressed, or had a key.

function isOwnText(event, field) {
  // Not instanceof, since a frame's events are of classes of its own.
  if (event.inputType === undefined) return true;  // A spin button, a cross, the browser's autofill.
  const own = edit;
  const is = own?.field === field &&
    own.event.eventPhase === Event.NONE &&  // Or a handler of it makes this input.
    !own.event.defaultPrevented && own.event.inputType === event.inputType &&
    (event.inputType !== "insertText" || own.event.data === event.data);
  if (is) edit = null;
  return is;
}

function isOwnToggle(control) {
  const group = other => other?.type === "radio" && control.type === "radio" &&
    other.name === control.name && other.form === control.form;
  return keyed === control || group(keyed) ||
    clicked.some(node => node === control || [...control.labels ?? []].includes(node));
}

// These last as long as the browser's own answer to them: until the next task.
function noteKey(event) {
  const target = keyed = targetOf(event);
  if (target) touched.add(target);
  later(() => keyed === target && (keyed = null), 0);
}

function noteClick(event) {
  if (event.pointerId < 0) return;  // By a key, or passed on by a label.
  const path = clicked = event.composedPath();
  later(() => clicked === path && (clicked = []), 0);
}

const listenIn = view => keepListening(view, addHandlers);

function addHandlers(view) {
  for (const [type, listener] of heard) {
    // The browser scrolls before it tells a passive listener of the wheel.
    view.addEventListener(type, listener, {capture: true, passive: type !== "wheel"});
  }
}

const hearing = handler => event => {
  if (!event.isTrusted) return;
  try {
    handler(event);
  } catch (error) {
    tell({kind: "trouble", text: String(error).slice(0, 500)});
  }
};

const targetOf = event => {
  const target = event.composedPath()[0];
  return target && dom.nodeType(target) === Node.ELEMENT_NODE ? target : null;
};

// Roles of elements that do the same wherever they are pressed.
const WHOLE = new Set(["button", "link", "checkbox", "radio", "switch", "textbox", "searchbox", "spinbutton"]);

// Whether a press on a part of an element, such as the arrow of a row, may do something else than a press on
// the element: the part has no text, and an agent's click on the element would not hit it.
function isPart(target, element, role) {
  if (target === element || WHOLE.has(role) || /\S/.test(dom.textContent(target) ?? "")) return false;
  const [point] = reach(element).points;
  return !point || !isWithin(deepestAt(...point), target);
}

// The element as an agent would name it: the nearest one that the tree shows, or the button or link
// around that.
function meant(target) {
  let first = null;
  for (let node = target; node; node = parentAcrossShadow(node) ??
      (dom.nodeType(node) === Node.DOCUMENT_NODE ? node.defaultView?.frameElement : null)) {
    if (dom.nodeType(node) !== Node.ELEMENT_NODE || !shownElements.has(node)) continue;
    first ??= node;
    if (ACTED_ON.has(roleOf(node))) return node;
  }
  return first ?? target;
}

// `target`: the part of it that was pressed.
function told(element, target = element) {
  const described = describe(element);
  const tag = dom.tagName(element);
  const isRoot = tag === "HTML" || tag === "BODY";
  const [, , width, height] = described.box;
  const isText = dom.childElementCount(element) === 0 && /\S/.test(dom.textContent(element) ?? "");
  const plain = !isText && !ACTED_ON.has(described.role) && !invitesAction(element, styleOf(element));
  const isLarge = plain && (width > LARGE || height > LARGE);
  return {
    ...described,
    place: isRoot || tag === "CANVAS" || !shownElements.has(element) || isLarge ||
      isPart(target, element, described.role),
    root: isRoot,
    secret: tag === "INPUT" && (element.type === "password" || knownPasswordFields.has(element)),
    text: isTextField(element),
  };
}

function isTextField(element) {
  const tag = dom.tagName(element);
  return isEditable(element) || tag === "TEXTAREA" ||
    (tag === "INPUT" && TEXT_INPUT_TYPES.has(element.type));
}

// The element whose text a key or an input event changes.
function fieldOf(element) {
  if (!isEditable(element)) return element;
  let field = element;
  while (!isEditor(field)) field = dom.parentElement(field);
  return field;
}

const valueIn = field => isEditable(field) ? field.innerText.replace(/\n$/, "") : field.value;

const modifiersOf = event => [
  event.altKey && "Alt", event.ctrlKey && "Control", event.metaKey && "Meta",
  event.shiftKey && "Shift"].filter(name => name);

const pointOfEvent = event => {
  const target = targetOf(event);
  const [x, y] = moved(target ? outwardOf(target) : HERE, event.clientX, event.clientY);
  return [Math.max(x, 0), Math.max(y, 0)];
};

// Chosen in a window of the browser's, not on the page; told when it changes the value.
function isPicked(element) {
  const tag = dom.tagName(element);
  if (tag === "OPTION") return isPicked(dom.closest(element, "select") ?? document.body);
  if (tag === "SELECT") return true;
  return tag === "INPUT" && (element.type === "range" || element.type === "color" || element.type === "file");
}

function onScrollbar(event, target) {
  if (target.clientWidth === 0 && target.clientHeight === 0) return false;
  const root = dom.tagName(target) === "HTML";
  if (!root && !/auto|scroll/.test(styleOf(target).overflowX + styleOf(target).overflowY)) return false;
  const box = root ? {left: 0, top: 0} : dom.getBoundingClientRect(target);
  const x = event.clientX - box.left - (root ? 0 : dom.clientLeft(target));
  const y = event.clientY - box.top - (root ? 0 : dom.clientTop(target));
  return x >= dom.clientWidth(target) && dom.scrollHeight(target) > dom.clientHeight(target) ||
    y >= dom.clientHeight(target) && dom.scrollWidth(target) > dom.clientWidth(target);
}

function endPress(event, extra = {}) {
  const ended = press;
  press = null;
  if (!ended || ended.silent) return;
  const [x, y] = event ? pointOfEvent(event) : ended.path.at(-1);
  const [fromX, fromY] = ended.path[0];
  const far = ended.path.some(([px, py]) => Math.hypot(px - fromX, py - fromY) >= LEAST_DRAG);
  tell({kind: "up", path: far ? thinned([...ended.path, [x, y]]) : null, count: ended.count, ...extra});
}

function thinned(path) {
  if (path.length <= MAX_PATH) return path;
  const step = (path.length - 1) / (MAX_PATH - 1);
  return Array.from({length: MAX_PATH}, (_, at) => path[Math.round(at * step)]);
}

function scrollerAt(target, dx, dy) {
  for (let node = target; node; node = parentAcrossShadow(node)) {
    if (dom.nodeType(node) !== Node.ELEMENT_NODE) continue;
    if (node === dom.ownerDocument(node).scrollingElement) break;
    const style = styleOf(node);
    const down = /auto|scroll/.test(style.overflowY) && dom.scrollHeight(node) > dom.clientHeight(node);
    const right = /auto|scroll/.test(style.overflowX) && dom.scrollWidth(node) > dom.clientWidth(node);
    if ((dy && down) || (dx && right)) return node;
  }
  return target ? dom.ownerDocument(target).scrollingElement : document.scrollingElement;
}

function beginRoll(event, target, scroller) {
  if (roll?.scroller === scroller) return;
  begin("scroll");
  roll = {
    scroller, point: pointOfEvent(event), left: scroller.scrollLeft, top: scroller.scrollTop,
    turned: [0, 0], timer: 0, at: "", waits: 0,
  };
}

// Scrolling begins a moment after the wheel turns, and is smooth.
function restRoll() {
  const {scroller, left, top} = roll;
  const at = `${scroller.scrollLeft} ${scroller.scrollTop}`;
  const unmoved = at === `${left} ${top}` && roll.waits++ < 3;
  if (at === roll.at && !unmoved) return endRoll();
  roll.at = at;
  roll.timer = later(restRoll, ROLL_MS);
}

function keepRolling() {
  window.clearTimeout(roll.timer);
  roll.timer = later(restRoll, ROLL_MS);
}

function endRoll() {
  const ended = roll;
  roll = null;
  if (!ended) return;
  window.clearTimeout(ended.timer);
  const {scroller, point, turned} = ended;
  const dx = scroller.scrollLeft - ended.left, dy = scroller.scrollTop - ended.top;
  const isPage = scroller === document.scrollingElement;
  const element = isPage ? null : told(meant(scroller));
  tell({kind: "scroll", element, dx, dy, point, turned});
}

const handlers = {
  click: noteClick,

  keypress(event) {
    heldKey?.events.push(event);
  },

  keyup(event) {
    noteKey(event);
    endKey();
  },

  pointerdown(event) {
    const target = targetOf(event);
    if (!target) return;
    touched.add(dom.closest(target, "select") ?? target);
    if (press) endPress(null);
    if (onScrollbar(event, target)) {
      const root = dom.tagName(target) === "HTML";
      press = {silent: true, path: [pointOfEvent(event)]};
      beginRoll(event, target, root ? document.scrollingElement : target);
      return;
    }
    const point = pointOfEvent(event);
    if (isPicked(target)) {
      // What the page shows before the choice.
      begin("pick");
      press = {silent: true, path: [point]};
      return;
    }
    const time = now();
    const again = lastPress && lastPress.button === event.button && time - lastPress.time < DOUBLE_MS &&
      Math.hypot(point[0] - lastPress.point[0], point[1] - lastPress.point[1]) < LEAST_DRAG;
    const count = again ? Math.min(lastPress.count + 1, 3) : 1;
    lastPress = {time, point, count, target, button: event.button};
    press = {path: [point], count, silent: false};
    begin("press", () => ({
      element: told(meant(target), target), point, button: event.button, modifiers: modifiersOf(event), count,
    }));
  },

  mousedown(event) {
    // The browser's own count, which may allow more time.
    if (!press || press.silent || event.detail === 0) return;
    press.count = lastPress.count = Math.min(event.detail, 3);
  },

  pointermove(event) {
    const time = now();
    if (time - movedAt > HERE_MS) tell({kind: "here"});
    movedAt = time;
    if (!press) return;
    const point = pointOfEvent(event);
    const [x, y] = press.path.at(-1);
    if (Math.hypot(point[0] - x, point[1] - y) >= 4 && press.path.length < 1000) press.path.push(point);
  },

  pointerup(event) {
    endPress(event);
  },

  pointercancel() {
    if (press && !press.dragged) press = null;
  },

  dragstart(event) {
    const target = targetOf(event);
    if (target && press) press.dragged = told(meant(target));
  },

  drop(event) {
    const target = targetOf(event);
    const from = press?.dragged, start = press?.path[0];
    press = null;
    if (!from || !target) return;
    const onto = told(meant(target));
    // A page that sorts during the drag has moved what is dragged below the mouse: only the points
    // say where it went.
    if (onto.ref === from.ref) tell({kind: "up", path: [start, pointOfEvent(event)], count: 1});
    else tell({kind: "drop", element: from, target: onto});
  },

  dragend() {
    press = null;
  },

  wheel(event) {
    const target = targetOf(event);
    if (!target || event.ctrlKey) return;
    const scroller = scrollerAt(target, event.deltaX, event.deltaY);
    if (!scroller) return;
    beginRoll(event, target, scroller);
    roll.turned = [roll.turned[0] + event.deltaX, roll.turned[1] + event.deltaY];
    keepRolling();
  },

  scroll() {
    if (roll) keepRolling();
  },

  keydown(event) {
    noteKey(event);
    endKey();
    if (event.isComposing || MODIFIERS.has(event.key)) return;
    const target = targetOf(event);
    const field = fieldOf(target);
    const inText = field && isTextField(field);
    const lines = inText && (isEditable(field) || dom.tagName(field) === "TEXTAREA");
    if (inText && isForText(event, lines)) {
      const goesOn = typing?.field === field && !typing.reported && !hasCommand(event) && !isMove(event, lines);
      heldKey = {event, field, lines, at: moment(), seen: goesOn ? null : before(), events: [event]};
      return;
    }
    if (field && dom.tagName(field) === "SELECT" && !["Tab", "Escape"].includes(event.key)) {
      if (!event.repeat) begin("pick");
      return;
    }
    const body = !field || field === bodyOf(dom.ownerDocument(field)) || dom.tagName(field) === "HTML";
    if (!event.repeat) begin("key");
    tell({
      kind: "key", keys: chordOf(event), repeat: event.repeat,
      element: body ? null : told(meant(field)),
    });
  },

  beforeinput(event) {
    const field = fieldOf(targetOf(event));
    if (!field || !isTextField(field)) return;
    const own = edit = {event, field};
    later(() => edit === own && (edit = null), 0);
    const since = heldKey?.field === field ? heldKey : null;
    since?.events.push(event);
    beginTyping(field, since);
  },

  input(event) {
    const field = fieldOf(targetOf(event));
    if (!field || !isTextField(field)) return;
    notePasswordField(field);
    if (!isOwnText(event, field)) return;
    const own = typing?.field === field ? typing : null;
    if (own) noteTyped(event);
    tellText(field);
    // The page may take the text out of the field again.
    if (own?.keys) later(() => typing === own && own.keys && !own.reported && !keeps(field, own.keys) && tellText(field), 0);
  },

  focusout(event) {
    if (fieldOf(targetOf(event)) === typing?.field) typing = null;
  },

  change(event) {
    const target = targetOf(event);
    if (!target) return;
    const tag = dom.tagName(target);
    if (tag === "SELECT") {
      if (!touched.has(target)) return;
      const chosen = [...target.selectedOptions], options = chosen.map(option => squeeze(option.label));
      const alike = [...target.options].filter(option => isOffered(option) && squeeze(option.label) === options[0]);
      const ambiguous = chosen.length === 1 && alike.length > 1;  // Then only the option itself says which.
      tell({kind: "choose", element: told(ambiguous ? chosen[0] : meant(target)), options});
    } else if (tag === "INPUT" && (target.type === "checkbox" || target.type === "radio")) {
      if (!isOwnToggle(target)) return;
      tell({kind: "toggle", element: told(meant(target)), on: target.checked});
    } else if (tag === "INPUT" && target.type === "file") {
      // The last press opened the window of a field that is not shown.
      const opener = shownElements.has(target) ? target : lastPress?.target ?? target;
      tell({kind: "files", element: told(meant(opener)), names: [...target.files].map(file => file.name)});
    } else if (tag === "INPUT" && PICKED.has(target.type)) {
      tell({kind: "text", element: told(meant(target)), value: target.value, keys: "", typed: false});
    }
  },

  load(event) {
    // A frame that has just been loaded.
    const inner = event.target !== document && frameDocumentOf(event.target);
    if (inner?.defaultView) listenIn(inner.defaultView);
  },

  pagehide(event) {
    if (event.target !== document) return;
    endRoll();
    endKey();
    if (press) endPress(null);
    tell({kind: "leave", at: moment(), before: before()});
  },
};

const heard = Object.entries(handlers).map(([type, handler]) => [type, hearing(handler)]);

// The top document listens in frames of its own origin; others begin when they are first looked at,
// since their refs have a prefix.
if (window === window.top) listenIn(window);
