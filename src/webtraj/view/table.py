"""The list of episodes as columns, so that filtering and sorting 100,000 episodes is fast.

A row is added once, and replaced when its episode changes, for example when it is sealed or
labelled. A column is built when first needed, and then follows the rows. Not safe to share between
threads; `viewer` holds a lock.
"""

from __future__ import annotations

import collections
import dataclasses
import heapq
import itertools
import math
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from webtraj import errors
from webtraj.datasets.exporters.plain import unicode_text
from webtraj.metrics.rates import Rate
from webtraj.store.index import EpisodeSummary
from webtraj.store.tries import find_superseded, place_in
from webtraj.trajectory import EndReason, Outcome, has_succeeded, is_broken
from webtraj.view.values import exact

__all__ = [
    "FACETS",
    "MOST_COUNTED",
    "NO_LABEL",
    "NUMBERS",
    "Numbers",
    "Page",
    "Query",
    "Ranks",
    "Row",
    "SORTS",
    "TEXTS",
    "Table",
    "Texts",
    "WORDS",
    "Words",
    "parse_query",
    "searchable_text",
]

# Columns that follow a list of rows, in which rows are added and replaced.
#
# `follow(rows, replaced)`, or `of`, updates a column. `replaced` lists the positions of all rows
# ever replaced, in order. Both lists only grow.


class _Column:
    """An array with a number for each row.

    Args:
        value: Returns a row's number.
        kind: The array's type.
    """

    def __init__(self, value: Callable[[Row], float], kind: type) -> None:
        self._value = value
        self._seen = 0
        self.array: NDArray[Any] = np.empty(0, kind)

    def follow(self, rows: Sequence[Row], replaced: Sequence[int]) -> Self:
        """Return the updated column."""
        have = len(self.array)
        for position in replaced[self._seen :]:
            if position < have:
                self.array[position] = self._value(rows[position])
        self._seen = len(replaced)
        if have < len(rows):
            new = np.fromiter(map(self._value, rows[have:]), self.array.dtype, len(rows) - have)
            self.array = np.concatenate((self.array, new))
        return self


class Numbers(_Column):
    """A column of numbers; NaN where unknown."""

    def __init__(self, read: Callable[[Row], float]) -> None:
        super().__init__(read, np.float64)


class Words(_Column):
    """A column of words from a small set, stored as codes.

    Attributes:
        known: The code of each word that any row has or had.
    """

    def __init__(self, read: Callable[[Row], str]) -> None:
        super().__init__(self._code, np.int64)
        self._read_word = read
        self.known: dict[str, int] = {}
        self._words: list[str] = []

    def _code(self, row: Row) -> int:
        return self.known.setdefault(self._read_word(row), len(self.known))

    @property
    def codes(self) -> NDArray[np.int64]:
        """The code of each row's word."""
        return self.array

    @property
    def words(self) -> list[str]:
        """The words, indexed by code."""
        if len(self._words) < len(self.known):
            self._words = list(self.known)
        return self._words

    def ranks(self) -> NDArray[np.float64]:
        """Return the rank of each row's word among all words; NaN for an empty word."""
        words = self.words
        ranks = np.empty(len(words))
        ranks[sorted(range(len(words)), key=words.__getitem__)] = np.arange(len(words))
        if "" in self.known:
            ranks[self.known[""]] = math.nan
        return ranks[self.codes]


class Texts:
    """A column of texts."""

    def __init__(self, read: Callable[[Row], str]) -> None:
        self._read = read
        self._seen = 0
        self._texts: list[str] = []

    def of(self, rows: Sequence[Row], replaced: Sequence[int]) -> tuple[list[str], bool]:
        """Return the texts of all rows, and whether any of them is new."""
        have = len(self._texts)
        new = [position for position in replaced[self._seen :] if position < have]
        for position in new:
            self._texts[position] = self._read(rows[position])
        self._seen = len(replaced)
        self._texts.extend(map(self._read, rows[have:]))
        return self._texts, bool(new) or have < len(rows)


