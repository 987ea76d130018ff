// Keyboard shortcuts, and the dialog that lists them.

import { fill, h } from "./dom.js";

const sets = new Map();

// Sets the shortcuts of a part of the viewer, replacing its earlier ones:
// [{keys: ["j", "ArrowDown"], shown: "j", does: "Next step", run}].
export function setKeys(part, bindings) {
  sets.set(part, bindings);
}

// Starts listening. Ignores keys while typing, with Ctrl, Alt or Meta, while a dialog is open, and
// if an element has handled them.
export function listenToKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey) return;
    if (document.querySelector("dialog[open]")) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    for (const bindings of [...sets.values()].reverse()) {
      const binding = bindings.find(({ keys }) => keys.includes(event.key));
      if (!binding) continue;
      if (usesItself(event.target, event.key)) return;
      event.preventDefault();
      binding.run();
      return;
    }
  });
}

function isTyping(target) {
  return target instanceof Element && target.matches("input:not([type=checkbox]), textarea, select");
}

function usesItself(target, key) {
  if (!(target instanceof Element)) return false;
  if (key === "Enter" || key === " ") return target.matches("a, button, summary, input");
  return false;
}

// Shows the list of shortcuts.
export function showHelp() {
  const dialog = document.getElementById("help");
  const rows = [...sets.values()].flat().map(({ shown, does }) =>
    h("div", {}, h("dt", {}, shown.split(" ").map((key) => h("kbd", {}, key))), h("dd", {}, does)),
  );
  const close = h("button", { type: "button", on: { click: () => dialog.close() } }, "Close");
  fill(dialog, h("h2", { id: "help-title" }, "Shortcuts"), h("dl", { class: "keys" }, rows), close);
  dialog.showModal();
}
