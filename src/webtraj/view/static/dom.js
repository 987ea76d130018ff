// Create elements safely. Text from episodes is inserted as text: nothing here takes HTML, no
// attribute that runs code can be set, and only the viewer's own resources can be linked or loaded.
//
// The modules of this folder are also bundled into one file, for episodes without a server. So each
// import is on one line and keeps its names, and no two modules share a top-level name.

const TAGS = new Set([
  "a", "article", "aside", "b", "bdi", "button", "canvas", "code", "dd", "details", "dialog", "div", "dl",
  "dt", "h1", "h2", "h3", "h4", "header", "i", "img", "input", "kbd",
  "label", "li", "main", "nav", "ol", "option", "p", "pre", "progress", "section", "select", "small",
  "span", "strong", "summary", "table", "tbody", "td", "textarea", "th", "thead", "time", "tr", "ul",
]);

const ATTRIBUTES = new Set([
  "id", "class", "title", "role", "tabindex", "type", "placeholder", "for", "name", "hidden",
  "disabled", "open", "dir", "alt", "width", "height", "rows", "autocomplete", "spellcheck", "step",
  "inputmode", "decoding", "draggable", "scope", "colspan", "datetime", "maxlength", "loading",
]);

const SHAPES = new Set(["svg", "path", "circle", "g", "a", "text"]);

const DRAWN = new Set([
  "viewBox", "class", "d", "x", "y", "cx", "cy", "r", "role", "tabindex", "text-anchor",
  "transform",
]);

const PICTURE = /^data:image\/(png|jpeg|webp);base64,[A-Za-z0-9+/=]*$/;

// Returns an element. `props` has attributes, with `on` for listeners, `data` and `aria` for those
// attribute families, `css` for custom properties, and `value` and `checked` for inputs. Children
// are elements and text; null and false are skipped.
export function h(tag, props, ...children) {
  if (!TAGS.has(tag)) throw new Error(`The element <${tag}> is not allowed.`);
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [type, f] of Object.entries(value)) element.addEventListener(type, f);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "aria") setAria(element, value);
    else if (name === "css") for (const [k, v] of Object.entries(value)) setProperty(element, k, v);
    else if (name === "href") element.setAttribute("href", ownLink(value));
    else if (name === "src") element.setAttribute("src", ownPicture(value));
    else if (name === "value" || name === "checked") element[name] = value;
    else if (ATTRIBUTES.has(name)) element.setAttribute(name, value === true ? "" : String(value));
    else throw new Error(`The attribute ${name} is not allowed.`);
  }
  add(element, children);
  return element;
}

function setAria(element, values) {
  for (const [name, value] of Object.entries(values)) {
    if (value !== null && value !== undefined) element.setAttribute(`aria-${name}`, String(value));
  }
}

function setProperty(element, name, value) {
  if (!name.startsWith("--")) throw new Error(`${name} is not a custom property.`);
  element.style.setProperty(name, String(value));
}

// Appends children as `h` does.
export function add(element, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

// Replaces an element's children.
export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
}

let viewer = "";

// Makes later links lead to the viewer at this address, for a page without the episodes.
export function linkToViewer(address) {
  if (new URL(address).hostname !== "127.0.0.1") throw new Error("Only a viewer on this machine can be linked.");
  viewer = address;
}

function ownLink(href) {
  if (!String(href).startsWith("#/")) throw new Error("Only links within this viewer are allowed.");
  return `${viewer}${href}`;
}

function ownPicture(url) {
  if (!isOwnPicture(url)) throw new Error("Only this viewer's images are allowed.");
  return url;
}

// Whether an image can be shown: it comes from the viewer's own server or is part of the page.
export function isOwnPicture(url) {
  if (typeof url !== "string" || url === "") return false;
  if (url.startsWith("data:")) return PICTURE.test(url);
  if (!location.protocol.startsWith("http")) return false;
  try {
    return new URL(url, document.baseURI).origin === location.origin;
  } catch {
    return false;
  }
}

// Returns a decorative icon of one path, 16 by 16.
export function icon(path) {
  return drawn("svg", { viewBox: "0 0 16 16", class: "icon", aria: { hidden: true } }, drawn("path", { d: path }));
}

// Returns an SVG element, as `h` does an HTML element.
export function drawn(tag, props, ...children) {
  if (!SHAPES.has(tag)) throw new Error(`The shape <${tag}> is not allowed.`);
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (name === "on") for (const [type, f] of Object.entries(value)) element.addEventListener(type, f);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "aria") setAria(element, value);
    else if (name === "href") element.setAttribute("href", ownLink(value));
    else if (DRAWN.has(name)) element.setAttribute(name, String(value));
    else throw new Error(`The attribute ${name} is not allowed.`);
  }
  add(element, children);
  return element;
}

// Returns a table of the class `numbers`; a column without a head has an empty cell there.
export function tableOf(heads, rows) {
  return h(
    "table",
    { class: "numbers" },
    h("thead", {}, h("tr", {}, heads.map((head) => (head ? h("th", { scope: "col" }, head) : h("td", {}))))),
    h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell) => h("td", {}, cell))))),
  );
}

// Returns a region that scrolls, and that the keyboard reaches.
export function scrolled(label, ...children) {
  return h("div", { class: "scroll", tabindex: 0, role: "region", aria: { label } }, children);
}

// Returns foreign text, isolated from the direction of the text around it.
export function said(text, className = "") {
  return h("bdi", { class: `said ${className}`, dir: "auto" }, text);
}

const SHOWN_AT_FIRST = 20_000;
const SHOWN_MORE = 200_000;

// Returns foreign text as a block with its line breaks. Long text is cut, with a button for more.
export function saidBlock(text, className = "") {
  const whole = String(text);
  const block = h("div", { class: `said block ${className}`, dir: "auto" });
  let shown = 0;
  const more = h("button", { type: "button", class: "more", on: { click: () => show(SHOWN_MORE) } });
  const show = (count) => {
    more.remove();
    block.append(document.createTextNode(whole.slice(shown, shown + count)));
    shown += count;
    if (shown < whole.length) {
      more.textContent = `${(whole.length - shown).toLocaleString("en")} more characters`;
      block.append(more);
    }
  };
  show(SHOWN_AT_FIRST);
  return block;
}
