"""Which try of a planned row counts: one rule for everything that counts episodes.

A row of a plan, or an attempt of a group, may have several episodes: an error is retried, and a
machine that was given up may still send what it played. All are kept; one counts:

1. Tries of one row are the episodes whose ids name it (`<run>-<row>-<try>`), and the episodes that
name the one they retry (`EpisodeInfo.retry_of`). 2. Among the tries that say something about the
agent (`trajectory.counts_for_agent`), the last one
   counts. If there is none, the last try counts, and is a failure of the machinery or cut off.
3. The last try is the one with the highest number in its id, then the most retries before it, then
   the latest start.

docs/metrics.md explains the rule to users. What an episode's end says about the agent is in
`webtraj.trajectory`.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Protocol, TypeVar

from webtraj.trajectory import EndReason, Outcome, counts_for_agent

__all__ = [
    "PlayedRow",
    "Try",
    "find_counted_only_in_part",
    "place_in",
    "pick_counting",
    "rank",
    "rows_of",
    "find_superseded",
]

_PLACE = re.compile(r"(.+)-(\d{6,})-(\d{2,})")


class Try(Protocol):
    """The fields of an episode that the rule reads. An index line has them."""

    @property
    def episode_id(self) -> str:
        """The episode's id."""

    @property
    def retry_of(self) -> str:
        """The episode that it retries; empty if none."""

    @property
    def outcome(self) -> Outcome:
        """Its outcome."""

    @property
    def end_reason(self) -> EndReason:
        """Why it ended."""

    @property
    def start_time(self) -> float | None:
        """When it began."""


class PlayedRow(Protocol):
    """A result of a running rollout, which knows its row."""

    @property
    def row(self) -> int:
        """The row of the plan; below 0 if it is in none."""

    @property
    def number(self) -> int:
        """The number of earlier tries."""

    @property
    def outcome(self) -> Outcome:
        """Its outcome."""

    @property
    def end_reason(self) -> EndReason:
        """Why it ended."""


_Played = TypeVar("_Played", bound=PlayedRow)


def place_in(episode_id: str) -> tuple[str, int, int] | None:
    """Return the run, row and try that an episode's id names; None if it names none.

    >>> place_in("20261128T000153-795-42d7c83b-000003-01")
    ('20261128T000153-795-42d7c83b', 3, 1)
    >>> place_in("e1") is None
    True
    """
    found = _PLACE.fullmatch(episode_id)
    return None if found is None else (found[1], int(found[2]), int(found[3]))


def find_superseded(episodes: Iterable[Try]) -> frozenset[str]:
    """Return the ids of superseded episodes, because another try of their row counts.

    Args:
        episodes: All episodes of a dataset. A part of them may lack the try that counts.
    """
    return frozenset(
        episode_id for tries in _rows(episodes) for _, episode_id in sorted(tries)[:-1]
    )


def rows_of(episodes: Iterable[Try]) -> dict[str, str]:
    """Return for each episode whose row has several tries the smallest of their ids."""
    rows = [[episode_id for _, episode_id in tries] for tries in _rows(episodes)]
    return {episode_id: min(tries) for tries in rows for episode_id in tries}


def find_counted_only_in_part(episodes: Iterable[Try], gone: Set[str]) -> frozenset[str]:
    """Return the ids of episodes that would count in a part, although not in the whole.

    The try that counts instead is not in the part. Episodes that never count are not included.

    Args:
        episodes: The part's episodes.
        gone: The ids of episodes that do not count in the whole; see `find_superseded`.
    """
    left = {one.episode_id: one for one in episodes}
    found: set[str] = set()
    while more := [
        name
        for name in left.keys() & gone - find_superseded(left.values())
        if counts_for_agent(left[name].outcome, left[name].end_reason)
    ]:
        found.update(more)
        for name in more:
            del left[name]
    return frozenset(found)


def _rows(episodes: Iterable[Try]) -> list[list[tuple[tuple[object, ...], str]]]:
    """Return the tries of each row that has several, each as a pair of rank and id."""
    known = {one.episode_id: one for one in _candidates(tuple(episodes))}
    rows: dict[object, list[tuple[tuple[object, ...], str]]] = {}
    for first, chain in _chains(known).items():
        place = place_in(first)
        row: object = first if place is None else place[:2]
        for one, depth in chain:
            own = place_in(one.episode_id)
            ranked = (
                *rank(one.outcome, one.end_reason, 0 if own is None else own[2]),
                depth,
                one.start_time or 0.0,
                one.episode_id,
            )
            rows.setdefault(row, []).append((ranked, one.episode_id))
    return [tries for tries in rows.values() if len(tries) > 1]


def _candidates(episodes: Sequence[Try]) -> Iterator[Try]:
    """Yield the episodes that may have another try, by a fast check: usually few or none."""
    retried = {one.retry_of for one in episodes if one.retry_of}
    rows = list(map(_row_in, episodes))
    alike = collections.Counter(rows)
    for one, row in zip(episodes, rows, strict=True):
        if one.retry_of or one.episode_id in retried or (row and alike[row] > 1):
            yield one


def _row_in(one: Try) -> str:
    """Return the run and row in an episode's id, without the try; empty if it names no row."""
    row, _, number = one.episode_id.rpartition("-")
    return row if number.isdigit() and row[-6:].isdigit() else ""


def _chains(known: Mapping[str, Try]) -> dict[str, list[tuple[Try, int]]]:
    """Return the episodes of each chain of retries with their numbers, by the first id."""
    found: dict[str, tuple[str, int]] = {}
    for episode_id in known:
        path: list[str] = []
        at = episode_id
        while at not in found:
            path.append(at)
            found[at] = (at, 0)  # For now: a chain that bites its own tail ends here.
            before = known[at].retry_of if at in known else ""
            if not before:
                break
            at = before
        first, depth = found[at]
        for step in reversed(path):
            if step != first:
                depth += 1
            found[step] = (first, depth)
    chains: dict[str, list[tuple[Try, int]]] = {}
    for episode_id, one in known.items():
        first, depth = found[episode_id]
        chains.setdefault(first, []).append((one, depth))
    return chains


def pick_counting(results: Iterable[_Played]) -> tuple[_Played, ...]:
    """Return the result that counts for each played row of one run, in the order of rows.

    Results without a row follow. Each counts for itself.
    """
    rows: dict[int, _Played] = {}
    others: list[_Played] = []
    for result in results:
        if result.row < 0:
            others.append(result)
        elif result.row not in rows or _rank_of(rows[result.row]) <= _rank_of(result):
            rows[result.row] = result
    return (*(rows[row] for row in sorted(rows)), *others)


def rank(outcome: Outcome, reason: EndReason, number: int) -> tuple[bool, int]:
    """Return a try's rank among the tries of its row. The highest rank counts."""
    return counts_for_agent(outcome, reason), number


def _rank_of(result: PlayedRow) -> tuple[bool, int]:
    return rank(result.outcome, result.end_reason, result.number)
