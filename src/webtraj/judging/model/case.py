"""A case: what there is to judge of one episode, without the evidence itself.

A case says what can be asked; a question, one thing that is. Both are plain data and are stored
with the judgement, so that the way from replies to the outcome can be gone again without a model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

from webtraj.judging.model.settings import JudgeSettings

__all__ = ["Answered", "Case", "Question", "Vote", "spread"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What there is to judge of one episode."""

    settings: JudgeSettings
    """How it is judged."""
    pictures: tuple[int, ...] = ()
    """The indexes of the steps that have a picture, in order."""
    facts: tuple[str, ...] = ()
    """Each fact of the task, with what its group is about."""
    has_answer: bool = False
    """Whether the agent gave a final answer."""
    has_reference: bool = False
    """Whether the task has a reference answer."""

    def to_data(self) -> dict[str, Any]:
        """Returns the case as JSON data."""
        return {
            "settings": self.settings.to_data(),
            "pictures": list(self.pictures),
            "facts": list(self.facts),
            "has_answer": self.has_answer,
            "has_reference": self.has_reference,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Returns the case that `to_data` made data of.

        Raises:
            TypeError: It is not such data.
            KeyError: Likewise.
            InvalidInputError: Likewise.
        """
        return cls(
            settings=JudgeSettings.from_data(data["settings"]),
            pictures=tuple(map(int, data["pictures"])),
            facts=tuple(map(str, data["facts"])),
            has_answer=bool(data["has_answer"]),
            has_reference=bool(data["has_reference"]),
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One thing that is asked."""

    key: str
    """Its name within the case: `screenshot/3`, `blocked`, `answer`, `fact/0`, ..."""
    stage: str
    """The stage that it belongs to, as `Routing` names it."""
    prompt: str
    """The prompt that asks it."""
    pictures: tuple[int, ...]
    """The indexes of the steps whose pictures are shown."""
    votes: int = 1
    """How often it is asked."""
    criterion: int | None = None
    """Which fact it is about."""


@dataclasses.dataclass(frozen=True, slots=True)
class Vote:
    """What came of asking once, retries included."""

    verdict: str = ""
    """The word; empty if there is none."""
    reason: str = ""
    """Why, in the model's words; or why there is no verdict."""
    lost: bool = False
    """Whether the model gave no reply at all, so that there is no use in asking it more."""


@dataclasses.dataclass(frozen=True, slots=True)
class Answered:
    """A question with its votes."""

    question: Question
    votes: tuple[Vote, ...]

    @property
    def verdict(self) -> str:
        """The word that more than half of all votes say; empty if there is none.

        Votes without a verdict count against every word: a tie, or too few that can be relied on,
        decide nothing.
        """
        words = [vote.verdict for vote in self.votes]
        return next((word for word in words if word and 2 * words.count(word) > len(words)), "")

    @property
    def reason(self) -> str:
        """Why: the first vote's words that has won. Without a winner, what the votes were."""
        won = [vote.reason for vote in self.votes if vote.verdict == self.verdict]
        if self.verdict:
            return won[0]
        if not self.votes:
            return "It was not asked."
        if len(self.votes) == 1:
            return self.votes[0].reason
        said = ", ".join(vote.verdict or f"none ({vote.reason})" for vote in self.votes)
        return f"No verdict has more than half of the votes: {said}."


def spread(items: Sequence[int], most: int) -> tuple[int, ...]:
    """Returns at most so many items, evenly spread, the last always among them.

    >>> spread(range(10), 4), spread([1, 2], 4), spread(range(10), 1)
    ((0, 3, 6, 9), (1, 2), (9,))
    """
    if len(items) <= most:
        return tuple(items)
    if most == 1:
        return (items[-1],)
    last = len(items) - 1
    return tuple(items[position * last // (most - 1)] for position in range(most))
