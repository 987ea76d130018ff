// What the environment adds to its page script on the fixture site: an observation waits while the
// site is on the way to another page, or at work on what was done on this one.
const MAX_BUSY_MS = 3000;
let leaving = false;

window.navigation?.addEventListener("navigate", event => {
  leaving = !event.hashChange && event.downloadRequest === null;
});
// A download, or an answer without content, ends where it began.
window.navigation?.addEventListener("navigateerror", () => { leaving = false; });
// One that a dialog kept from happening tells nobody; whatever is done next begins anew.
for (const type of ["pointerdown", "keydown"]) {
  window.addEventListener(type, () => { leaving = false; }, {capture: true, passive: true});
}

page.busy = () => leaving || document.documentElement?.ariaBusy === "true" || framesAreBusy();

function framesAreBusy() {
  return [...document.querySelectorAll("iframe")].some(frame => {
    const inside = frameDocumentOf(frame);
    if (!inside) return false;  // Of another origin: nothing to be seen from here.
    const script = frame.contentWindow[Symbol.for("webtraj")];
    return inside.readyState !== "complete" || Boolean(script?.busy?.());
  });
}

const observeAtOnce = page.observe;
page.observe = async text => {
  const start = now();
  await new Promise(resolve => later(resolve, 0));  // For handlers that only just were called.
  while (page.busy() && now() - start < MAX_BUSY_MS) {
    await new Promise(resolve => later(resolve, 4));
  }
  return observeAtOnce(text);
};
