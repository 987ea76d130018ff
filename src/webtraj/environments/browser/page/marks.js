// The elements in a set-of-marks picture: visible ones that a person could act on.
const ACTED_ON = new Set([
  "button", "link", "textbox", "searchbox", "combobox", "listbox", "checkbox", "radio", "switch",
  "slider", "spinbutton", "tab", "option", "menuitem", "menuitemcheckbox", "menuitemradio",
  "treeitem",
]);

// Elements come from the tree, with role and name.
function marksOf(entries) {
  const marks = {refs: [], roles: [], names: [], boxes: []};
  const inviting = new Set(entries.filter(({element, role}) => ACTED_ON.has(role) || invitesAction(element, styleOf(element))));
  const around = elementsAround(inviting);
  for (const entry of entries) {
    const {element, role, name} = entry;
    // A handler around something to act on may be there for that.
    if (!inviting.has(entry) && !(handled.has(element) && !around.has(element))) continue;
    const box = clippedBoxOf(element);
    if (!box || isDisabled(element) || !isOnTop(element)) continue;
    marks.refs.push(refOf(element));
    marks.roles.push(role);
    marks.names.push(name);
    marks.boxes.push(box);
  }
  return marks;
}

function elementsAround(entries) {
  const around = new Set();
  for (const {element} of entries) {
    for (let node = parentOnScreen(element); node && !around.has(node); node = parentOnScreen(node)) around.add(node);
  }
  return around;
}

function isOnTop(element) {
  for (const [x, y] of candidatePoints(element)) {
    if (reaches(deepestAt(x, y), element)) return true;
  }
  return false;
}

// The part of an element's box that is inside the viewport; null if there is none.
function clippedBoxOf(element) {
  const [x, y, width, height] = boxOf(element);
  const left = Math.max(x, 0), top = Math.max(y, 0);
  const right = Math.min(x + width, innerWidth), bottom = Math.min(y + height, innerHeight);
  return right > left && bottom > top ? [left, top, right - left, bottom - top] : null;
}
