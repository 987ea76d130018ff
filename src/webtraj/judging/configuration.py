"""The settings of `webtraj judge run`, which are also the keys of a loop's phase."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from webtraj import errors
from webtraj.judging.base import PARALLEL
from webtraj.runs.spec import When
from webtraj.settings.configuration import Section

__all__ = ["JudgeConfig"]


class JudgeConfig(Section):
    """Settings for judging a dataset."""

    judges: list[str] = Field(default_factory=list)
    """The judges: environment, rules, rules:FILE or model. Of several, the first one that reaches a
    verdict decides. Default: model if a model is given."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the judge: model, base_url, votes, ..."""
    when: When = "unknown"
    """Episodes to judge: those whose outcome is `unknown`, or `always`: all that ended by
    themselves."""
    where: str | None = None
    """Condition that selects the episodes."""
    parallel: Annotated[int, Field(ge=1)] = PARALLEL
    """Episodes to judge at a time."""

    def names(self) -> list[str]:
        """Return the judges, by default the model.

        Raises:
            InvalidInputError: There is none.
        """
        if self.judges:
            return self.judges
        if "model" in self.options:
            return ["model"]
        raise errors.InvalidInputError(
            "No judge given. Give --judge rules:FILE, --judge model --model NAME, or another; in a "
            "file, judges and options.model."
        )
