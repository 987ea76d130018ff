// Preparing an element before, or instead of, trusted input. Each function returns Python's next
// step; a Refusal leaves the page unchanged, apart from scrolling.
const TEXT_INPUT_TYPES = new Set(
  ["text", "search", "url", "tel", "email", "password", "number", "month", "week"]);

// What a person may tick: whether it is, as the tree shows it.
const CHECKABLE = new Set(
  ["checkbox", "radio", "switch", "menuitemcheckbox", "menuitemradio", "option", "treeitem"]);
const isOn = (element, role) => statesOf(element, role, styleOf(element))
  .some(state => state === "checked" || state === "selected");

// The element that an option sets: its select element, or the text field that it is suggested for; null
// if there is none. Of several fields, the only one that can be changed, or else the one with the focus.
function chooserOf(option) {
  const list = dom.closest(option, "datalist");
  if (!list) return dom.tagName(option) === "OPTION" ? dom.closest(option, "select") : null;
  const fields = [...inRoot(dom.getRootNode(list), "querySelectorAll", "input[list]")]
    .filter(field => field.list === list && isVisible(field));
  const able = fields.filter(field => !field.readOnly && !isDisabled(field));
  if (able.length < 2) return able[0] ?? fields[0] ?? null;
  const focused = able.find(isFocused);
  if (focused) return focused;
  const names = able.slice(0, 30).map(shown).join(", ");
  throw new Refusal("ambiguous", `${shown(option)} is suggested for several fields: ${names}. Select it with the ref of one.`);
}

const preparations = {
  point(element) {
    requireEnabled(element);
    const chooser = dom.tagName(element) === "OPTION" && !isBoxed(element) && chooserOf(element);
    if (chooser) return choose(chooser, [element]);
    return {...pointsOf(element), files: asksForFiles(controlOf(element))};
  },

  drag(element) {
    requireEnabled(element);
    return pointsOf(element);
  },

  hover(element) {
    return pointsOf(element);
  },

  toggle(element, {on}) {
    element = controlOf(element);
    requireEnabled(element);
    const role = roleOf(element);
    if (!CHECKABLE.has(role) || isSuggestion(element)) {
      throw new Refusal("not_checkable", `${shown(element)} is neither a checkbox nor a radio button.`);
    }
    if (isOn(element, role) === on) return {};
    const select = chooserOf(element);
    if (!on && (role === "radio" || role === "menuitemradio" || (select && !select.multiple))) {
      throw new Refusal("not_checkable", `${shown(element)} is one of several: choose another instead.`);
    }
    if (select) {
      const others = select.multiple ? [...select.selectedOptions].filter(option => option !== element) : [];
      return choose(select, on ? [...others, element] : others);
    }
    return pointsOf(element);
  },

  // Whether a box that was pressed is as it should be now.
  toggled(element, {on}) {
    element = controlOf(element);
    return {toggled: isOn(element, roleOf(element)) === on};
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
    const isInput = dom.tagName(element) === "INPUT";
    if (isEditable(element)) {
      element.focus();
      const selection = element.ownerDocument.getSelection();
      selection.selectAllChildren(element);
      return {replace: element.textContent !== ""};
    }
    if (dom.tagName(element) === "TEXTAREA" || (isInput && TEXT_INPUT_TYPES.has(element.type))) {
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
    setValue(element, value);
    return {filled: true};
  },

  // A text means the option with that label, or else the one with that value.
  select(element, {options}) {
    const select = chooserOf(element) ?? element;
    const list = dom.tagName(select) === "SELECT" ? select : suggestionsOf(select);
    if (!list) throw new Refusal("not_selectable", `${shown(element)} is no select element.`);
    requireVisible(select);
    requireEnabled(select);
    const all = [...list.options].filter(isOffered);
    const labelled = (option, wanted) => labelOf(option) === squeeze(wanted);
    return choose(select, options.map(wanted => {
      if (element !== select && (labelled(element, wanted) || element.value === wanted)) return element;
      let found = all.filter(option => labelled(option, wanted));
      if (!found.length) found = all.filter(option => option.value === wanted);
      const enabled = found.filter(option => !dom.matches(option, ":disabled"));
      if (enabled.length > 1) {
        const refs = enabled.slice(0, 30).map(option => `[${refOf(option)}] ${groupedLabel(option)}`).join(", ");
        throw new Refusal("ambiguous", `${shown(select)} has several options ${toJson(wanted)}: use the ref of one: ${refs}.`);
      }
      if (!found.length) {
        const labels = all.slice(0, 30).map(option => toJson(labelOf(option))).join(", ");
        throw new Refusal("no_such_option", `${shown(select)} has no option ${toJson(wanted)}; it has ${labels}.`);
      }
      return enabled[0] ?? found[0];
    }));
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

  // An input's own window of files, which the caller answers; for anything else, where to click.
  file(element) {
    element = controlOf(element);
    requireEnabled(element);
    if (!asksForFiles(element)) return pointsOf(element);
    return {opens: true};
  },

  open_files(element) {
    controlOf(element).showPicker();
    return {};
  },
};

const asksForFiles = element => dom.tagName(element) === "INPUT" && element.type === "file";

const isOffered = option => styleOf(option).display !== "none";

function groupedLabel(option) {
  const group = dom.closest(option, "optgroup");
  const label = toJson(labelOf(option));
  return group ? `${label} in ${toJson(squeeze(group.label))}` : label;
}

function choose(select, chosen) {
  const isField = dom.tagName(select) === "INPUT", takesMany = select.multiple && !isField;
  requireVisible(select);
  requireEnabled(select);
  if (select.readOnly) throw new Refusal("not_editable", `${shown(select)} is read-only.`);
  const closed = chosen.find(option => dom.matches(option, ":disabled"));
  if (closed) throw new Refusal("disabled", `Option ${toJson(labelOf(closed))} is disabled.`);
  if (chosen.length > 1 && !takesMany) {
    throw new Refusal("bad_value", `${shown(select)} takes one option.`);
  }
  if (isField) {
    setValue(select, chosen[0]?.value ?? "");
    return {};
  }
  select.focus();
  if (takesMany) for (const option of select.options) option.selected = chosen.includes(option);
  else if (chosen.length) chosen[0].selected = true;
  tellOfChange(select);
  return {};
}

// Puts a value into a field. One that the field cannot hold is refused, and leaves it as it was.
function setValue(field, value) {
  const held = heldForm(field.type, value);
  const trial = field.cloneNode();
  trial.value = held;
  // Browsers drop zero seconds, line breaks, and blanks around an address. They empty a date field
  // that cannot hold the value.
  const isLenient = /^(date|time|datetime-local|text|search|url|tel|email)$/.test(field.type);
  if (trial.value !== held && !(isLenient && trial.value !== "")) {
    throw new Refusal("bad_value", `${shown(field)} (${field.type}) does not take ${toJson(value)}.`);
  }
  field.focus();
  field.value = held;
  tellOfChange(field);
}

function tellOfChange(field) {
  field.dispatchEvent(new Event("input", {bubbles: true, composed: true}));
  field.dispatchEvent(new Event("change", {bubbles: true}));
}

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