class Ranks:
    """A column with the rank of each row's text among all texts; NaN for an empty text.

    Use it for texts that mostly differ. The order is kept, so that sorting again after adding rows
    takes a fraction of the time.
    """

    def __init__(self, read: Callable[[Row], str]) -> None:
        self._texts = Texts(read)
        self._order: list[int] = []
        self._ranks = np.empty(0, np.float64)

    def of(self, rows: Sequence[Row], replaced: Sequence[int]) -> NDArray[np.float64]:
        """Return the ranks of all rows."""
        texts, changed = self._texts.of(rows, replaced)
        if not changed:
            return self._ranks
        self._order += range(len(self._order), len(rows))
        self._order.sort(key=texts.__getitem__)
        ordered = list(map(texts.__getitem__, self._order))
        others = map(operator.ne, itertools.islice(ordered, 1, None), ordered)
        ranks = np.zeros(len(ordered))
        if ordered:
            ranks[1:] = np.cumsum(np.fromiter(others, np.bool_, len(ordered) - 1))
            if not ordered[0]:
                ranks[ranks == 0] = math.nan
        self._ranks = np.empty(len(ordered))
        self._ranks[self._order] = ranks
        return self._ranks


# Queries: filters, search words, an order, and a page.

FACETS = (
    "dataset", "task", "site", "outcome", "end_reason", "policy", "policy_version", "iteration",
    "run", "label",
)  # fmt: skip
"""The fields whose values are counted and can be filtered by."""

SORTS = (
    "start_time", "id", "dataset", "task", "goal", "site", "outcome", "end_reason", "reward",
    "steps", "seconds", "policy", "policy_version", "iteration", "attempt", "group", "label",
)  # fmt: skip
"""The fields to sort by; a leading `-` reverses the order."""

NO_LABEL = "none"
"""The value of `label` that selects unlabelled episodes."""

_SYNONYMS = {"duration": "seconds"}
_LONGEST = 1000
_MOST_ROWS = 1000
_MOST_VALUES = 1000
_KNOWN = {*FACETS, "offset", "limit", "sort", "seed", "min_reward", "max_reward", "q"}


@dataclasses.dataclass(frozen=True, slots=True)
class Query:
    """A query for a page of the episodes that meet all conditions."""

    chosen: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Fields of `FACETS`, each with its accepted values."""
    seed: int | None = None
    """The environment's seed: with one task, one start page."""
    min_reward: float | None = None
    max_reward: float | None = None
    words: tuple[str, ...] = ()
    """Lower-case words that must all occur in an episode's id, task, goal, policy, policy version
    or note."""
    sort: str = "start_time"
    """One of `SORTS`."""
    descending: bool = True
    offset: int = 0
    limit: int = 100


def parse_query(parameters: Sequence[tuple[str, str]]) -> Query:
    """Return the query in a URL's parameters.

    >>> parse_query([("task", "a"), ("task", "b"), ("sort", "-reward")]).chosen
    (('task', ('a', 'b')),)

    Raises:
        InvalidInputError: A parameter is unknown, or its value is invalid.
    """
    given: dict[str, list[str]] = {}
    for name, value in parameters:
        if name not in _KNOWN:
            raise errors.InvalidInputError(
                f"Unknown parameter {name!r:.60}; expected one of {', '.join(sorted(_KNOWN))}."
            )
        if value:
            given.setdefault(name, []).append(value)
    single = {name: values[-1] for name, values in given.items() if name not in FACETS}
    sort = single.get("sort", "-start_time")
    name = sort.removeprefix("-")
    name = _SYNONYMS.get(name, name)
    if name not in SORTS:
        raise errors.InvalidInputError(
            f"sort={sort!r:.60}: expected one of {', '.join(SORTS)}, with a leading - to reverse "
            "the order."
        )
    chosen = {n: tuple(sorted(set(given[n]))) for n in FACETS if n in given}
    if any(len(values) > _MOST_VALUES for values in chosen.values()):
        raise errors.InvalidInputError(f"A field takes at most {_MOST_VALUES} values.")
    return Query(
        chosen=tuple(chosen.items()),
        seed=_whole(single, "seed", 0, 0, 2**53) if "seed" in single else None,
        min_reward=_number(single, "min_reward"),
        max_reward=_number(single, "max_reward"),
        words=tuple(single.get("q", "")[:_LONGEST].casefold().split()),
        sort=name,
        descending=sort.startswith("-"),
        offset=_whole(single, "offset", 0, 0, 2**40),
        limit=_whole(single, "limit", 100, 1, _MOST_ROWS),
    )


