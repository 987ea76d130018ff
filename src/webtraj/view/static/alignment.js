// Align the steps of two episodes.

import { diff } from "./diff.js";
import { targetOf, verbOf } from "./timeline.js";

// Returns rows of {left, right}, positions of steps or null: aligned by order, or by action, so that
// as many equal actions as possible share a row.
export function alignSteps(left, right, byAction) {
  if (!byAction) {
    const rows = Math.max(left.length, right.length);
    return Array.from({ length: rows }, (_, i) => ({ left: i < left.length ? i : null, right: i < right.length ? i : null }));
  }
  const rows = [];
  let gap = { left: [], right: [] };
  const close = () => {
    const deep = Math.max(gap.left.length, gap.right.length);
    for (let i = 0; i < deep; i++) rows.push({ left: gap.left[i] ?? null, right: gap.right[i] ?? null });
    gap = { left: [], right: [] };
  };
  for (const edit of diff(left.map(deedOf), right.map(deedOf))) {
    if (edit.kind === "same") {
      close();
      rows.push({ left: edit.left, right: edit.right });
    } else if (edit.kind === "removed") gap.left.push(edit.left);
    else gap.right.push(edit.right);
  }
  close();
  return rows;
}

// Returns a key of a step's action; steps with equal actions have equal keys.
export function deedOf(step) {
  return step.action ? `${verbOf(step)}\n${targetOf(step)}` : "";
}
