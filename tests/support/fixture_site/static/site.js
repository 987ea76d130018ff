// What every page has: requests to the site.
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
