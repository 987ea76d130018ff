"""`redact`: takes secrets out of episodes that were recorded with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.environments.redaction import RedactionRules, Redactor
from webtraj.environments.redaction.recording import REDACTIONS, added
from webtraj.processing.base import Changed
from webtraj.processing.steps import options

__all__ = ["Redact"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Redact:
    r"""Replaces secrets and what rules describe by `<secret:name>`, everywhere in an episode.

    The text of pages, actions, thoughts, prompts and replies, bytes that are text, names and keys
    are searched, as `webtraj.environments.redaction` does while recording. Pictures are not: what
    they show is only known while the page is there. A model call in which something was found
    loses its token ids, log-probabilities and raw reply, which spell it too.

    >>> from webtraj.trajectory import EpisodeInfo
    >>> made = Redact(patterns="email")(
    ...     trajectory_lib.EpisodeTrajectory(EpisodeInfo(goal="Write to anna@example.org."))
    ... )
    >>> made.trajectories[0].info.goal, made.changes["redactions"]
    ('Write to <secret:email>.', {'email': 1})
    """

    name: str = dataclasses.field(default="redact", init=False)
    version: str = dataclasses.field(default="1", init=False)
    needs_model: ClassVar[bool] = False
    patterns: tuple[str, ...] = ()
    """Names of ready-made patterns (see `webtraj.environments.redaction.rules`)."""
    regexes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Own regexes by name."""
    secrets: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """Values by name. They are no part of `settings`, and never on record: the names are."""
    _rules: RedactionRules = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "patterns", options.words(self.name, "patterns", self.patterns))
        for option in ("regexes", "secrets"):
            if not isinstance(getattr(self, option), Mapping):
                raise errors.InvalidInputError(
                    f"{self.name}: {option} is no mapping; expected values by name."
                )
        if not (self.patterns or self.regexes or self.secrets):
            raise errors.InvalidInputError(
                f"{self.name}: there is nothing to redact; give patterns, regexes or secrets."
            )
        rules = RedactionRules(patterns=self.patterns, regexes=self.regexes)
        object.__setattr__(self, "_rules", rules)
        Redactor(self.secrets, rules=rules)  # Says now what is wrong with a name or a value.

    @property
    def settings(self) -> Mapping[str, Any]:
        """What it was told, without the secrets' values."""
        return {**options.settings_of(self), "secrets": sorted(self.secrets)}

    def __call__(
        self, trajectory: trajectory_lib.EpisodeTrajectory
    ) -> trajectory_lib.EpisodeTrajectory | Changed:
        """Return the episode without what was found in it."""
        redactor = Redactor(self.secrets, rules=self._rules)  # It counts, so each has its own.
        steps = tuple(redactor.redact(step) for step in trajectory.steps)
        end = redactor.redact(trajectory.end)
        info = redactor.redact(trajectory.info)
        counts = redactor.take_counts()
        if not counts:
            return trajectory
        metadata = {**info.metadata, REDACTIONS: added(info, counts)}
        info = dataclasses.replace(info, metadata=metadata)
        made = dataclasses.replace(trajectory, info=info, steps=steps, end=end)
        return Changed((made,), {"redactions": dict(sorted(counts.items()))})
