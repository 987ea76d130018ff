"""Cases and questions: what to judge in one episode, without the evidence itself.

A case says what can be asked; a question is one thing to ask. Both are plain data stored with the
judgement, so the outcome can be recomputed from the replies without a model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

from webtraj import errors
from webtraj.agents.models.base import ModelClient

__all__ = ["Answered", "Case", "JudgeSettings", "Question", "Routing", "STAGES", "Vote", "spread"]

# Settings.

_AT_LEAST = {
    "max_screenshots": 1,
    "select_above": 0,
    "blocked_screenshots": 1,
    "votes": 1,
    "retries": 0,
    "halvings": 0,
    "max_tokens": 1,
    "max_concurrency": 1,
    "page_characters": 100,
    "step_characters": 20,
    "max_steps": 1,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """Settings of a model judge. All but the last two are part of its version."""

    max_screenshots: int = 20
    """The most pictures shown per criterion. The last picture is always shown."""
    select_above: int = 8
    """With more pictures than this, the model is asked which ones matter; otherwise all are
    shown."""
    check_blocked: bool = True
    """Whether to ask if the site blocked the agent."""
    blocked_screenshots: int = 8
    """The most pictures shown for that question, spread over the episode."""
    check_answer: bool = True
    """Whether the evidence must show everything that the final answer claims."""
    stop_at_failure: bool = True
    """Whether judging stops at the first criterion that fails."""
    votes: int = 1
    """Votes per criterion; more than half must agree. At temperature 0 one model's votes are nearly
    identical: set a temperature, or use several models (`Routing`)."""
    retries: int = 2
    """Retries after a broken reply."""
    halvings: int = 4
    """How many times the evidence (pictures, page text, steps) may be halved if it does not fit the
    model. The less is shown, the more is unclear."""
    temperature: float | None = 0.0
    """The sampling temperature; None uses the server's own, for models that do not take one."""
    max_tokens: int | None = 2048
    """The most tokens in a reply. A longer reply is broken and is retried."""
    structured: bool = True
    """Whether to request structured output. If the server refuses, the request is repeated without
    it."""
    thoughts: bool = True
    """Whether to show the agent's thoughts."""
    page_characters: int = 20_000
    """The most characters of page text: for the last page if it has no picture, or for all pages
    together if there are no pictures at all."""
    step_characters: int = 400
    """The most characters per detail of a step."""
    max_steps: int = 150
    """The most steps listed. With more, steps in the middle are left out."""
    timeout: float | None = None
    """Seconds per call, including the client's retries; None uses the client's own timeout."""
    max_concurrency: int = 8
    """The most concurrent calls per episode. The client's own limit applies to all episodes
    together."""

    def __post_init__(self) -> None:
        for name, least in _AT_LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise errors.InvalidInputError(f"{name} is {value}; expected at least {least}.")
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise errors.InvalidInputError(
                f"temperature is {self.temperature}; give 0 to 2, or None for the server's own."
            )
        if self.timeout is not None and not self.timeout > 0:
            raise errors.InvalidInputError(
                f"timeout is {self.timeout}; give seconds above 0, or None for the client's own."
            )

    def to_data(self) -> dict[str, Any]:
        """Return the settings that verdicts depend on, as JSON data."""
        data = dataclasses.asdict(self)
        del data["timeout"], data["max_concurrency"]
        return data

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Return settings from the result of `to_data`.

        Raises:
            TypeError: `data` is malformed.
            InvalidInputError: A value is out of range.
        """
        return cls(**data)


# Routing of questions to models.

STAGES = ("screenshots", "blocked", "answer", "facts", "goal", "reference")
"""The kinds of questions: which screenshots matter; whether the site blocked the agent; whether the
evidence shows what the answer claims; each fact; the goal, if there are no facts; the reference
answer."""

Clients = ModelClient | Sequence[ModelClient]


@dataclasses.dataclass(frozen=True, slots=True)
class Routing:
    """The models that each stage asks.

    >>> from webtraj.agents.models import OpenAICompatibleClient
    >>> small = OpenAICompatibleClient("small", "http://127.0.0.1:8000/v1")
    >>> large = OpenAICompatibleClient("large", "http://127.0.0.1:8001/v1")
    >>> Routing(large, {"screenshots": small, "blocked": small}).of("blocked")[0].name
    'openai/small'

    Raises:
        InvalidInputError: A stage is unknown or has no model.
    """

    default: Clients
    """The models for stages that `stages` does not name. With several, votes go to each in turn."""
    stages: Mapping[str, Clients] = dataclasses.field(default_factory=dict)
    """The models of individual stages, by the names in `STAGES`."""

    def __post_init__(self) -> None:
        unknown = sorted(set(self.stages) - set(STAGES))
        if unknown:
            raise errors.InvalidInputError(
                f"Routing names the stages {', '.join(map(repr, unknown))}; there are "
                f"{', '.join(STAGES)}."
            )
        for stage in STAGES:
            if not self.of(stage):
                raise errors.InvalidInputError(
                    f"The stage {stage!r} has no model; give a client, or several."
                )

    def of(self, stage: str) -> tuple[ModelClient, ...]:
        """Return the models that a stage asks, in the order of votes."""
        clients = self.stages.get(stage, self.default)
        return tuple(clients) if isinstance(clients, Sequence) else (clients,)

    @property
    def clients(self) -> tuple[ModelClient, ...]:
        """All models, each once."""
        return tuple({id(client): client for stage in STAGES for client in self.of(stage)}.values())

    @property
    def names(self) -> dict[str, list[str]]:
        """The names of the models, by stage."""
        return {stage: [client.name for client in self.of(stage)] for stage in STAGES}

    @classmethod
    def to(cls, models: ModelClient | Routing) -> Routing:
        """Return a routing unchanged; turn a client into a routing that uses it for all stages."""
        return models if isinstance(models, Routing) else cls(models)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What to judge in one episode."""

    settings: JudgeSettings
    """The judge's settings."""
    pictures: tuple[int, ...] = ()
    """The indexes of the steps with a picture, in order."""
    facts: tuple[str, ...] = ()
    """The facts of the task, each with its group's subject."""
    has_answer: bool = False
    """Whether the agent gave a final answer."""
    has_reference: bool = False
    """Whether the task has a reference answer."""

    def to_data(self) -> dict[str, Any]:
        """Return the case as JSON data."""
        return {
            "settings": self.settings.to_data(),
            "pictures": list(self.pictures),
            "facts": list(self.facts),
            "has_answer": self.has_answer,
            "has_reference": self.has_reference,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Return a case from the result of `to_data`.

        Raises:
            TypeError: `data` is malformed.
            KeyError: Same.
            InvalidInputError: Same.
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
    """One question to ask."""

    key: str
    """Its name within the case: `screenshot/3`, `blocked`, `answer`, `fact/0`, ..."""
    stage: str
    """Its stage, one of `STAGES`."""
    prompt: str
    """The name of its prompt."""
    pictures: tuple[int, ...]
    """The indexes of the steps whose pictures are shown."""
    votes: int = 1
    """The number of votes."""
    criterion: int | None = None
    """The index of the fact."""


@dataclasses.dataclass(frozen=True, slots=True)
class Vote:
    """The result of asking once, with retries."""

    verdict: str = ""
    """The verdict; empty if there is none."""
    reason: str = ""
    """The model's reasoning, or why there is no verdict."""
    lost: bool = False
    """Whether the model gave no reply at all, so asking it again is pointless."""


@dataclasses.dataclass(frozen=True, slots=True)
class Answered:
    """A question and its votes."""

    question: Question
    votes: tuple[Vote, ...]

    @property
    def verdict(self) -> str:
        """The verdict of more than half of all votes; empty if there is none.

        Votes without a verdict count against every verdict, so a tie or too few valid votes decide
        nothing.
        """
        words = [vote.verdict for vote in self.votes]
        return next((word for word in words if word and 2 * words.count(word) > len(words)), "")

    @property
    def reason(self) -> str:
        """The reasoning of the first winning vote; without a winner, the votes."""
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
    """Return at most `most` items, evenly spread and including the last.

    >>> spread(range(10), 4), spread([1, 2], 4), spread(range(10), 1)
    ((0, 3, 6, 9), (1, 2), (9,))
    """
    if len(items) <= most:
        return tuple(items)
    if most == 1:
        return (items[-1],)
    last = len(items) - 1
    return tuple(items[position * last // (most - 1)] for position in range(most))
