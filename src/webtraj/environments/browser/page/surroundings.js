// Changes what surrounds a task in every document of a tab: a style, other names of controls, and a
// cookie dialog that covers the page until it is answered. Pages without storage, such as data
// URLs, show no dialog.
({css, consent, names}) => {
  if (window !== top) return;
  if (css) {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(css);
    document.adoptedStyleSheets.push(sheet);
  }
  if (Object.keys(names).length) {
    // The text stays in place, hidden: scripts of the page, and oracles, know controls by it.
    const NAME = "data-renamed";
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(
      `[${NAME}] > span { display: none !important; }` +
      `[${NAME}]::after { content: attr(${NAME}); }`);
    document.adoptedStyleSheets.push(sheet);
    const rename = () => {
      for (const control of document.querySelectorAll("button, a[href], [role=button]")) {
        const name = names[control.textContent.trim().toLowerCase()];
        if (!name || control.childElementCount) continue;
        const text = document.createElement("span");
        text.append(...control.childNodes);
        control.append(text);
        control.setAttribute(NAME, name);
        control.setAttribute("aria-label", name);
      }
    };
    new MutationObserver(rename).observe(document, {childList: true, subtree: true});
  }
  if (!consent) return;
  const KEY = "cookie-consent";
  const answered = () => {
    try {
      return localStorage.getItem(KEY) !== null;
    } catch {
      return true;
    }
  };
  const element = (name, style, text = "") => {
    const made = document.createElement(name);
    made.style.cssText = style;
    made.textContent = text;
    return made;
  };
  const ask = () => {
    if (answered() || document.getElementById(KEY)) return;
    const cover = element("div",
      "position:fixed;inset:0;z-index:2147483647;background:rgba(0,0,0,.5);display:flex;" +
      "align-items:center;justify-content:center;font:16px/1.4 sans-serif");
    cover.id = KEY;
    cover.setAttribute("role", "dialog");
    cover.setAttribute("aria-modal", "true");
    cover.setAttribute("aria-label", "Cookies");
    const card = element("div",
      "background:#fff;color:#222;padding:16px;max-width:420px;border-radius:8px");
    card.append(element("p", "margin:0 0 12px",
      "We use cookies to keep this site working and to learn how it is used."));
    for (const answer of ["Accept all", "Only necessary"]) {
      const button = element("button", "margin-right:8px;padding:6px 12px", answer);
      button.type = "button";
      button.addEventListener("click", () => {
        localStorage.setItem(KEY, answer);
        cover.remove();
      });
      card.append(button);
    }
    cover.append(card);
    document.documentElement.append(cover);
  };
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", ask);
  else ask();
}
