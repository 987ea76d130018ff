// One button for each kind of dialog; what it returned goes to the site.
"use strict";

async function tell(kind, result) {
  document.getElementById("result").textContent = `${kind}: ${JSON.stringify(result)}`;
  await send("/api/dialogs", {kind, result});
}

document.getElementById("alert").onclick = () => { alert("Mind the step."); tell("alert", true); };
document.getElementById("confirm").onclick = () => tell("confirm", confirm("Shall we?"));
document.getElementById("prompt").onclick = () => tell("prompt", prompt("Your name?", "Nobody"));

window.addEventListener("beforeunload", event => {
  if (document.getElementById("hold").checked) event.preventDefault();
});
