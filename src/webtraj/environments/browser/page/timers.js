// The page's short timers and frame callbacks that are still to run: in the page's own world, around the
// browser's functions. settle.js asks for them by events whose name no page knows.
//
// An interval counts if it comes twice within the longest delay. A timer that a callback sets has the cause
// of the callback's own timer. So a loop that began before the
// last action is not due to it, but a whole chain of timers that the action's handlers began is.
((token, longest) => {
"use strict";
const {document, performance, CustomEvent, Map, MutationObserver, Object, Reflect, queueMicrotask} = window;
const natives = {};
for (const name of [
  "setTimeout", "setInterval", "requestAnimationFrame", "clearTimeout", "clearInterval", "cancelAnimationFrame",
]) natives[name] = window[name].bind(window);
const now = performance.now.bind(performance);
const dispatch = document.dispatchEvent.bind(document);
const listenFor = document.addEventListener.bind(document);
const TURNS = 8;  // Promises that continue after a callback belong to it, too; so many in a row.

let looks = 0;  // Looks at the page so far.
let cause = null;  // In a callback, after how many looks its first cause came; null outside.
const pending = new Map();  // [due, cause] by number of the timer; frame callbacks have negative numbers.

function within(origin, handler, self, given) {
  cause = origin;
  try {
    return Reflect.apply(handler, self, given);
  } finally {
    leave(TURNS);
  }
}

function leave(turns) {
  queueMicrotask(() => {
    if (turns) leave(turns - 1);
    else cause = null;
  });
}

function note(number, delay, origin) {
  if (!(delay > longest)) pending.set(number, [now() + (delay || 0), origin]);
}

const methods = {
  setTimeout(handler, delay, ...given) {
    if (typeof handler !== "function") return natives.setTimeout(...arguments);
    const origin = cause ?? looks;
    const milliseconds = +delay;
    const number = natives.setTimeout(function (...got) {
      pending.delete(number);
      return within(origin, handler, this, got);
    }, milliseconds, ...given);
    note(number, milliseconds, origin);
    return number;
  },
  setInterval(handler, delay, ...given) {
    if (typeof handler !== "function") return natives.setInterval(...arguments);
    const origin = cause ?? looks;
    const milliseconds = +delay;
    const number = natives.setInterval(function (...got) {
      if (pending.has(number)) noteInterval();  // It is due once more.
      return within(origin, handler, this, got);
    }, milliseconds, ...given);
    const noteInterval = () => { if (!(milliseconds * 2 > longest)) note(number, milliseconds, origin); };
    noteInterval();
    return number;
  },
  requestAnimationFrame(handler) {
    if (typeof handler !== "function") return natives.requestAnimationFrame(...arguments);
    const origin = cause ?? looks;
    const number = natives.requestAnimationFrame(function (...got) {
      pending.delete(-number);
      return within(origin, handler, this, got);
    });
    if (!document.hidden) note(-number, 0, origin);
    return number;
  },
  clearTimeout(number) {
    pending.delete(+number);
    return natives.clearTimeout(...arguments);
  },
  clearInterval(number) {
    pending.delete(+number);
    return natives.clearInterval(...arguments);
  },
  cancelAnimationFrame(number) {
    pending.delete(-number);
    return natives.cancelAnimationFrame(...arguments);
  },
};
for (const [name, method] of Object.entries(methods)) {
  // A proxy shows no source, like the browser's own function. Calls on another window go to the browser.
  window[name] = new Proxy(window[name], {
    apply: (native, self, given) =>
      (self ?? window) === window ? Reflect.apply(method, window, given) : Reflect.apply(native, self, given),
  });
}

// Answers with the milliseconds until the last timer set since the last look is due. Timers that are due later
// than the event says do not count; null if there is none.
function answer({detail: patience}) {
  let last = null;
  for (const [due, origin] of pending.values()) {
    const left = due - now();
    if (origin === looks && left <= patience) last = Math.max(last ?? -Infinity, left);
  }
  dispatch(new CustomEvent(`${token}-answer`, {detail: last}));
}

function endLook() {
  looks++;
}

function listen() {
  listenFor(token, answer);
  listenFor(`${token}-end`, endLook);
}
listen();
new MutationObserver(listen).observe(document, {childList: true});  // Written anew, it has lost them.
})
