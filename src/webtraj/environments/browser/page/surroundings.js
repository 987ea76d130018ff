// Changes what surrounds a task in every document of a tab: a style, other names of controls,
// another order of them, and a cookie dialog that covers the page until it is answered. Pages without
// storage, such as data URLs, show no dialog.
({css, consent, names, shuffle}) => {
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
  if (shuffle !== null) {
    const MARK = "data-shuffled";
    const BUTTON = "button, [role=button], input[type=submit], input[type=button]";
    const CONTROL = `a[href], [role=menuitem], [role=tab], ${BUTTON}`;
    // Other lists of links are content, whose order means something.
    const MENU = "nav, menu, header, footer, aside, [role=navigation], [role=toolbar], " +
      "[role=menu], [role=menubar], [role=tablist], .nav, .btn-group, .actions, .form-actions, " +
      "[class*=navbar], [class*=menu], [class*=sidebar], [class*=toolbar], [class*=dropdown]";
    const CONTENT = "main, [role=main], h1, table";
    const ORDERED = "table, [role=grid], .breadcrumb, [aria-label*=breadcrumb i], " +
      "[aria-label*=paginat i], [class*=paginat]";
    const UNSEEN = "script, style, template, input[type=hidden]";
    const LIST = "ul, ol, nav, menu, form, header, footer, aside, main, section, body";
    const SUBMIT = "form button:not([type=button]):not([type=reset]), form input[type=submit]";
    const OPENS_MENU = "[aria-haspopup], [data-popup], [data-toggle=dropdown], " +
      "[data-bs-toggle=dropdown]";
    const has = (item, selector) => item.matches(selector) || item.querySelector(selector) !== null;
    const label = item => item.textContent.trim() || item.value ||
      item.getAttribute("aria-label") || item.getAttribute("href") ||
      item.querySelector("[href]")?.getAttribute("href") || item.className;
    // FNV-1a.
    const rank = item => [...`${shuffle} ${label(item)}`].reduce(
      (hash, letter) => Math.imul(hash ^ letter.codePointAt(0), 16777619) >>> 0, 2166136261);
    const inMenu = control => {
      const menu = control.closest(MENU);
      return menu !== null && !menu.querySelector(CONTENT);
    };
    // The largest part of a list that has no other control.
    const itemOf = control => {
      let item = control;
      while (!item.parentElement.matches(LIST) &&
             item.parentElement.querySelectorAll(CONTROL).length === 1) item = item.parentElement;
      return item;
    };
    const isRow = (row, items) =>
      [...row.children].filter(child => !child.matches(UNSEEN)).length === items.length &&
      ![...row.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim());
    const rearrange = () => {
      const rows = new Map();
      for (const control of document.querySelectorAll(CONTROL)) {
        const menu = inMenu(control);
        if (!(menu || control.matches(BUTTON)) || control.closest(ORDERED)) continue;
        const item = itemOf(control), row = item.parentElement;
        // An item that is itself a control, such as a list item of a menu, counts once.
        if (!rows.has(row)) rows.set(row, {found: new Set(), menu});
        rows.get(row).found.add(item);
      }
      for (const [row, {found, menu}] of rows) {
        const items = [...found];
        const submits = items.some(item => has(item, SUBMIT));
        const isSplit = items.length === 2 && items.some(item => has(item, OPENS_MENU));
        if (items.length < 2 || isSplit || !(isRow(row, items) || menu && !submits) ||
            items.every(item => /^\W*\d*\W*$/.test(label(item)))) continue;
        const ranks = new Map(items.map(item => [item, rank(item)]));
        const sorted = sign =>
          items.toSorted((one, two) => sign * (ranks.get(one) - ranks.get(two)));
        // Once chosen, a row's direction stays, so that what comes later falls into place.
        if (!row.hasAttribute(MARK)) {
          const same = sorted(1).every((item, place) => item === items[place]);
          row.setAttribute(MARK, same ? "down" : "up");
        }
        const wanted = sorted(row.getAttribute(MARK) === "down" ? -1 : 1);
        if (submits) {
          // Enter presses the first button of a form: only the layout changes.
          if (!getComputedStyle(row).display.includes("flex")) {
            row.style.cssText += ";display:flex;flex-wrap:wrap;gap:.3em";
          }
          wanted.forEach((item, place) => { item.style.order = place; });
        } else if (wanted.some((item, place) => item !== items[place])) {
          const places = items.map(item => {
            const place = document.createComment("");
            item.replaceWith(place);
            return place;
          });
          places.forEach((place, at) => place.replaceWith(wanted[at]));
        }
      }
    };
    const start = () => {
      rearrange();
      new MutationObserver(rearrange).observe(document, {childList: true, subtree: true});
    };
    if (document.readyState === "loading") addEventListener("DOMContentLoaded", start);
    else start();
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
