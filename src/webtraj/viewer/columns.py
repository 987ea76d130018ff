"""Columns that follow a list of rows, to which rows are added and in which some are replaced.

`of(rows, replaced)` brings a column up to date: `replaced` has the positions of all rows that ever
were replaced, in order, and only grows, as the rows do.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Numbers", "Ranks", "Texts", "Words"]

_Row = TypeVar("_Row")


class Numbers(Generic[_Row]):
    """A number of each row; NaN for what is not known."""

    def __init__(self, read: Callable[[_Row], float]) -> None:
        self._read = read
        self._array = np.empty(0, np.float64)
        self._seen = 0

    def of(self, rows: Sequence[_Row], replaced: Sequence[int]) -> NDArray[np.float64]:
        """Returns the numbers of all rows."""
        have = len(self._array)
        for position in replaced[self._seen :]:
            if position < have:
                self._array[position] = self._read(rows[position])
        self._seen = len(replaced)
        if have < len(rows):
            new = np.fromiter(map(self._read, rows[have:]), np.float64, len(rows) - have)
            self._array = np.concatenate((self._array, new))
        return self._array


class Words(Generic[_Row]):
    """A word of each row, as the code of the word.

    Attributes:
        codes: The code of each row's word.
        known: The code of each word that any row has, or has had.
        words: Those words, each where its code says.
    """

    def __init__(self, read: Callable[[_Row], str]) -> None:
        self._read = read
        self._seen = 0
        self.codes = np.empty(0, np.int64)
        self.known: dict[str, int] = {}
        self.words: list[str] = []

    def of(self, rows: Sequence[_Row], replaced: Sequence[int]) -> Self:
        """Returns the column, brought up to date."""
        have = len(self.codes)
        for position in replaced[self._seen :]:
            if position < have:
                self.codes[position] = self._code(rows[position])
        self._seen = len(replaced)
        if have < len(rows):
            new = np.fromiter(map(self._code, rows[have:]), np.int64, len(rows) - have)
            self.codes = np.concatenate((self.codes, new))
        if len(self.words) < len(self.known):
            self.words = list(self.known)
        return self

    def ranks(self) -> NDArray[np.float64]:
        """Returns the place of each row's word among all words; NaN for an empty one."""
        words = self.words
        ranks = np.empty(len(words))
        ranks[sorted(range(len(words)), key=words.__getitem__)] = np.arange(len(words))
        if "" in self.known:
            ranks[self.known[""]] = math.nan
        return ranks[self.codes]

    def _code(self, row: _Row) -> int:
        return self.known.setdefault(self._read(row), len(self.known))


class Texts(Generic[_Row]):
    """A text of each row."""

    def __init__(self, read: Callable[[_Row], str]) -> None:
        self._read = read
        self._seen = 0
        self._texts: list[str] = []

    def of(self, rows: Sequence[_Row], replaced: Sequence[int]) -> list[str]:
        """Returns the texts of all rows."""
        have = len(self._texts)
        for position in replaced[self._seen :]:
            if position < have:
                self._texts[position] = self._read(rows[position])
        self._seen = len(replaced)
        self._texts.extend(map(self._read, rows[have:]))
        return self._texts


class Ranks(Generic[_Row]):
    """The place of each row's text among all texts; NaN for an empty one.

    Most texts are taken to differ, so none is looked up. What has been sorted once is nearly in
    order when more rows come, and is sorted again in a fraction of the time.

    Args:
        read: Returns the texts of rows.
    """

    def __init__(self, read: Callable[[Iterable[_Row]], list[str]]) -> None:
        self._read = read
        self._seen = 0
        self._texts: list[str] = []
        self._order: list[int] = []
        self._ranks = np.empty(0, np.float64)

    def of(self, rows: Sequence[_Row], replaced: Sequence[int]) -> NDArray[np.float64]:
        """Returns the ranks of all rows."""
        have, new = len(self._texts), [p for p in replaced[self._seen :] if p < len(self._texts)]
        if have == len(rows) and not new:
            return self._ranks
        for position in new:
            (self._texts[position],) = self._read([rows[position]])
        self._seen = len(replaced)
        self._texts += self._read(rows[have:])
        self._order += range(have, len(rows))
        self._order.sort(key=self._texts.__getitem__)
        self._ranks = self._ranked()
        return self._ranks

    def _ranked(self) -> NDArray[np.float64]:
        ordered = list(map(self._texts.__getitem__, self._order))
        others = map(operator.ne, itertools.islice(ordered, 1, None), ordered)
        ranks = np.zeros(len(ordered))
        if ordered:
            ranks[1:] = np.cumsum(np.fromiter(others, np.bool_, len(ordered) - 1))
            if not ordered[0]:
                ranks[ranks == 0] = math.nan
        placed = np.empty(len(ordered))
        placed[self._order] = ranks
        return placed
