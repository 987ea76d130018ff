// The shortest list of edits between two lists, by Myers' algorithm.

const MOST_EDITS = 1_200;

// Returns [{kind, left, right}], where kind is "same", "removed" or "added", and left and right are
// the items' indices (null where there is none). If the lists have almost nothing in common, all
// items are removed and added, because searching for the shortest edits would take too long.
export function diff(left, right) {
  let start = 0;
  while (start < left.length && start < right.length && left[start] === right[start]) start++;
  let leftEnd = left.length;
  let rightEnd = right.length;
  while (leftEnd > start && rightEnd > start && left[leftEnd - 1] === right[rightEnd - 1]) {
    leftEnd--;
    rightEnd--;
  }
  const edits = [];
  for (let i = 0; i < start; i++) edits.push({ kind: "same", left: i, right: i });
  edits.push(...middleOf(left, right, start, leftEnd, rightEnd));
  for (let i = 0; leftEnd + i < left.length; i++) {
    edits.push({ kind: "same", left: leftEnd + i, right: rightEnd + i });
  }
  return edits;
}

function middleOf(left, right, start, leftEnd, rightEnd) {
  const rows = leftEnd - start;
  const columns = rightEnd - start;
  const most = Math.min(rows + columns, MOST_EDITS);
  const reached = new Int32Array(2 * most + 3);
  const origin = most + 1;
  const history = [];
  for (let edits = 0; edits <= most; edits++) {
    history.push(reached.slice(origin - edits - 1, origin + edits + 2));
    for (let k = -edits; k <= edits; k += 2) {
      const down = k === -edits || (k !== edits && reached[origin + k - 1] < reached[origin + k + 1]);
      let row = down ? reached[origin + k + 1] : reached[origin + k - 1] + 1;
      while (row < rows && row - k < columns && left[start + row] === right[start + row - k]) row++;
      reached[origin + k] = row;
      if (row >= rows && row - k >= columns) return walkBack(history, edits, rows, columns, start);
    }
  }
  return [
    ...Array.from({ length: rows }, (_, i) => ({ kind: "removed", left: start + i, right: null })),
    ...Array.from({ length: columns }, (_, i) => ({ kind: "added", left: null, right: start + i })),
  ];
}

function walkBack(history, edits, rows, columns, start) {
  const found = [];
  let row = rows;
  let column = columns;
  const step = (kind) => {
    if (kind !== "added") row--;
    if (kind !== "removed") column--;
    const left = kind === "added" ? null : start + row;
    const right = kind === "removed" ? null : start + column;
    found.push({ kind, left, right });
  };
  for (let d = edits; d > 0; d--) {
    // The state of `reached` before round d; k = 0 is at index d + 1.
    const before = history[d];
    const k = row - column;
    const down = k === -d || (k !== d && before[d + k] < before[d + k + 2]);
    const from = down ? k + 1 : k - 1;
    const fromRow = before[d + 1 + from];
    const fromColumn = fromRow - from;
    while (row > fromRow + (down ? 0 : 1) && column > fromColumn + (down ? 1 : 0)) step("same");
    step(down ? "added" : "removed");
  }
  while (row > 0) step("same");
  return found.reverse();
}
