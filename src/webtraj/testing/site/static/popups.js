// Windows that a script opens.
"use strict";

document.getElementById("size-chart").onclick = () => {
  open("/extras/size-chart", "size-chart", "popup,width=300,height=240");
};

document.getElementById("three").onclick = () => {
  for (const path of ["/extras/partner", "/help", "/forum"]) open(path, "_blank");
};
