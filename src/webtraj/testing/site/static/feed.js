// Fetches more of the feed when its end comes into view, and likes entries.
"use strict";

const feed = document.getElementById("feed");
let fetching = false;

async function fetchMore() {
  const count = feed.children.length;
  if (fetching || count >= Number(feed.dataset.total)) return;
  fetching = true;
  feed.insertAdjacentHTML("beforeend", await send(`/extras/feed/from/${count}`));
  fetching = false;
}

addEventListener("scroll", () => {
  if (innerHeight + scrollY >= document.documentElement.scrollHeight - 200) fetchMore();
}, {passive: true});

feed.addEventListener("click", event => {
  const button = event.target.closest("button");
  if (!button) return;
  button.textContent = button.textContent === "Like" ? "Liked" : "Like";
  send("/api/likes", {index: Number(button.dataset.index)});
});
