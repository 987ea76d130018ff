"""How much of recorded episodes a pointing agent could have done, by task.

    webtraj rollout --preset miniwob/drag-box --preset miniwob/use-slider --agent oracle \
        --episodes 8 --set 'observe=["goal","axtree","boxes","last_action"]' --out runs/oracle
    python examples/two_cores/reach.py runs/oracle [ELEMENTS]

ELEMENTS is the most elements of a page that the agent shows. The columns of a task:

1. steps;
2. steps that the agent has a reply for;
3. of those, steps whose element the prompt describes or places unlike all others;
4. episodes;
5. episodes with a reply for every step.
"""

from __future__ import annotations

import collections
import sys

import webtraj
from two_cores.decisions import Reach, reach_of
from two_cores.pointing import ELEMENTS


def main(place: str, elements: int = len(ELEMENTS)) -> None:
    """Print a table."""
    found: dict[str, list[Reach]] = collections.defaultdict(list)
    for trajectory in webtraj.open_dataset(place):
        found[trajectory.info.task].append(reach_of(trajectory, elements=elements))
    for task, reaches in sorted(found.items()):
        print(task, *_sums(reaches))
    print("all", *_sums([reach for reaches in found.values() for reach in reaches]))


def _sums(reaches: list[Reach]) -> tuple[int, ...]:
    return (
        sum(reach.steps for reach in reaches),
        sum(reach.expressed for reach in reaches),
        sum(reach.told_apart for reach in reaches),
        len(reaches),
        sum(reach.expressed == reach.steps for reach in reaches),
    )


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
