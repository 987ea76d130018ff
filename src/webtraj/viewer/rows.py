"""One episode of the list: what a row has, and how each of its fields is read."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

from webtraj.datasets.exporters.plain import unicode_text
from webtraj.store.index import EpisodeSummary
from webtraj.trajectory import EndReason, Outcome

__all__ = ["NUMBERS", "TEXTS", "WORDS", "Row", "reading", "searched"]

_GOAL_LENGTH = 500
# To ask an enum for its name costs more than all else of a row.
_OUTCOMES = {outcome: outcome.name.lower() for outcome in Outcome}
_END_REASONS = {reason: reason.name.lower() for reason in EndReason}


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One episode of the list."""

    dataset: str
    """Its dataset's name."""
    summary: EpisodeSummary
    iteration: int | None = None
    """The number of the iteration that its dataset is of, where that is known."""
    state: str = ""
    """Empty for a sealed episode; of an open one, `running` or `unsealed`."""
    label: str = ""
    """What a person says of it."""
    note: str = ""
    """What a person has noted with that."""

    @property
    def key(self) -> tuple[str, str]:
        """Names the episode among all datasets."""
        return self.dataset, self.summary.episode_id

    def to_data(self) -> dict[str, Any]:
        """Returns the row as JSON data."""
        summary, seconds = self.summary, _seconds(self)
        return {
            "id": summary.episode_id,
            "dataset": self.dataset,
            "task": unicode_text(summary.task),
            "goal": unicode_text(summary.goal[:_GOAL_LENGTH]),
            "site": unicode_text(summary.site),
            "outcome": _outcome(self),
            "end_reason": _end_reason(self),
            "reward": summary.total_reward if math.isfinite(summary.total_reward) else None,
            "steps": summary.num_steps,
            "seconds": None if math.isnan(seconds) else seconds,
            "policy": unicode_text(summary.policy),
            "policy_version": unicode_text(summary.policy_version),
            "iteration": self.iteration,
            "attempt": summary.attempt,
            "group": unicode_text(summary.group_id),
            "seed": summary.seed,
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


def _valid(text: str) -> str:
    return text if text.isascii() else unicode_text(text)


def reading(read: Callable[[Row], str]) -> Callable[[Iterable[Row]], list[str]]:
    """Returns what reads a text of many rows."""

    def read_all(rows: Iterable[Row]) -> list[str]:
        texts = list(map(read, rows))
        return texts if all(map(str.isascii, texts)) else list(map(_valid, texts))

    return read_all


WORDS: dict[str, Callable[[Row], str]] = {
    "dataset": lambda row: row.dataset,
    "task": lambda row: _valid(row.summary.task),
    "site": lambda row: _valid(row.summary.site),
    "outcome": _outcome,
    "end_reason": _end_reason,
    "policy": lambda row: _valid(row.summary.policy),
    "policy_version": lambda row: _valid(row.summary.policy_version),
    "label": lambda row: row.label,
}
"""Fields of few words, which rows are chosen and counted by."""
TEXTS: dict[str, Callable[[Row], str]] = {
    "goal": operator.attrgetter("summary.goal"),
    "group": operator.attrgetter("summary.group_id"),
    "id": operator.attrgetter("summary.episode_id"),
}
"""Fields that differ from row to row."""
NUMBERS: dict[str, Callable[[Row], float]] = {
    "start_time": lambda row: (
        math.nan if row.summary.start_time is None else row.summary.start_time
    ),
    "reward": lambda row: row.summary.total_reward,
    "steps": lambda row: row.summary.num_steps,
    "seconds": _seconds,
    "iteration": lambda row: math.nan if row.iteration is None else row.iteration,
    "attempt": lambda row: row.summary.attempt,
}
"""Fields that are numbers; NaN for what is not known."""


def searched(row: Row) -> str:
    """Returns what is looked through for words."""
    summary = row.summary
    who = summary.policy, summary.policy_version
    parts = (summary.episode_id, summary.task, summary.goal, *who, row.note)
    return "\n".join(parts).casefold()
