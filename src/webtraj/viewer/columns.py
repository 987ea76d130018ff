"""Columns that follow a list of rows, to which rows are added and in which some are replaced.

`of(rows, replaced)` brings a column up to date: `replaced` has the positions of all rows that ever
were replaced, in order, and only grows, as the rows do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Numbers", "Texts", "Words"]

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
    """

    def __init__(self, read: Callable[[_Row], str]) -> None:
        self._read = read
        self._seen = 0
        self.codes = np.empty(0, np.int64)
        self.known: dict[str, int] = {}

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
        return self

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
