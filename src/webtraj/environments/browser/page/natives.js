// What the rest of this script uses of the page's world, taken before any script of the page ran,
// so that a page that replaces them neither breaks us nor sees us.
const now = performance.now.bind(performance);
const later = window.setTimeout.bind(window);
const toJson = JSON.stringify;
const styleOf = window.getComputedStyle.bind(window);
const squeeze = text => text.replace(/\s+/g, " ").trim();