def _number(given: Mapping[str, str], name: str) -> float | None:
    if name not in given:
        return None
    try:
        value = float(given[name])
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise errors.InvalidInputError(f"{name}={given[name]!r:.60}: expected a number.")
    return value


def _whole(given: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = given.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 17 and least <= int(text) <= most):
        raise errors.InvalidInputError(
            f"{name}={text!r:.60}: expected a whole number from {least} to {most}."
        )
    return int(text)


# Rows: one episode each, and the readers of its fields.

_GOAL_LENGTH = 500
# Looking up an enum's name costs more than everything else in a row.
_OUTCOMES = {outcome: outcome.name.lower() for outcome in Outcome}
_END_REASONS = {reason: reason.name.lower() for reason in EndReason}
_OUTCOME_OF = {name: outcome for outcome, name in _OUTCOMES.items()}
_END_REASON_OF = {name: reason for reason, name in _END_REASONS.items()}


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One episode of the list."""

    dataset: str
    """The dataset's name."""
    summary: EpisodeSummary
    iteration: int | None = None
    """The number of the dataset's iteration, if it belongs to one."""
    state: str = ""
    """Empty for a sealed episode; `running` or `unsealed` for an open one."""
    label: str = ""
    """A person's label."""
    note: str = ""
    """The note with the label."""

    @property
    def key(self) -> tuple[str, str]:
        """A key of the episode, unique among all datasets."""
        return self.dataset, self.summary.episode_id

    def to_data(self) -> dict[str, Any]:
        """Return the row as JSON data."""
        summary, seconds = self.summary, _seconds(self)
        return {
            "id": summary.episode_id,
            "dataset": self.dataset,
            "task": unicode_text(summary.task),
            "goal": unicode_text(summary.goal[:_GOAL_LENGTH]),
            "site": unicode_text(summary.site),
            "outcome": _outcome(self),
            "end_reason": _end_reason(self),
            "reward": reward if math.isfinite(reward := _reward(self)) else None,
            "steps": summary.num_steps,
            "seconds": None if math.isnan(seconds) else seconds,
            "policy": unicode_text(summary.policy),
            "policy_version": unicode_text(summary.policy_version),
            "iteration": self.iteration,
            "attempt": summary.attempt,
            "group": unicode_text(summary.group_id),
            "seed": None if summary.seed is None else exact(summary.seed),
            "start_time": summary.start_time,
            "label": self.label,
            "note": unicode_text(self.note),
            "state": self.state,
        }


def _outcome(row: Row) -> str:
    return row.state or _OUTCOMES[row.summary.outcome]


def _end_reason(row: Row) -> str:
    return row.state or _END_REASONS[row.summary.end_reason]


def _seconds(row: Row) -> float:
    start, end = row.summary.start_time, row.summary.end_time
    return math.nan if start is None or end is None else end - start


def _reward(row: Row) -> float:
    return math.nan if row.summary.total_reward is None else row.summary.total_reward


def _valid(text: str) -> str:
    return text if text.isascii() else unicode_text(text)


