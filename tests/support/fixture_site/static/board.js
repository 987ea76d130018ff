// Cards that are dragged from column to column, by HTML5 drag and drop.
"use strict";

let dragged = null;

document.addEventListener("dragstart", event => {
  dragged = event.target.closest(".card");
  event.dataTransfer.setData("text/plain", dragged?.textContent ?? "");
});

for (const column of document.querySelectorAll(".column")) {
  column.addEventListener("dragover", event => event.preventDefault());
  column.addEventListener("drop", event => {
    event.preventDefault();
    if (!dragged) return;
    column.append(dragged);
    send("/api/cards", {card: dragged.textContent, column: column.dataset.name});
    dragged = null;
  });
}
