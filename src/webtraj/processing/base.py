"""What a processing step is: a small function from one trajectory to none, one or several.

A step is pure: what it gives depends on the trajectory, its settings and the models that it asks,
on nothing else. So a pipeline may run it in any order, many at once, and again after a death.

Three kinds of results, as a step likes to say it:

* a trajectory, the same or another: it goes on to the next step;
* `Drop(reason)`: it ends here, and the report counts the reason;
* `Changed(trajectories, changes)`: one or several go on, and what was changed is on record.

A step that cannot tell by one trajectory whether to keep it (are there others like it?) is an
`OrderedStep`: the pipeline asks it for a signature, in any order, and then, in the dataset's order,
whether a trajectory of that signature is let in after those before it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Mapping
from typing import Any, Protocol, runtime_checkable

from webtraj.trajectory import EpisodeTrajectory

__all__ = ["Changed", "Drop", "OrderedStep", "Result", "Step"]


@dataclasses.dataclass(frozen=True, slots=True)
class Drop:
    """The trajectory ends here."""

    reason: str
    """Why, in a few words that are the same for all that are dropped for it."""
    detail: str = ""
    """What there is to say of this one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Changed:
    """What was made of a trajectory."""

    trajectories: tuple[EpisodeTrajectory, ...]
    """One or more. If several, each has an id that the step made of the first one's."""
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What was changed, as `Derivation.changes` keeps it."""
    model: str = ""
    """The model that was asked."""
    prompt_sha256: str = ""
    """Of the prompt's text, before anything was filled in."""


Result = EpisodeTrajectory | Drop | Changed


@runtime_checkable
class Step(Protocol):
    """One step of a pipeline. Shared by tasks that run at the same time."""

    @property
    def name(self) -> str:
        """What reports, records and command lines call it: `drop-no-effect`."""

    @property
    def version(self) -> str:
        """Change with what the step does."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What it was told, as plain data. No secrets."""

    def __call__(self, trajectory: EpisodeTrajectory) -> Result | Awaitable[Result]:
        """Return what becomes of a trajectory.

        Raises:
            Exception: The step failed on it; the pipeline says what then.
        """


@runtime_checkable
class OrderedStep(Protocol):
    """A step whose answer depends on the trajectories before."""

    @property
    def name(self) -> str:
        """See `Step.name`."""

    @property
    def version(self) -> str:
        """See `Step.version`."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """See `Step.settings`."""

    def signature(self, trajectory: EpisodeTrajectory) -> Any:
        """Return what the answer depends on, small, as JSON data."""

    def admit(self, signature: Any) -> Drop | None:
        """Says, in the dataset's order, whether a trajectory is dropped; keeps in mind if not."""
