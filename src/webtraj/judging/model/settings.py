"""How a model judge judges."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

from webtraj import errors

__all__ = ["JudgeSettings"]

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
        """Returns what verdicts depend on, as JSON data."""
        data = dataclasses.asdict(self)
        del data["timeout"], data["max_concurrency"]
        return data

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Returns settings that `to_data` made data of.

        Raises:
            TypeError: It is not such data.
            InvalidInputError: A value makes no sense.
        """
        return cls(**data)
