"""What a replay buffer holds of samples: a row of numbers each, some 70 bytes.

Names (of tasks, sites, ...) are held once, and rows have their numbers. A million steps take less
than 100 MB, however long their prompts are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["EPISODES", "LEVELS", "STEPS", "Growing", "Names", "View", "mixed"]

STEPS = np.dtype(
    [
        ("episode", "<i4"), ("step", "<i4"), ("call", "<i2"), ("verb", "<i2"), ("version", "<i4"),
        ("prompt_tokens", "<i4"), ("completion_tokens", "<i4"), ("counted", "?"), ("recorded", "?"),
        ("prompt", "V16"), ("sample", "V16"), ("page", "V8"),
    ]
)  # fmt: skip
"""A row for each decision that gives a sample."""

EPISODES = np.dtype(
    [
        ("source", "<i4"), ("iteration", "<i4"), ("task", "<i4"), ("site", "<i4"),
        ("group", "<i4"), ("level", "<i1"), ("outcome", "<i1"), ("format", "<i1"),
        ("reward", "<f8"), ("hash", "<u8"), ("sha256", "V32"),
    ]
)  # fmt: skip
"""A row for each episode that has such decisions."""

LEVELS = ("unknown", "easy", "medium", "hard")


class Names:
    """Numbers for names, in the order of their first coming."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        """Returns a name's number."""
        return self._numbers.setdefault(name, len(self._numbers))

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order of their numbers."""
        return tuple(self._numbers)


class Growing:
    """A table that rows are added to."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._rows = np.zeros(1024, dtype)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def extend(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Adds rows."""
        end = self._length + len(rows)
        if end > len(self._rows):
            # In place: a copy would be held beside it.
            self._rows.resize(max(end, len(self._rows) * 5 // 4), refcheck=False)
        self._rows[self._length : end] = rows
        self._length = end

    def take(self) -> NDArray[Any]:
        """Returns the table, and leaves nothing here."""
        rows = self._rows
        rows.resize(self._length, refcheck=False)
        self._rows, self._length = np.zeros(0, rows.dtype), 0
        return rows


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Samples as weightings and splits see them: an array each, one number a sample."""

    episode: NDArray[np.int64]
    """Number of its episode."""
    step: NDArray[np.int64]
    iteration: NDArray[np.int64]
    task: NDArray[np.int64]
    """Index into `tasks`."""
    site: NDArray[np.int64]
    """Index into `sites`."""
    level: NDArray[np.int64]
    """Index into `LEVELS`: how hard the task is."""
    outcome: NDArray[np.int64]
    """A `webtraj.Outcome`."""
    reward: NDArray[np.float64]
    """What its episode was worth; NaN if that is not known."""
    advantage: NDArray[np.float64]
    """The reward minus the mean of its group, of all graded episodes on record, those included
    that the buffer's filters leave out. NaN if the reward is not known or there is no other."""
    tokens: NDArray[np.int64]
    """Of prompt and completion."""
    version: NDArray[np.int64]
    """Index into `versions`."""
    tasks: tuple[str, ...]
    sites: tuple[str, ...]
    versions: tuple[str, ...]
    """Which weights sampled it; empty text where that is not known."""
    iterations: tuple[int, ...]
    """The iterations of the buffer, in order."""

    def __len__(self) -> int:
        return len(self.episode)


def mixed(values: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Returns numbers that look random and follow from each value and the seed (splitmix64)."""
    with np.errstate(over="ignore"):
        z = values + np.uint64(seed % 2**64) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