WORDS: dict[str, Callable[[Row], str]] = {
    "dataset": lambda row: row.dataset,
    "task": lambda row: _valid(row.summary.task),
    "site": lambda row: _valid(row.summary.site),
    "outcome": _outcome,
    "end_reason": _end_reason,
    "policy": lambda row: _valid(row.summary.policy),
    "policy_version": lambda row: _valid(row.summary.policy_version),
    "run": lambda row: _valid((place_in(row.summary.episode_id) or ("",))[0]),
    "label": lambda row: row.label,
}
"""Fields with few distinct values, for filters and counts."""
TEXTS: dict[str, Callable[[Row], str]] = {
    "goal": lambda row: _valid(row.summary.goal),
    "group": lambda row: _valid(row.summary.group_id),
    "id": lambda row: _valid(row.summary.episode_id),
}
"""Fields that differ in most rows."""
NUMBERS: dict[str, Callable[[Row], float]] = {
    "start_time": lambda row: (
        math.nan if row.summary.start_time is None else row.summary.start_time
    ),
    "reward": _reward,
    "steps": lambda row: row.summary.num_steps,
    "seconds": _seconds,
    "iteration": lambda row: math.nan if row.iteration is None else row.iteration,
    "attempt": lambda row: row.summary.attempt,
    "seed": lambda row: math.nan if row.summary.seed is None else row.summary.seed,
}
"""Fields that are numbers; NaN where unknown."""


def searchable_text(row: Row) -> str:
    """Return the text that search words are looked up in."""
    summary = row.summary
    who = summary.policy, summary.policy_version
    parts = (summary.episode_id, summary.task, summary.goal, *who, row.note)
    return "\n".join(parts).casefold()


