// A window that closes itself.
"use strict";

document.getElementById("close").onclick = () => window.close();
