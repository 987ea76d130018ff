// The asynchronous clipboard of pages, `navigator.clipboard`, which the browser does not let them use
// and would share among all: in the page's own world, so that writing is a copy like any other
// (clipboard.js), and reading asks there for what the page itself copied. Both need a person's click or key.
(token => {
"use strict";
const {clipboard, userActivation} = navigator;
if (!clipboard) return;
const {document, Blob, ClipboardItem, CustomEvent, DOMException, Event, JSON, Object, Promise} = window;
const later = window.setTimeout.bind(window);
const denied = () => new DOMException("Read permission denied.", "NotAllowedError");

function copy(content) {
  let copied = false;
  const allow = event => event.preventDefault();
  const give = event => {
    event.preventDefault();
    event.clipboardData.setData("text/plain", "");
    for (const [kind, text] of Object.entries(content)) event.clipboardData.setData(kind, text);
    copied = true;
  };
  window.addEventListener("beforecopy", allow, {capture: true, once: true});
  window.addEventListener("copy", give, {capture: true, once: true});
  document.execCommand("copy");
  window.removeEventListener("beforecopy", allow, {capture: true});
  window.removeEventListener("copy", give, {capture: true});
  if (!copied) throw denied();
}

async function paste() {
  if (!userActivation.isActive) throw denied();
  let content = null;
  const take = event => { content = JSON.parse(event.detail); };
  document.addEventListener(`${token}-answer`, take, {once: true});
  document.dispatchEvent(new Event(token));
  document.removeEventListener(`${token}-answer`, take);
  await new Promise(resolve => later(resolve));
  if (!content) throw denied();
  return content;
}

const methods = {
  async writeText(text) { copy({"text/plain": `${text}`}); },
  async write(items) {
    const content = {};
    for (const item of items) for (const kind of item.types) {
      if (kind.startsWith("text/")) content[kind] = await (await item.getType(kind)).text();
    }
    copy(content);
  },
  async readText() { return (await paste())["text/plain"] ?? ""; },
  async read() {
    const content = Object.entries(await paste()).map(([kind, text]) => [kind, new Blob([text], {type: kind})]);
    return content.length ? [new ClipboardItem(Object.fromEntries(content))] : [];
  },
};
for (const [name, method] of Object.entries(methods)) {
  const shown = method.bind(clipboard);  // Its source is no more to be read than the browser's own.
  Object.defineProperty(shown, "name", {value: name});
  Object.defineProperty(Object.getPrototypeOf(clipboard), name, {value: shown, writable: true, enumerable: true, configurable: true});
}
})