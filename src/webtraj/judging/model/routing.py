"""Routing: which models are asked what."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from webtraj import errors
from webtraj.agents.models.base import ModelClient

__all__ = ["STAGES", "Routing"]

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
        """Returns the models that a stage asks, the first vote's first."""
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
        """Returns a routing as it is, and a client as the one for all stages."""
        return models if isinstance(models, Routing) else cls(models)
