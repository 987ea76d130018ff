"""`redact`: removes secrets from recorded episodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.environments.redacting_collector import redact_episode
from webtraj.processing.base import Changed
from webtraj.processing.steps import options
from webtraj.redaction import RedactionRules, Redactor

__all__ = ["Redact"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Redact(options.PlainStep):
    r"""Replaces secrets and matches of rules by `<secret:name>` everywhere in an episode.

    It searches the text of pages, actions, thoughts, prompts and replies, bytes that are text,
    names and keys, as `webtraj.redaction` does while recording. Pictures are not
    searched: their content is only known while the page is open. A model call with a match loses
    its token ids, log-probabilities and raw reply, which contain the secret too.

    >>> from webtraj.trajectory import EpisodeInfo
    >>> made = Redact(patterns="email")(
    ...     trajectory_lib.EpisodeTrajectory(EpisodeInfo(goal="Write to anna@example.org."))
    ... )
    >>> made.trajectories[0].info.goal, made.changes["redactions"]
    ('Write to <secret:email>.', {'email': 1})
    """

    name: str = dataclasses.field(default="redact", init=False)
    version: str = dataclasses.field(default="1", init=False)
    patterns: tuple[str, ...] = ()
    """Names of ready-made patterns (see `webtraj.redaction.rules`)."""
    regexes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Custom regexes by name."""
    secrets: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """Secret values by name. `settings` and records contain the names, never the values."""
    _rules: RedactionRules = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        options.read_words(self, "patterns")
        for option in ("regexes", "secrets"):
            if not isinstance(getattr(self, option), Mapping):
                raise errors.InvalidInputError(
                    f"{self.name}: {option} is not a mapping; expected values by name."
                )
        if not (self.patterns or self.regexes or self.secrets):
            raise errors.InvalidInputError(
                f"{self.name}: nothing to redact; give patterns, regexes or secrets."
            )
        options.put(self, _rules=RedactionRules(patterns=self.patterns, regexes=self.regexes))
        Redactor(self.secrets, rules=self._rules)  # Raises early if a name or value is wrong.

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings, without the values of secrets."""
        return {**options.settings_of(self), "secrets": sorted(self.secrets)}

    def __call__(
        self, trajectory: trajectory_lib.EpisodeTrajectory
    ) -> trajectory_lib.EpisodeTrajectory | Changed:
        """Return the episode with all matches replaced."""
        made, counts = redact_episode(trajectory, secrets=self.secrets, rules=self._rules)
        if not counts:
            return trajectory
        return Changed((made,), {"redactions": dict(sorted(counts.items()))})
