// A rich-text editor of one button.
"use strict";

const note = document.getElementById("note");
const bold = document.getElementById("bold");
bold.onmousedown = event => event.preventDefault();  // Keeps the selection.
bold.onclick = () => document.execCommand("bold");
document.getElementById("save").onclick = () => send("/api/note", {text: note.innerText.trim()});
