// Preparing an element before, or instead of, trusted input. Each function returns Python's next
// step; a Refusal leaves the page unchanged, apart from scrolling.
const TEXT_INPUT_TYPES = new Set(
  ["text", "search", "url", "tel", "email", "password", "number", "month", "week"]);

const preparations = {
  point(element) {
    requireEnabled(element);
    return {point: pointOf(element)};
  },

  hover(element) {
    return {point: pointOf(element)};
  },

  toggle(element, {on}) {
    requireEnabled(element);
    const native = element.tagName === "INPUT" && /^(checkbox|radio)$/.test(element.type);
    const role = roleOf(element);
    if (!native && !["checkbox", "radio", "switch", "menuitemcheckbox", "option"].includes(role)) {
      throw new Refusal("not_checkable", `${shown(element)} is neither a checkbox nor a radio button.`);
    }
    const checked = native ? element.checked : element.getAttribute("aria-checked") === "true";
    if (checked === on) return {};
    if (!on && (native ? element.type === "radio" : role === "radio")) {
      throw new Refusal("not_checkable", `${shown(element)} is a radio button: choose another instead.`);
    }
    // A styled checkbox often hides its input and shows its label.
    const target = !isRendered(element) && element.labels?.[0] ? element.labels[0] : element;
    return {point: pointOf(target)};
  },

  focus(element) {
    requireVisible(element);
    requireEnabled(element);
    // A page may move the focus on at once, so check the event, not the current focus.
    let focused = isFocused(element);
    const note = () => { focused = true; };
    element.addEventListener("focus", note, {capture: true});
    element.focus();
    element.removeEventListener("focus", note, {capture: true});
    if (!focused) {
      throw new Refusal("not_focusable", `${shown(element)} cannot have the keyboard focus.`);
    }
    return {};
  },

  // Focuses a text field and selects what it holds, for the keyboard to replace; fields that the
  // keyboard fills in a locale's way only (dates, colours, sliders) are set here.
  fill(element, {value}) {
    requireVisible(element);
    requireEnabled(element);
    if (element.readOnly) throw new Refusal("not_editable", `${shown(element)} is read-only.`);
    const isInput = element.tagName === "INPUT";
    if (isEditable(element)) {
      element.focus();
      const selection = element.ownerDocument.getSelection();
      selection.selectAllChildren(element);
      return {replace: element.textContent !== ""};
    }
    if (element.tagName === "TEXTAREA" || (isInput && TEXT_INPUT_TYPES.has(element.type))) {
      if (isInput && element.type === "number" && value !== "" && !Number.isFinite(Number(value))) {
        throw new Refusal("bad_value", `${shown(element)} takes a number.`);
      }
      if (!isInput || !["month", "week"].includes(element.type)) {
        element.focus();
        element.select();
        return {replace: element.value !== ""};
      }
    }
    if (!isInput || /^(checkbox|radio|file|button|submit|reset|image|hidden)$/.test(element.type)) {
      throw new Refusal("not_editable", `${shown(element)} is no text field.`);
    }
    const before = element.value;
    const held = heldForm(element.type, value);
    element.value = held;
    // The browser empties a date field that cannot hold a value, and may drop zero seconds.
    const isDate = /^(date|time|datetime-local)$/.test(element.type);
    if (element.value !== held && !(isDate && element.value !== "")) {
      element.value = before;
      throw new Refusal("bad_value", `${shown(element)} (${element.type}) does not take ${toJson(value)}.`);
    }
    element.focus();
    element.dispatchEvent(new Event("input", {bubbles: true, composed: true}));
    element.dispatchEvent(new Event("change", {bubbles: true}));
    return {filled: true};
  },

  select(element, {options}) {
    requireVisible(element);
    requireEnabled(element);
    const select = element.tagName === "OPTION" ? element.closest("select") : element;
    if (select?.tagName !== "SELECT") {
      throw new Refusal("not_selectable", `${shown(element)} is no select element.`);
    }
    const all = [...select.options];
    const chosen = options.map(wanted => {
      const found = all.find(option => option.value === wanted) ??
        all.find(option => squeeze(option.label) === squeeze(wanted));
      if (!found) {
        const labels = all.slice(0, 30).map(option => toJson(squeeze(option.label))).join(", ");
        throw new Refusal("no_such_option", `${shown(select)} has no option ${toJson(wanted)}; it has ${labels}.`);
      }
      if (dom.matches(found, ":disabled")) throw new Refusal("disabled", `Option ${toJson(wanted)} is disabled.`);
      return found;
    });
    if (chosen.length > 1 && !select.multiple) {
      throw new Refusal("bad_value", `${shown(select)} takes one option.`);
    }
    select.focus();
    if (select.multiple) for (const option of all) option.selected = chosen.includes(option);
    else if (chosen.length) chosen[0].selected = true;
    select.dispatchEvent(new Event("input", {bubbles: true, composed: true}));
    select.dispatchEvent(new Event("change", {bubbles: true}));
    return {};
  },

  scroll(element, {dx, dy}) {
    const from = element ?? document.scrollingElement;
    for (let node = from; node; node = parentAcrossShadow(node)) {
      if (node.nodeType === Node.ELEMENT_NODE && scrollsBy(node, dx, dy)) return {};
    }
    if (!element) {
      const middle = deepestAt(innerWidth / 2, innerHeight / 2);
      for (let node = middle; node; node = parentAcrossShadow(node)) {
        if (node.nodeType === Node.ELEMENT_NODE && scrollsBy(node, dx, dy)) return {};
      }
    }
    throw new Refusal("no_scroll", "Nothing scrolls any further there in that direction.");
  },

  file(element) {
    requireEnabled(element);
    if (element.tagName === "INPUT" && element.type === "file") return {files: true};
    return {point: pointOf(element)};
  },
};

// A colour in lower case; a date or time as people write it where the browser's language is US
// English, in the form that its field holds.
function heldForm(type, value) {
  if (type === "color") return value.toLowerCase();
  if (navigator.language !== "en-US") return value;
  const date = type === "date" && /^(\d{1,2})\/(\d{1,2})\/(\d{4})$/.exec(value);
  if (date) return `${date[3]}-${date[1].padStart(2, "0")}-${date[2].padStart(2, "0")}`;
  const time = type === "time" && /^(\d{1,2}):(\d\d) ([ap])m$/i.exec(value);
  if (!time) return value;
  const hours = Number(time[1]) % 12 + (time[3].toLowerCase() === "p" ? 12 : 0);
  return `${String(hours).padStart(2, "0")}:${time[2]}`;
}

function scrollsBy(node, dx, dy) {
  const {scrollLeft, scrollTop} = node;
  node.scrollBy({left: dx, top: dy, behavior: "instant"});
  return node.scrollLeft !== scrollLeft || node.scrollTop !== scrollTop;
}

// The answer always identifies the element, if there is one.
function prepare({kind, ref, ...details}) {
  let element = null;
  try {
    if (ref != null) element = resolve(ref);
    const described = element && describe(element);
    const result = preparations[kind](element, details);
    if (described) described.box = element.isConnected ? boxOf(element) : described.box;
    return {...result, element: described};
  } catch (refusal) {
    if (!(refusal instanceof Refusal)) throw refusal;
    return {
      refused: refusal.kind,
      message: refusal.message,
      element: element && describe(element),
    };
  }
}
