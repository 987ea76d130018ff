// Tabs, following WAI-ARIA: arrow keys move between tabs; the selected tab is in the tab order.

import { fill, h } from "./dom.js";

// Returns {element, show(name, content), setCount(name, n), next()}; `choose` is called with the
// selected tab's name.
export function tabbed(titles, choose) {
  const names = titles.map(([name]) => name);
  let current = names[0];
  const panel = h("div", { role: "tabpanel", id: "panel", tabindex: 0, class: "panel" });
  const buttons = titles.map(([name, title]) =>
    h(
      "button",
      { type: "button", role: "tab", id: `tab-${name}`, aria: { controls: "panel" }, on: { click: () => choose(name), keydown: (event) => along(event) } },
      title,
      h("span", { class: "tab-count" }),
    ),
  );
  const along = (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const to = (names.indexOf(current) + by + names.length) % names.length;
    choose(names[to]);
    buttons[to].focus();
  };
  return {
    element: h("section", { class: "tabs", aria: { label: "Details" } }, h("h2", { class: "unseen" }, "Details"), h("div", { role: "tablist", aria: { label: "Details" } }, buttons), panel),
    show(name, content) {
      const changed = name !== current;
      current = name;
      buttons.forEach((button, i) => {
        button.setAttribute("aria-selected", String(names[i] === name));
        button.tabIndex = names[i] === name ? 0 : -1;
      });
      panel.setAttribute("aria-labelledby", `tab-${name}`);
      fill(panel, content);
      if (changed) panel.scrollTop = 0;
    },
    setCount(name, n) {
      const button = buttons[names.indexOf(name)];
      if (button) button.lastElementChild.textContent = n > 0 ? String(n) : "";
    },
    next: () => names[(names.indexOf(current) + 1) % names.length],
  };
}