MOST_COUNTED = 200
"""The most values of a field that a page counts, the most frequent first."""
_KEPT = 16
_T = TypeVar("_T")
_Mask = NDArray[np.bool_]
_Order = NDArray[np.intp]
_Found = tuple[_Order, dict[str, Any], Rate, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """A page of the episodes that meet a query."""

    total: int
    """The number of matching episodes."""
    rows: tuple[Row, ...]
    facets: dict[str, list[tuple[Any, int]]]
    """For each of `FACETS` its values, the most frequent first, each with the number of episodes
    that have it and meet the query's other conditions. Iterations are in order."""
    success: Rate = dataclasses.field(default_factory=Rate)
    """The success rate of all matching episodes."""
    broken: int = 0
    """The number of those that the machinery failed; they are not in the rate."""


class Table:
    """The rows by position, and their columns."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._positions: dict[tuple[str, str], int] = {}
        self._replaced: list[int] = []
        self._words = {name: Words(read) for name, read in WORDS.items()}
        self._numbers = {name: Numbers(read) for name, read in NUMBERS.items()}
        self._ranks = {name: Ranks(read) for name, read in TEXTS.items()}
        self._texts = Texts(searchable_text)
        self._word_ranks: dict[str, NDArray[np.float64]] = {}
        self._verdicts: NDArray[np.int8] | None = None
        self._found = _Kept[_Found]()
        self._orders = _Kept[_Order]()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, in the order in which they were added."""
        return tuple(self._rows)

    def get(self, dataset: str, episode_id: str) -> Row | None:
        """Return an episode's row, if there is one."""
        position = self._positions.get((dataset, episode_id))
        return None if position is None else self._rows[position]

    def put(self, rows: Iterable[Row]) -> bool:
        """Add rows, replacing earlier rows of the same episodes. Return whether any changed."""
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
            self._verdicts = None
        return changed

    def page(self, query: Query) -> Page:
        """Return a page of the rows that match a query; the sort is stable."""
        asked = dataclasses.replace(query, offset=0, limit=1)
        unsorted = dataclasses.replace(asked, sort="", descending=False)
        positions, facets, rate, broken = self._found.get(unsorted, lambda: self._select(query))
        order = self._orders.get(asked, lambda: self._sort(positions, query))
        shown = order[query.offset : query.offset + query.limit]
        rows = tuple(self._rows[position] for position in shown)
        return Page(len(order), rows, facets, rate, broken)

    def success(self, datasets: Collection[str]) -> dict[str, dict[str, Rate]]:
        """Return the success rate by dataset and task, for some datasets, without empty rates."""
        places, tasks = self._words_of("dataset"), self._words_of("task")
        wanted = [places.known[name] for name in datasets if name in places.known]
        verdicts = self._grade()
        graded = np.flatnonzero((verdicts >= 0) & np.isin(places.codes, wanted))
        # Encode a pair of dataset and task as one number.
        pairs = (places.codes * max(len(tasks.known), 1) + tasks.codes)[graded]
        found: dict[str, dict[str, Rate]] = {}
        numbers, at, counts = np.unique(pairs, return_inverse=True, return_counts=True)
        solved = np.bincount(at.reshape(-1), weights=verdicts[graded], minlength=len(numbers))
        for pair, successes, count in zip(numbers.tolist(), solved, counts, strict=True):
            place, task = divmod(pair, len(tasks.known))
            of_place = found.setdefault(places.words[place], {})
            of_place[tasks.words[task]] = Rate(int(successes), int(count))
        return found

    def _grade(self) -> NDArray[np.int8]:
        """Return 1 for each row that is a success, 0 for a failure, and -1 for any other.

        Of several tries of a planned row, only one counts (`webtraj.store.tries`).
        """
        if self._verdicts is None:
            verdict = {None: -1, False: 0, True: 1}
            made = self._by_end(lambda outcome, reason: verdict[has_succeeded(outcome, reason)], -1)
            tries: dict[str, list[EpisodeSummary]] = {}
            for row in self._rows:
                if not row.state:
                    tries.setdefault(row.dataset, []).append(row.summary)
            for dataset, summaries in tries.items():
                gone = [self._positions[dataset, name] for name in find_superseded(summaries)]
                made[gone] = -1
            self._verdicts = made.astype(np.int8)
        return self._verdicts

    def _by_end(
        self, value: Callable[[Outcome, EndReason], int], otherwise: int
    ) -> NDArray[np.int64]:
        """Return a value for each row, by outcome and end reason; open rows get another value."""
        outcomes, reasons = self._words_of("outcome"), self._words_of("end_reason")
        width = max(len(reasons.known), 1)  # Encode a pair as one number.
        pairs, at = np.unique(outcomes.codes * width + reasons.codes, return_inverse=True)
        values = []
        for pair in pairs.tolist():
            outcome = _OUTCOME_OF.get(outcomes.words[pair // width])
            reason = _END_REASON_OF.get(reasons.words[pair % width])
            known = outcome is not None and reason is not None
            values.append(value(outcome, reason) if known else otherwise)  # type: ignore[arg-type]
        found: NDArray[np.int64] = np.array(values, np.int64)[at.reshape(-1)]
        return found

    def _sort(self, positions: _Order, query: Query) -> _Order:
        keys = self._sort_keys(query.sort)[positions]
        order: _Order = positions[np.argsort(-keys if query.descending else keys, kind="stable")]
        return order

    def _select(self, query: Query) -> _Found:
        """Return the positions of the rows that match, the facets' counts, and success."""
        common = np.ones(len(self._rows), dtype=np.bool_)
        if query.seed is not None:
            common &= self._numbers_of("seed") == query.seed
        if query.min_reward is not None:
            common &= self._numbers_of("reward") >= query.min_reward
        if query.max_reward is not None:
            common &= self._numbers_of("reward") <= query.max_reward
        if query.words:
            common &= self._match_words(query.words)
        chosen = {name: self._choose(name, values) for name, values in query.chosen}
        every = _all_of(common, chosen.values())
        facets = {}
        for name in FACETS:
            if name in chosen:  # Count what else could be chosen for this field.
                others = [mask for other, mask in chosen.items() if other != name]
                facets[name] = self._count(name, _all_of(common, others))
            else:
                facets[name] = self._count(name, every)
        return np.flatnonzero(every), facets, *self._success(every)

    def _success(self, mask: _Mask) -> tuple[Rate, int]:
        """Return the success rate of some rows, and how many failed because of the machinery."""
        verdicts = self._grade()[mask]
        broken = self._by_end(is_broken, 0)[mask]
        rate = Rate(int(np.sum(verdicts == 1)), int(np.sum(verdicts >= 0)))
        return rate, int(np.sum(broken))

    def _choose(self, name: str, values: tuple[str, ...]) -> _Mask:
        if name == "iteration":
            digits = [value for value in values if value.isascii() and value.isdigit()]
            numbers = [float(value) for value in digits if len(value) < 10]
            mask: _Mask = np.isin(self._numbers_of(name), numbers)
            return mask
        column = self._words_of(name)
        if name == "label":
            values = tuple("" if value == NO_LABEL else value for value in values)
        wanted = [column.known[value] for value in values if value in column.known]
        return np.isin(column.codes, wanted)

    def _match_words(self, words: tuple[str, ...]) -> _Mask:
        texts, _ = self._texts.of(self._rows, self._replaced)
        mask = np.fromiter((words[0] in text for text in texts), np.bool_, len(texts))
        for word in words[1:]:
            for position in np.flatnonzero(mask):
                mask[position] = word in texts[position]
        return mask

    def _count(self, name: str, mask: _Mask) -> list[tuple[Any, int]]:
        if name == "iteration":
            found, counts = np.unique(self._numbers_of(name)[mask], return_counts=True)
            pairs = zip(found.tolist(), counts.tolist(), strict=True)
            return [(int(number), count) for number, count in pairs if not math.isnan(number)]
        column = self._words_of(name)
        counts = np.bincount(column.codes[mask], minlength=len(column.known))
        codes = np.flatnonzero(counts)
        if len(codes) > 2 * MOST_COUNTED:
            # Only values as frequent as the last one shown need sorting.
            last = np.partition(counts[codes], -MOST_COUNTED - 1)[-MOST_COUNTED - 1]
            codes = codes[counts[codes] >= last]
        words = column.words
        counted = ((-int(counts[code]), words[code]) for code in codes.tolist() if words[code])
        most = heapq.nsmallest(MOST_COUNTED, counted)
        return [(word, -count) for count, word in most]

    def _sort_keys(self, name: str) -> NDArray[np.float64]:
        """Return numbers in the sort order of a field; unknown values are NaN and come last."""
        if name in NUMBERS:
            return self._numbers_of(name)
        if name in TEXTS:
            return self._ranks[name].of(self._rows, self._replaced)
        if name not in self._word_ranks:
            self._word_ranks[name] = self._words_of(name).ranks()
        return self._word_ranks[name]

    def _numbers_of(self, name: str) -> NDArray[np.float64]:
        return self._numbers[name].follow(self._rows, self._replaced).array

    def _words_of(self, name: str) -> Words:
        return self._words[name].follow(self._rows, self._replaced)


class _Kept(Generic[_T]):
    """A cache of the latest query results."""

    def __init__(self) -> None:
        self._answers: collections.OrderedDict[Query, _T] = collections.OrderedDict()

    def get(self, query: Query, make: Callable[[], _T]) -> _T:
        """Return the cached result; compute it if missing."""
        if query not in self._answers:
            self._answers[query] = make()
            if len(self._answers) > _KEPT:
                self._answers.popitem(last=False)
        self._answers.move_to_end(query)
        return self._answers[query]

    def clear(self) -> None:
        """Remove all results."""
        self._answers.clear()


def _all_of(mask: _Mask, others: Iterable[_Mask]) -> _Mask:
    for other in others:
        mask = mask & other
    return mask
