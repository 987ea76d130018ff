"""Says whether a loop has learned: the last evaluation's interval lies above the first one's."""

import sys
from collections.abc import Iterator
from pathlib import Path

import orjson

MARGIN = 0.15
"""By how much, at least: of the mean over tasks, from interval to interval."""


def problems(out: Path) -> Iterator[str]:
    """Tells what was measured, and yields what is wrong with it."""
    lines = (out / "metrics.jsonl").read_bytes().splitlines()
    evaluations = [line["evaluation"] for line in map(orjson.loads, lines) if "evaluation" in line]
    first, last = evaluations[0], evaluations[-1]
    for evaluation in evaluations:
        mean = evaluation["mean"]
        print(
            f"policy {evaluation['policy']}: success {mean['value']:.1%} "
            f"({mean['low']:.1%} to {mean['high']:.1%}) of {mean['tasks']} tasks"
        )
    if last["policy"] == first["policy"] or last["mean"]["low"] < first["mean"]["high"] + MARGIN:
        yield f"Not clearly better than at the beginning: expected {MARGIN:.0%} in between."


def main() -> None:
    found = list(problems(Path(sys.argv[1])))
    sys.exit("\n".join(found) or None)


if __name__ == "__main__":
    main()
