// Pages that misbehave, when told to.
"use strict";

const start = document.getElementById("start");
const count = document.getElementById("count");

const troubles = {
  busy() { for (;;); },
  memory() {
    const hoard = [];
    for (;;) hoard.push(new Uint8Array(64 << 20).fill(hoard.length + 1));
  },
  console() {
    let line = 0;
    setInterval(() => {
      for (let i = 0; i < 4; i++) console.error(`Line ${line++} ${"x".repeat(500)}`);
    }, 5);
  },
  restless() {
    let ticks = 0;
    setInterval(() => { count.textContent = String(ticks++); }, 4);
  },
  crash() {
    Promise.reject(new Error("Nobody caught this."));
    missingFunction();
  },
  alerts() { for (;;) alert("Again."); },
  popups() { for (let i = 0; i < 5; i++) open("/trouble", "_blank"); },
};

start.onclick = () => troubles[start.dataset.trouble]();
if ("now" in start.dataset) start.click();
