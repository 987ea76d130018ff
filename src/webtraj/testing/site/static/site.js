// What every page has: requests to the site, tabs, and forms that ask before they are sent.
"use strict";

let unanswered = 0;

// Sends a request without leaving the page, which is busy until the answer has come.
async function send(path, body) {
  unanswered += 1;
  document.documentElement.ariaBusy = "true";
  try {
    const options = body === undefined ? {} : {method: "POST", body: JSON.stringify(body)};
    const response = await fetch(path, options);
    if (!response.ok) throw new Error(`${path}: ${response.status}`);
    return await response.text();
  } finally {
    unanswered -= 1;
    if (unanswered === 0) document.documentElement.ariaBusy = null;
  }
}

document.addEventListener("click", event => {
  const tab = event.target.closest("[role=tab]");
  if (!tab) return;
  for (const other of tab.parentElement.children) {
    const chosen = other === tab;
    other.setAttribute("aria-selected", String(chosen));
    document.getElementById(other.getAttribute("aria-controls")).hidden = !chosen;
  }
});

document.addEventListener("submit", event => {
  const question = event.target.dataset.confirm;
  if (question && !confirm(question)) event.preventDefault();
});
