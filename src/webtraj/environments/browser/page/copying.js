// What a page holds beyond its document: storage, fields, scrolling, focus. Read from one page, and
// put into another one of the same document. Elements are named by their place among all elements.
(() => {
"use strict";
const FIELDS = "input, textarea, select, details, [contenteditable]";
const SELECTS = new Set(["text", "search", "url", "tel", "password", "textarea"]);

const all = () => [...document.querySelectorAll("*")];
const shape = () => all().map(element => element.localName).join(" ");
const put = (element, name, value) =>
  Object.getOwnPropertyDescriptor(Object.getPrototypeOf(element), name).set.call(element, value);

function stateOf(field) {
  switch (field.localName) {
    case "select": return {selected: [...field.options].map(option => option.selected)};
    case "details": return {open: field.open};
    case "textarea": return {value: field.value};
    case "input": return ["checkbox", "radio"].includes(field.type)
      ? {checked: field.checked, indeterminate: field.indeterminate} : {value: field.value};
    default: return {html: field.innerHTML};
  }
}

// A page's scripts hear of what is put into a field as if it had been typed or chosen.
function putState(field, state) {
  if (JSON.stringify(stateOf(field)) === JSON.stringify(state)) return;
  if ("html" in state) field.innerHTML = state.html;
  else if ("open" in state) field.open = state.open;
  else if ("selected" in state) {
    [...field.options].forEach((option, index) => put(option, "selected", state.selected[index]));
  } else for (const [name, value] of Object.entries(state)) put(field, name, value);
  if (field.type === "hidden" || "open" in state) return;
  for (const kind of ["input", "change"]) field.dispatchEvent(new Event(kind, {bubbles: true}));
}

async function read() {
  if ((await indexedDB.databases()).length) return null;
  const elements = all();
  const fields = [...document.querySelectorAll(FIELDS)];
  if (fields.some(field => field.files?.length)) return null;
  const focused = document.activeElement;
  return {
    storage: [localStorage, sessionStorage].map(storage => Object.entries(storage)),
    shape: shape(),
    fields: fields.map(stateOf),
    focused: focused === document.body ? -1 : elements.indexOf(focused),
    selection: SELECTS.has(focused?.type) ? [focused.selectionStart, focused.selectionEnd] : null,
    scrolled: elements.flatMap((element, index) => element.scrollLeft || element.scrollTop
      ? [[index, element.scrollLeft, element.scrollTop]] : []),
  };
}

function putStorage({storage}) {
  [localStorage, sessionStorage].forEach((place, index) => {
    place.clear();
    for (const [key, value] of storage[index]) place.setItem(key, value);
  });
}

function putFields({fields}) {
  const found = [...document.querySelectorAll(FIELDS)];
  if (found.length !== fields.length) return false;
  found.forEach((field, index) => putState(field, fields[index]));
  return true;
}

// Where the page is scrolled to, and what has the focus; whether all elements are there.
function putPlace(saved) {
  if (shape() !== saved.shape) return false;
  const elements = all();
  const focused = elements[saved.focused];
  if (focused) focused.focus({preventScroll: true});
  else document.activeElement?.blur();
  if (saved.selection) focused?.setSelectionRange?.(...saved.selection);
  const places = new Map(saved.scrolled.map(([index, ...place]) => [elements[index], place]));
  for (const element of elements) {
    const [left, top] = places.get(element) ?? [0, 0];
    if (element.scrollLeft !== left || element.scrollTop !== top) element.scrollTo({left, top, behavior: "instant"});
  }
  return true;
}

return {read, putStorage, putFields, putPlace};
})()
