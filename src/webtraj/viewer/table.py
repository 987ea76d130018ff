"""The episodes of a list as columns, so that a hundred thousand are filtered and sorted in no time.

A row is added once, and replaced when more is known of its episode: it was open and is sealed, or
was labelled. A column is made when it is first needed, and from then on follows the rows. Not safe
to share between threads; `viewer` sees to that.
"""

from __future__ import annotations

import collections
import dataclasses
import heapq
import math
from collections.abc import Callable, Collection, Iterable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from webtraj.trajectory import Outcome
from webtraj.viewer.columns import Numbers, Ranks, Texts, Words
from webtraj.viewer.queries import FACETS, NO_LABEL, Query
from webtraj.viewer.rows import NUMBERS, TEXTS, WORDS, Row, reading, searched

__all__ = ["MOST_COUNTED", "Page", "Row", "Table"]

MOST_COUNTED = 200
"""Values of a field that are counted for a page, the most frequent ones."""
_KEPT = 16
_T = TypeVar("_T")
_Mask = NDArray[np.bool_]
_Order = NDArray[np.intp]
_Found = tuple[_Order, dict[str, Any]]


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """A page of the episodes that meet a query."""

    total: int
    """How many meet it."""
    rows: tuple[Row, ...]
    facets: dict[str, list[tuple[Any, int]]]
    """For each of `FACETS` its values, the most frequent first, each with the number of episodes
    that have it and meet all else that is asked. Iterations are in order."""


