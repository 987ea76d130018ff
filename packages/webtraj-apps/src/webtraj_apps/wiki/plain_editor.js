// CodeMirror draws only the lines in view, which is hard on whoever reads the page as text.
(() => {
  const area = document.getElementById("content_editor");
  const state = () => {
    const text = area.value;
    const lineAt = at => {
      const from = text.lastIndexOf("\n", at - 1) + 1;
      return {from, to: text.length, number: text.slice(0, from).split("\n").length};
    };
    const doc = {toString: () => text, lineAt, line: () => lineAt(0), lines: 1};
    const main = {head: area.selectionStart, from: area.selectionStart, to: area.selectionEnd};
    return {doc, selection: {main}};
  };
  let clean = area.value;
  area.setAttribute("aria-label", "Text of the page");
  area.addEventListener("input", () => area.dispatchEvent(new CustomEvent("cm6change")));
  window.cm_editor = {
    dom: area, scrollDOM: area, documentTop: 0, focus: () => area.focus(),
    lineBlockAt: () => ({top: 0, bottom: 0, height: 0, from: 0, to: 0}),
    get state() { return state(); },
  };
  window.cmIsClean = () => area.value === clean;
  window.cmMarkClean = () => { clean = area.value; };
  window.otterwiki_editor = new Proxy({}, {get: () => () => {}});
})();
