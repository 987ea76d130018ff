// The mutation clock, and waiting until it stops.
let lastMutation = now();
const YOUNG_MS = 100;  // A younger document may have changed before this script ran.
const scriptBegan = now();
const scriptsAreOff = () => window.matchMedia("(scripting: none)").matches;
const isTaskFurniture = node => page.furniture !== "" &&
  (dom.nodeType(node) === Node.ELEMENT_NODE ? node : dom.parentElement(node))?.closest(page.furniture) != null;
const mutationObserver = new MutationObserver(records => {
  if (!records.some(record => !isTaskFurniture(record.target))) return;
  lastMutation = now();
  noteMoment();
});
const watchedRoots = new WeakSet();

function watchMutations(root) {
  if (watchedRoots.has(root)) return;
  watchedRoots.add(root);
  mutationObserver.observe(
    root, {subtree: true, childList: true, attributes: true, characterData: true});
}

function isAnimating() {
  return inRoot(document, "getAnimations").some(animation =>
    animation.playState === "running" &&
    Number.isFinite(animation.effect?.getComputedTiming().endTime ?? Infinity));
}

// An image that loads moves the elements around it, so a click may hit the wrong one. A page is not
// settled while an image in view is loading, for at most `patience` ms.
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

// Editors read the selection up to 0.1 s after it changed, and apply the next command to what they read.
// So the page gets that time after a step that selected text in an editor. A moved caret needs no wait.
const HEARD_MS = 110;
const selectionIn = accessor(Document.prototype, "getSelection");
let selected = [];
let selectedAt = -Infinity;

function noteSelection(at) {
  const focused = focusedElement();
  const selection = selectionIn(focused ? dom.ownerDocument(focused) : document);
  const isRange = selection?.type === "Range";
  const {anchorNode, anchorOffset, focusNode, focusOffset} = isRange ? selection : {};
  const before = selected;
  selected = [anchorNode, anchorOffset, focusNode, focusOffset];
  if (isRange && selected.some((part, index) => part !== before[index])) {
    const isElement = dom.nodeType(anchorNode) === Node.ELEMENT_NODE;
    if (isEditable(isElement ? anchorNode : dom.parentElement(anchorNode))) selectedAt = at;
  }
}

// The navigations of the documents that are on their way to another one. A download or an answer without
// content ends with an error; a navigation that a dialog prevented ends without any event.
const leavers = new WeakSet();
function noteLeaving(event) {
  const stays = event.destination.sameDocument || event.downloadRequest !== null;
  leavers[stays ? "delete" : "add"](event.currentTarget);
}

const noteEnd = event => { leavers.delete(event.currentTarget); };
const noteInput = event => { leavers.delete(event.currentTarget.navigation); };

function hearLeaving(view) {
  view.navigation?.addEventListener("navigate", noteLeaving);
  for (const type of ["navigatesuccess", "navigateerror"]) view.navigation?.addEventListener(type, noteEnd);
  for (const type of ["pointerdown", "keydown"]) {
    view.addEventListener(type, noteInput, {capture: true, passive: true});
  }
}

const watched = new WeakSet();  // Documents: the page's, and those in frames of the same origin.
function watch(shown) {
  if (watched.has(shown)) return;
  watched.add(shown);
  watchMutations(shown);
  if (windowOf(shown)) keepListening(windowOf(shown), hearLeaving);
}
watch(document);

// A document is parsed once its deferred scripts ran, too: before that its buttons may do nothing.
const entriesOf = performance.getEntriesByType.bind(performance);

const readyStateOf = accessor(Document.prototype, "readyState");

function isParsed() {
  const state = readyStateOf(document);
  if (state !== "interactive") return state === "complete";
  const [navigation] = entriesOf("navigation");
  return !navigation || navigation.domContentLoadedEventEnd > 0;
}

// Loading frames: their scripts, and handlers of their `load`, may change the page around them. A frame that
// still loads at the cap is not waited for again.
const endless = new WeakSet();
const loadingIn = documents => documents.filter(shown =>
  shown !== document && readyStateOf(shown) !== "complete" && !endless.has(shown));

