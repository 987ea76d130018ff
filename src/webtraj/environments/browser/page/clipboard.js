// What the page copied or cut last, by MIME type, until it is taken (see clipboard.py).
let copied = null;
let copiedBefore = null;
let held = {};  // What the session holds.
let own = null;  // What the session took from this document last.

// The page's last handler decides what is copied, and any may stop the event, so this hears it after
// each of them.
function noteCopying(event) {
  if (!event.isTrusted) return;
  copiedBefore = copied;
  noteCopy(event);
  for (const target of event.composedPath()) {
    target.removeEventListener(event.type, noteCopy);
    target.addEventListener(event.type, noteCopy, {once: true});
  }
}

function noteCopy(event) {
  if (event.defaultPrevented) {
    const given = event.clipboardData;
    const kinds = given.types.filter(kind => kind !== "Files");
    // A page that only forbids copying leaves the clipboard as it is.
    copied = kinds.length
      ? Object.fromEntries(kinds.map(kind => [kind, given.getData(kind)]))
      : copiedBefore;
  } else {
    const text = selectedText(event.composedPath()[0]);
    if (text) copied = {"text/plain": text};
  }
}

function selectedText(target) {
  const field = focusedElement();
  if (field && /^(INPUT|TEXTAREA)$/.test(dom.tagName(field))) {
    if (field.type === "password") return "";
    // Fields such as email and number do not tell their selection.
    if (field.selectionStart === null) return dom.ownerDocument(field).getSelection().toString() || field.value;
    return field.value.slice(field.selectionStart, field.selectionEnd);
  }
  const root = dom.getRootNode(target);
  return (root.getSelection ? root : dom.ownerDocument(root)).getSelection().toString();
}

function takeCopied() {
  const taken = copied;
  if (copied) held = own = copied;
  copied = null;
  return taken;
}

function hearCopies(view) {
  for (const type of ["copy", "cut"]) view.addEventListener(type, noteCopying, true);
  view.document.addEventListener(page.clipboard, tellCopied);
}

// To a page that reads `navigator.clipboard` (see async_clipboard.js): what it copied itself, unless
// another has copied since. What comes from elsewhere a person would have to allow.
function tellCopied({currentTarget}) {
  if (!windowOf(currentTarget).navigator.userActivation.isActive) return;
  const detail = stringify(copied ?? (own && stringify(own) === stringify(held) ? own : null));
  dom.dispatchEvent(currentTarget, new CustomEvent(`${page.clipboard}-answer`, {detail}));
}

keepListening(window, hearCopies);
page.takeCopied = () => toJson(takeCopied());
