"""A case: what there is to judge of one episode, without the evidence itself.

A case says what can be asked; a question, one thing that is. Both are plain data and are stored
with the judgement, so that the way from replies to the outcome can be gone again without a model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

from webtraj import errors
from webtraj.agents.models.base import ModelClient

__all__ = ["Answered", "Case", "JudgeSettings", "Question", "Routing", "STAGES", "Vote", "spread"]

# How a model judge judges.

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
    """How a model judge judges. Part of its version, but for the last two."""

    max_screenshots: int = 20
    """Pictures that a criterion is judged by, at most. The last one is always among them."""
    select_above: int = 8
    """Of more pictures than this, the model is asked which ones matter; fewer are all shown."""
    check_blocked: bool = True
    """Whether it is asked if the site kept the agent from its task."""
    blocked_screenshots: int = 8
    """Pictures that this is judged by, at most, spread over the episode."""
    check_answer: bool = True
    """Whether all that the final answer claims must be seen."""
    stop_at_failure: bool = True
    """Whether the first criterion that fails ends the judging; else all are judged."""
    votes: int = 1
    """How often each criterion is judged; more than half must agree. At temperature 0 the votes of
    one model are much alike: give a temperature, or several models (`Routing`)."""
    retries: int = 2
    """How often a broken reply is asked for again."""
    halvings: int = 4
    """How often what is shown is halved (pictures, page text, steps) if it is too much for the
    model. Less and less is seen then, so more and more is unclear."""
    temperature: float | None = 0.0
    """None leaves it to the server, for models that take none."""
    max_tokens: int | None = 2048
    """Tokens of a reply. One that does not fit is broken, and asked for again."""
    structured: bool = True
    """Whether the server is asked to hold replies to the form of a verdict. One that refuses is
    asked without."""
    thoughts: bool = True
    """Whether the judge sees what the agent thought at each step."""
    page_characters: int = 20_000
    """Characters of page text, at most: of the last page if it has no picture; of all pages
    together if there are no pictures at all."""
    step_characters: int = 400
    """Characters of each thing that is said of a step, at most."""
    max_steps: int = 150
    """Steps that are listed. Of more, some in the middle are left out."""
    timeout: float | None = None
    """Seconds for each call, retries of the client's included; None leaves it to the client."""
    max_concurrency: int = 8
    """Calls under way at once for one episode. The client's own limit goes for all of them."""

    def __post_init__(self) -> None:
        for name, least in _AT_LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise errors.InvalidInputError(f"{name} is {value}; give {least} or more.")
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise errors.InvalidInputError(
                f"temperature is {self.temperature}; give 0 to 2, or None for the server's own."
            )
        if self.timeout is not None and not self.timeout > 0:
            raise errors.InvalidInputError(
                f"timeout is {self.timeout}; give seconds above 0, or None for the client's own."
            )

    def to_data(self) -> dict[str, Any]:
        """Return what verdicts depend on, as JSON data."""
        data = dataclasses.asdict(self)
        del data["timeout"], data["max_concurrency"]
        return data

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Return settings that `to_data` made data of.

        Raises:
            TypeError: It is not such data.
            InvalidInputError: A value makes no sense.
        """
        return cls(**data)


# Routing: which models are asked what.

STAGES = ("screenshots", "blocked", "answer", "facts", "goal", "reference")
"""What is asked about: which screenshots matter; whether the site blocked the agent; whether what
the answer claims was seen; each fact; the goal, where there are no facts; the reference answer."""

Clients = ModelClient | Sequence[ModelClient]


@dataclasses.dataclass(frozen=True, slots=True)
class Routing:
    """The models of each stage.

    >>> from webtraj.agents.models import OpenAICompatibleClient
    >>> small = OpenAICompatibleClient("small", "http://127.0.0.1:8000/v1")
    >>> large = OpenAICompatibleClient("large", "http://127.0.0.1:8001/v1")
    >>> Routing(large, {"screenshots": small, "blocked": small}).of("blocked")[0].name
    'openai/small'

    Raises:
        InvalidInputError: There is no such stage, or a stage has no model.
    """

    default: Clients
    """Asked where `stages` does not say. Of several, each gives its votes in turn."""
    stages: Mapping[str, Clients] = dataclasses.field(default_factory=dict)
    """The models of single stages, by the names in `STAGES`."""

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
        """Return the models that a stage asks, the first vote's first."""
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
        """Return a routing as it is, and a client as the one for all stages."""
        return models if isinstance(models, Routing) else cls(models)


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
        """Return the case that `to_data` made data of.

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
    """Return at most so many items, evenly spread, the last always among them.

    >>> spread(range(10), 4), spread([1, 2], 4), spread(range(10), 1)
    ((0, 3, 6, 9), (1, 2), (9,))
    """
    if len(items) <= most:
        return tuple(items)
    if most == 1:
        return (items[-1],)
    last = len(items) - 1
    return tuple(items[position * last // (most - 1)] for position in range(most))