// The documents in a window and in its frames of the same origin.
function documentsIn(view) {
  let shown;
  try {
    shown = view.document;
  } catch {
    return [];
  }
  return [shown, ...Array.from({length: view.length}, (_, index) => documentsIn(view[index])).flat()];
}

// Timers that what was done since the last look has set (see timers.js) are waited for, and what they lead to,
// for `timers` ms in all. If our own timers come late, on a busy machine, the delay does not count.
//
// Returns the ms until the last of them that is due within `patience` ms; null if there is none.
function timersAreDue(documents, patience) {
  let last = null;
  for (const shown of documents) {
    const take = ({detail}) => { if (detail !== null) last = Math.max(last ?? -Infinity, detail); };
    dom.addEventListener(shown, `${page.timers}-answer`, take);
    dom.dispatchEvent(shown, new CustomEvent(page.timers, {detail: patience}));
    dom.removeEventListener(shown, `${page.timers}-answer`, take);
  }
  return last;
}

async function settle(options) {
  const settled = await untilSettled(options);
  for (const shown of documentsIn(window)) {
    dom.dispatchEvent(shown, new Event(`${page.timers}-end`));
    watch(shown);
  }
  return settled;
}

// Waits until nothing has changed for `quiet` ms, at most `cap` ms, and for a document that is on its
// way, until it is parsed, at most `departure` ms. Reports how it ended, and whether anything `moved`
// since the wait began: a screenshot taken meanwhile is then outdated. A document that `brokeOff`
// never finishes parsing.
// `leaving`: the same, where the caller waits for requests for documents itself; the time by which our own
// timers come late does not count. `waited`: ms that the caller has waited already.
async function untilSettled(
  {quiet, cap, pictures, timers = 0, departure = 0, leaving: grace = departure, waited = 0, brokeOff = false}) {
  const start = now();
  const isReady = () => brokeOff || isParsed();
  const isOnItsWay = () => leavers.has(window.navigation) || (!isReady() && now() - start < departure);
  // With scripts disabled nothing moves by itself, and no timers run, including ours.
  if (scriptsAreOff()) return {ended: "quiet", ms: 0, moved: false};
  noteSelection(start - waited);
  let patience = timers;
  // Anything that ended before the page settled may have moved during a screenshot.
  const isBusy = documents => isAnimating() || lacksPictures(pictures) || loadingIn(documents).length > 0;
  let busy = isBusy(documentsIn(window));
  let animated = start - scriptBegan < YOUNG_MS || busy;
  for (;;) {
    const time = now();
    const documents = documentsIn(window);
    documents.forEach(watch);
    const leaving = documents.map(shown => windowOf(shown)?.navigation).filter(each => leavers.has(each));
    if (grace <= 0) leaving.splice(0).forEach(each => leavers.delete(each));
    const still = time - Math.max(start - waited, lastMutation);
    const unheard = HEARD_MS - (time - selectedAt);
    const due = patience > 0 ? timersAreDue(documents, patience) : null;
    if (due !== null) animated = true;
    else if (still >= quiet && unheard <= 0 && isReady()) {
      // When an animation has ended, or a picture or a frame has come, their handlers are still to run.
      const wasBusy = busy;
      busy = isBusy(documents);
      if (busy || wasBusy) lastMutation = time;
      else if (!isOnItsWay() && !leaving.length) {
        return {ended: "quiet", ms: time - start, moved: animated || lastMutation > start};
      }
      animated = true;
    }
    if (time - start >= cap && !isOnItsWay()) {
      loadingIn(documents).forEach(shown => endless.add(shown));
      return {ended: "cap", ms: time - start, moved: true};
    }
    const pause = Math.max(quiet - still, unheard, Math.min(due ?? 0, quiet), 4);
    if (due !== null) patience -= pause;
    if (leaving.length) grace -= pause;
    await new Promise(resolve => later(resolve, pause));
  }
}
