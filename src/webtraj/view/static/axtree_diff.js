// The page as text, and the changes that an action made.

import { diff } from "./diff.js";
import { add, h, said } from "./dom.js";
import { isEmpty, number } from "./format.js";
import { jsonTree } from "./json_tree.js";
import { sideOf } from "./shot.js";

const LINES_AT_ONCE = 2_000;
const AROUND = 3;
const LINE = /^(\s*)(\[[^\]\s]{1,40}\])? ?(\S*)([^]*)$/;

// Returns the page tab: the page as the agent saw it, and the changes after the action.
export function pageTab(steps, position, side, mode, choose) {
  const { step, shown } = sideOf(steps, position, side);
  const modes = [["tree", `Page ${shown}`], ["changes", "Changes"]].map(([name, words]) =>
    h("button", { type: "button", aria: { pressed: name === mode }, disabled: name === "changes" && position === 0, on: { click: () => choose(name) } }, words),
  );
  const changes = mode === "changes" && position > 0;
  if (!changes) modes[0].setAttribute("aria-pressed", "true");
  if (!changes) modes[1].setAttribute("aria-pressed", "false");
  const ref = shown === "before" ? steps[position]?.action?.ref : null;
  const body = changes
    ? changedLines(steps[position - 1]?.axtree, steps[position]?.axtree)
    : treeLines(step?.axtree, ref);
  const rest = step?.observation;
  return h(
    "div",
    { class: "page-tab" },
    h("div", { class: "segments", role: "group", aria: { label: "Page view" } }, modes),
    body,
    !isEmpty(rest) && h("details", { class: "rest" }, h("summary", {}, "Rest of the observation"), jsonTree(rest)),
  );
}

function treeLines(text, ref) {
  if (typeof text !== "string" || text === "") return h("p", { class: "nothing" }, "No text of the page was recorded for this step.");
  const lines = text.split("\n");
  return linesBlock(lines.map((line) => ({ line, kind: "same", acted: ref && refOf(line) === String(ref) })), "Page as text");
}

function changedLines(before, after) {
  if (typeof before !== "string" || typeof after !== "string") return h("p", { class: "nothing" }, "The page's text was not recorded both before and after the action.");
  const left = before.split("\n");
  const right = after.split("\n");
  const edits = diff(left, right);
  const [added, removed] = ["added", "removed"].map((kind) => edits.filter((edit) => edit.kind === kind).length);
  if (added + removed === 0) return h("p", { class: "nothing" }, "The action did not change the page's text.");
  const near = new Set();
  edits.forEach((edit, i) => {
    if (edit.kind !== "same") for (let j = i - AROUND; j <= i + AROUND; j++) near.add(j);
  });
  const shown = [];
  let left_out = 0;
  edits.forEach((edit, i) => {
    if (near.has(i)) {
      if (left_out) shown.push({ gap: left_out });
      left_out = 0;
      shown.push({ kind: edit.kind, line: edit.kind === "added" ? right[edit.right] : left[edit.left] });
    } else left_out++;
  });
  if (left_out) shown.push({ gap: left_out });
  return h(
    "div",
    {},
    h("p", { class: "summary" }, `${number(added)} added, ${number(removed)} removed`),
    linesBlock(shown, "Changes in the page"),
  );
}

function linesBlock(lines, name) {
  const block = h("div", { class: "lines", tabindex: 0, role: "group", aria: { label: name } });
  let shown = 0;
  const show = () => {
    for (const line of lines.slice(shown, shown + LINES_AT_ONCE)) block.append(lineOf(line));
    shown += LINES_AT_ONCE;
    if (shown < lines.length) {
      const more = h("button", { type: "button", class: "more", on: { click: () => (more.remove(), show()) } }, `${number(lines.length - shown)} more lines`);
      block.append(more);
    }
  };
  show();
  return block;
}

function lineOf({ line, kind, acted, gap }) {
  if (gap) return h("div", { class: "gap" }, gap === 1 ? "1 unchanged line" : `${number(gap)} unchanged lines`);
  const sign = { added: "+", removed: "−", same: "" }[kind];
  const row = h("div", { class: `line ${kind}${acted ? " acted" : ""}` }, h("span", { class: "sign" }, sign));
  const [, indent, ref, role, rest] = LINE.exec(line.slice(0, 2_000));
  const long = line.length > 2_000 ? `… ${number(line.length - 2_000)} more characters` : "";
  add(row, h("bdi", { class: "said", dir: "auto" }, indent, ref && h("span", { class: "ref" }, `${ref} `), h("span", { class: "role" }, role), rest, long));
  if (acted) add(row, h("span", { class: "unseen" }, "acted on"));
  return row;
}

function refOf(line) {
  return LINE.exec(line.slice(0, 200))[2]?.slice(1, -1);
}
