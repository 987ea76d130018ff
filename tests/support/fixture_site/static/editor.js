// An editor that saves its text.
"use strict";

const note = document.getElementById("note");
document.getElementById("save").onclick = () => send("/api/note", {text: note.innerText.trim()});
