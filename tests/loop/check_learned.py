"""Says whether a loop has learned: the last evaluation's interval lies above the first one's."""

import sys
from pathlib import Path

import orjson

MARGIN = 0.15
"""By how much, at least: of the mean over tasks, from interval to interval."""


def main() -> None:
    (out,) = sys.argv[1:]
    lines = (Path(out) / "metrics.jsonl").read_bytes().splitlines()
    evaluations = [line["evaluation"] for line in map(orjson.loads, lines) if "evaluation" in line]
    first, last = evaluations[0], evaluations[-1]
    for evaluation in (first, last):
        mean = evaluation["mean"]
        print(
            f"policy {evaluation['policy']}: success {mean['value']:.1%} "
            f"({mean['low']:.1%} to {mean['high']:.1%}) of {mean['tasks']} tasks"
        )
    if last["policy"] == first["policy"] or last["mean"]["low"] < first["mean"]["high"] + MARGIN:
        sys.exit(f"Not clearly better than at the beginning: expected {MARGIN:.0%} in between.")


if __name__ == "__main__":
    main()