class Table:
    """Rows by their position, and the columns that are made of them."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._positions: dict[tuple[str, str], int] = {}
        self._replaced: list[int] = []
        self._words = {name: Words(read) for name, read in WORDS.items()}
        self._numbers = {name: Numbers(read) for name, read in NUMBERS.items()}
        self._ranks = {name: Ranks(reading(read)) for name, read in TEXTS.items()}
        self._texts = Texts(searched)
        self._word_ranks: dict[str, NDArray[np.float64]] = {}
        self._found = _Kept[_Found]()
        self._orders = _Kept[_Order]()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, in the order in which they came."""
        return tuple(self._rows)

    def get(self, dataset: str, episode_id: str) -> Row | None:
        """Returns an episode's row, if there is one."""
        position = self._positions.get((dataset, episode_id))
        return None if position is None else self._rows[position]

    def put(self, rows: Iterable[Row]) -> bool:
        """Adds rows, or replaces those of the same episodes; returns whether that changed any."""
        changed = False
        for row in rows:
            position = self._positions.setdefault(row.key, len(self._rows))
            if position == len(self._rows):
                self._rows.append(row)
            elif self._rows[position] != row:
                self._rows[position] = row
                self._replaced.append(position)
            else:
                continue
            changed = True
        if changed:
            self._found.clear()
            self._orders.clear()
            self._word_ranks.clear()
        return changed

    def page(self, query: Query) -> Page:
        """Returns a page of what meets a query; rows that are alike stand as they came."""
        asked = dataclasses.replace(query, offset=0, limit=1)
        unsorted = dataclasses.replace(asked, sort="", descending=False)
        positions, facets = self._found.get(unsorted, lambda: self._select(query))
        order = self._orders.get(asked, lambda: self._sorted(positions, query))
        shown = order[query.offset : query.offset + query.limit]
        return Page(len(order), tuple(self._rows[position] for position in shown), facets)

    def graded(self, datasets: Collection[str]) -> dict[str, dict[str, tuple[int, int]]]:
        """Returns successes, and those with failures, of some datasets' tasks; both by name."""
        places, tasks = self._words_of("dataset"), self._words_of("task")
        outcomes = self._words_of("outcome")
        wanted = [places.known[name] for name in datasets if name in places.known]
        # A pair of a dataset and a task is one number.
        pairs = places.codes * max(len(tasks.known), 1) + tasks.codes
        found: dict[str, dict[str, list[int]]] = {}
        for outcome in (Outcome.SUCCESS, Outcome.FAILURE):
            code = outcomes.known.get(outcome.name.lower(), -1)
            mask = (outcomes.codes == code) & np.isin(places.codes, wanted)
            for pair, count in zip(*np.unique(pairs[mask], return_counts=True), strict=True):
                place, task = divmod(int(pair), len(tasks.known))
                of_place = found.setdefault(places.words[place], {})
                both = of_place.setdefault(tasks.words[task], [0, 0])
                both[0] += int(count) * (outcome is Outcome.SUCCESS)
                both[1] += int(count)
        return {
            name: {task: (solved, graded) for task, (solved, graded) in of_place.items()}
            for name, of_place in found.items()
        }

    def _sorted(self, positions: _Order, query: Query) -> _Order:
        keys = self._sort_keys(query.sort)[positions]
        order: _Order = positions[np.argsort(-keys if query.descending else keys, kind="stable")]
        return order

    def _select(self, query: Query) -> _Found:
        """Returns the positions of what meets a query, and what is counted."""
        common = np.ones(len(self._rows), dtype=np.bool_)
        if query.min_reward is not None:
            common &= self._numbers_of("reward") >= query.min_reward
        if query.max_reward is not None:
            common &= self._numbers_of("reward") <= query.max_reward
        if query.words:
            common &= self._containing(query.words)
        chosen = {name: self._chosen(name, values) for name, values in query.chosen}
        every = _all_of(common, chosen.values())
        facets = {}
        for name in FACETS:
            if name in chosen:  # What else could be chosen there.
                others = [mask for other, mask in chosen.items() if other != name]
                facets[name] = self._counted(name, _all_of(common, others))
            else:
                facets[name] = self._counted(name, every)
        return np.flatnonzero(every), facets

    def _chosen(self, name: str, values: tuple[str, ...]) -> _Mask:
        if name == "iteration":
            numbers = [float(value) for value in values if value.isdigit() and len(value) < 10]
            mask: _Mask = np.isin(self._numbers_of(name), numbers)
            return mask
        column = self._words_of(name)
        if name == "label":
            values = tuple("" if value == NO_LABEL else value for value in values)
        wanted = [column.known[value] for value in values if value in column.known]
        return np.isin(column.codes, wanted)

    def _containing(self, words: tuple[str, ...]) -> _Mask:
        texts = self._texts.of(self._rows, self._replaced)
        mask = np.fromiter((words[0] in text for text in texts), np.bool_, len(texts))
        for word in words[1:]:
            for position in np.flatnonzero(mask):
                mask[position] = word in texts[position]
        return mask

    def _counted(self, name: str, mask: _Mask) -> list[tuple[Any, int]]:
        if name == "iteration":
            found, counts = np.unique(self._numbers_of(name)[mask], return_counts=True)
            pairs = zip(found.tolist(), counts.tolist(), strict=True)
            return [(int(number), count) for number, count in pairs if not math.isnan(number)]
        column = self._words_of(name)
        counts = np.bincount(column.codes[mask], minlength=len(column.known))
        codes = np.flatnonzero(counts)
        if len(codes) > 2 * MOST_COUNTED:
            # Only those as frequent as the last that can be shown need be looked at one by one.
            last = np.partition(counts[codes], -MOST_COUNTED - 1)[-MOST_COUNTED - 1]
            codes = codes[counts[codes] >= last]
        words = column.words
        counted = ((-int(counts[code]), words[code]) for code in codes.tolist() if words[code])
        most = heapq.nsmallest(MOST_COUNTED, counted)
        return [(word, -count) for count, word in most]

    def _sort_keys(self, name: str) -> NDArray[np.float64]:
        """Returns numbers that sort as a field does; what is not known is NaN, and comes last."""
        if name in NUMBERS:
            return self._numbers_of(name)
        if name in TEXTS:
            return self._ranks[name].of(self._rows, self._replaced)
        if name not in self._word_ranks:
            self._word_ranks[name] = self._words_of(name).ranks()
        return self._word_ranks[name]

    def _numbers_of(self, name: str) -> NDArray[np.float64]:
        return self._numbers[name].of(self._rows, self._replaced)

    def _words_of(self, name: str) -> Words[Row]:
        return self._words[name].of(self._rows, self._replaced)


class _Kept(Generic[_T]):
    """The latest answers to queries."""

    def __init__(self) -> None:
        self._answers: collections.OrderedDict[Query, _T] = collections.OrderedDict()

    def get(self, query: Query, make: Callable[[], _T]) -> _T:
        """Returns what is kept, or else made."""
        if query not in self._answers:
            self._answers[query] = make()
            if len(self._answers) > _KEPT:
                self._answers.popitem(last=False)
        self._answers.move_to_end(query)
        return self._answers[query]

    def clear(self) -> None:
        """Forgets all."""
        self._answers.clear()


def _all_of(mask: _Mask, others: Iterable[_Mask]) -> _Mask:
    for other in others:
        mask = mask & other
    return mask
