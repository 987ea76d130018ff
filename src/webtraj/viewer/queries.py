"""What is asked of a list of episodes: filters, a text to look for, an order, and a page of it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from webtraj import errors

__all__ = ["FACETS", "NO_LABEL", "SORTS", "Query", "parse_query"]

FACETS = (
    "dataset", "task", "site", "outcome", "end_reason", "policy", "policy_version", "iteration",
    "label",
)  # fmt: skip
"""The fields whose values are counted, and by whose values episodes are chosen."""

SORTS = (
    "start_time", "id", "dataset", "task", "goal", "site", "outcome", "end_reason", "reward",
    "steps", "seconds", "policy", "policy_version", "iteration", "attempt", "group", "label",
)  # fmt: skip
"""The fields to sort by; with a `-` before it, from the last to the first."""

NO_LABEL = "none"
"""The value of `label` that means those that nobody has labelled."""

_SYNONYMS = {"duration": "seconds"}
_LONGEST = 1000
_MOST_ROWS = 1000
_MOST_VALUES = 1000
_KNOWN = {*FACETS, "offset", "limit", "sort", "min_reward", "max_reward", "q"}


@dataclasses.dataclass(frozen=True, slots=True)
class Query:
    """A page of the episodes that meet all conditions."""

    chosen: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Fields out of `FACETS`, each with the values of which an episode must have one."""
    min_reward: float | None = None
    max_reward: float | None = None
    words: tuple[str, ...] = ()
    """What must all stand in an episode's id, task, goal, policy, its version or the note; in lower
    case."""
    sort: str = "start_time"
    """Out of `SORTS`."""
    descending: bool = True
    offset: int = 0
    limit: int = 100


def parse_query(parameters: Sequence[tuple[str, str]]) -> Query:
    """Returns the query that the parameters of a URL ask.

    >>> parse_query([("task", "a"), ("task", "b"), ("sort", "-reward")]).chosen
    (('task', ('a', 'b')),)

    Raises:
        InvalidInputError: A parameter is not known, or its value does not do.
    """
    given: dict[str, list[str]] = {}
    for name, value in parameters:
        if name not in _KNOWN:
            raise errors.InvalidInputError(
                f"{name!r:.60} is no parameter of a list; expected some of "
                f"{', '.join(sorted(_KNOWN))}."
            )
        if value:
            given.setdefault(name, []).append(value)
    single = {name: values[-1] for name, values in given.items() if name not in FACETS}
    sort = single.get("sort", "-start_time")
    name = sort.removeprefix("-")
    name = _SYNONYMS.get(name, name)
    if name not in SORTS:
        raise errors.InvalidInputError(
            f"sort={sort!r:.60} is none that is known; expected one of {', '.join(SORTS)}, with a "
            "- before it for the other way round."
        )
    chosen = {n: tuple(sorted(set(given[n]))) for n in FACETS if n in given}
    if any(len(values) > _MOST_VALUES for values in chosen.values()):
        raise errors.InvalidInputError(f"A field takes {_MOST_VALUES} values at most.")
    return Query(
        chosen=tuple(chosen.items()),
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
        raise errors.InvalidInputError(f"{name}={given[name]!r:.60} is no number.")
    return value


def _whole(given: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = given.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 15 and least <= int(text) <= most):
        raise errors.InvalidInputError(
            f"{name}={text!r:.60} does not do; expected a whole number from {least} to {most}."
        )
    return int(text)
