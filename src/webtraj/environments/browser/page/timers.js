// The page's short timers and frame callbacks that are still to run: in the page's own world, around the
// browser's functions. settle.js asks for them by events whose name no page knows.
//
// What a callback sets is due to what its own timer was due to. So a loop that began long ago is not due to
// the last action, and what the action's handlers set is, however often it is passed on.
((token, longest) => {
"use strict";
const {document, performance, CustomEvent, Map, MutationObserver, Object, Reflect, queueMicrotask} = window;
const natives = {};
for (const name of [
  "setTimeout", "setInterval", "requestAnimationFrame", "clearTimeout", "clearInterval", "cancelAnimationFrame",
]) natives[name] = window[name].bind(window);
const now = performance.now.bind(performance);
const dispatch = document.dispatchEvent.bind(document);
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
      return within(origin, handler, this, got);
    }, milliseconds, ...given);
    note(number, milliseconds, origin);
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
  const shown = method.bind(window);  // Its source is no more to be read than the browser's own.
  Object.defineProperty(shown, "name", {value: name});
  Object.defineProperty(shown, "length", {value: natives[name].length});
  window[name] = shown;
}

// Answers with the milliseconds until the last one since the last look is due; null without any.
function answer() {
  let last = null;
  for (const [due, origin] of pending.values()) {
    if (origin === looks) last = Math.max(last ?? -Infinity, due - now());
  }
  dispatch(new CustomEvent(`${token}-answer`, {detail: last}));
}

function endLook() {
  looks++;
}

function listen() {
  document.addEventListener(token, answer);
  document.addEventListener(`${token}-end`, endLook);
}
listen();
new MutationObserver(listen).observe(document, {childList: true});  // Written anew, it has lost them.
})
