// The mutation clock, and waiting for it to stand still.
let lastMutation = now();
const YOUNG_MS = 100;  // A document this young may have changed unseen before this script ran.
const scriptBegan = now();
const scriptsAreOff = () => window.matchMedia("(scripting: none)").matches;
const isTaskFurniture = node => page.furniture !== "" &&
  (dom.nodeType(node) === Node.ELEMENT_NODE ? node : dom.parentElement(node))?.closest(page.furniture) != null;
const mutationObserver = new MutationObserver(records => {
  if (records.some(record => !isTaskFurniture(record.target))) lastMutation = now();
});
const watchedRoots = new WeakSet();

function watchMutations(root) {
  if (watchedRoots.has(root)) return;
  watchedRoots.add(root);
  mutationObserver.observe(
    root, {subtree: true, childList: true, attributes: true, characterData: true});
}
watchMutations(document);

function isAnimating() {
  return inRoot(document, "getAnimations").some(animation =>
    animation.playState === "running" &&
    Number.isFinite(animation.effect?.getComputedTiming().endTime ?? Infinity));
}

// A picture that loads moves the elements around it, and a click may then hit the wrong one. So a
// page is not settled while a picture in view is loading, for `patience` ms at most.
const imagesOf = accessor(Document.prototype, "images");
const isComplete = accessor(HTMLImageElement.prototype, "complete");
const firstMissed = new WeakMap();

function lacksPictures(patience) {
  for (const image of imagesOf(document)) {
    if (isComplete(image)) continue;
    if (!firstMissed.has(image)) firstMissed.set(image, now());
    if (now() - firstMissed.get(image) >= patience) continue;
    const [box] = dom.getClientRects(image);
    if (box && box.bottom >= 0 && box.top <= innerHeight && box.right >= 0 && box.left <= innerWidth) {
      return true;
    }
  }
  return false;
}

// Waits until nothing has changed for `quiet` ms, at most `cap` ms. Says how it ended, and whether
// anything `moved` since the wait began: a picture taken meanwhile then shows another page. A document
// that `brokeOff` is never parsed to its end.
async function settle({quiet, cap, pictures, brokeOff = false}) {
  const start = now();
  // Where scripts are turned off nothing moves by itself, and timers do not run, ours neither.
  if (scriptsAreOff()) return {ended: "quiet", ms: 0, moved: false};
  // What is over before the page counts as still was in motion when a picture was taken meanwhile.
  let animated = start - scriptBegan < YOUNG_MS || isAnimating() || lacksPictures(pictures);
  for (;;) {
    const time = now();
    const still = time - Math.max(start, lastMutation);
    if (still >= quiet && (brokeOff || document.readyState !== "loading")) {
      if (!isAnimating() && !lacksPictures(pictures)) {
        return {ended: "quiet", ms: time - start, moved: animated || lastMutation > start};
      }
      animated = true;
    }
    if (time - start >= cap) return {ended: "cap", ms: time - start, moved: true};
    await new Promise(resolve => later(resolve, Math.max(quiet - still, 4)));
  }
}
