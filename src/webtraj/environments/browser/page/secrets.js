// Password fields and their contents, to be left out of records. A field that was a password field
// once remains one, since many pages can reveal what was typed.
const passwordFields = [];
const knownPasswordFields = new WeakSet();

function notePasswordField(element) {
  if (!element || dom.nodeType(element) !== Node.ELEMENT_NODE || dom.tagName(element) !== "INPUT" || element.type !== "password") return;
  if (knownPasswordFields.has(element)) return;
  knownPasswordFields.add(element);
  passwordFields.push(new WeakRef(element));
}

// Fields in shadow roots are found when they get the focus or appear in the tree.
const noteFocus = event => notePasswordField(event.composedPath()[0]);
keepListening(window, view => view.addEventListener("focusin", noteFocus, true));

function notePasswordFieldsIn(root) {
  for (const element of inRoot(root, "querySelectorAll", "input[type=password]")) notePasswordField(element);
  for (const frame of inRoot(root, "querySelectorAll", FRAMES)) {
    const inner = frameDocumentOf(frame);
    if (inner) notePasswordFieldsIn(inner);
  }
}

function passwordsSeen() {
  notePasswordFieldsIn(document);
  const focused = focusedElement();
  notePasswordField(focused);
  const fields = passwordFields.map(held => held.deref()).filter(field => field?.isConnected);
  return {
    refs: fields.map(field => refByElement.get(field)).filter(ref => ref !== undefined),
    boxes: fields.map(boxOf),
    values: fields.map(field => field.value).filter(value => value !== ""),
    focused: focused !== null && knownPasswordFields.has(focused),
  };
}
