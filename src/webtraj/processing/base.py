"""Processing steps: small functions from one trajectory to zero or more.

A step is pure: its result depends only on the trajectory, the step's settings and the models it
asks. So a pipeline may run steps in any order, concurrently, and again after a crash.

A step returns one of:

* a trajectory, changed or not, which the next step gets;
* `Drop(reason)`: the trajectory is dropped, and the report counts the reason;
* `Changed(trajectories, changes)`: the next step gets each of them, and the changes are recorded.

A step that must compare trajectories (is this one a duplicate?) is an `OrderedStep`: the pipeline
asks it for signatures in any order, and then, in the dataset's order, whether to admit each
signature.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Mapping
from typing import Any, Protocol, runtime_checkable

from webtraj.trajectory import EpisodeTrajectory

__all__ = ["Changed", "Drop", "OrderedStep", "Result", "Step"]


@dataclasses.dataclass(frozen=True, slots=True)
class Drop:
    """A result that drops the trajectory."""

    reason: str
    """The reason, in a few words, the same for all trajectories dropped for it."""
    detail: str = ""
    """Details about this trajectory."""


@dataclasses.dataclass(frozen=True, slots=True)
class Changed:
    """A result with one or more trajectories and a record of the changes."""

    trajectories: tuple[EpisodeTrajectory, ...]
    """One or more. If several, each has an id that the step derived from the first one's."""
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The changes, as `Derivation.changes` stores them."""
    model: str = ""
    """The model that the step asked."""
    prompt_sha256: str = ""
    """The SHA-256 of the prompt's template."""


Result = EpisodeTrajectory | Drop | Changed


class _Named(Protocol):
    """What every step says of itself."""

    @property
    def name(self) -> str:
        """The name in reports, records and command lines: `drop-no-effect`."""

    @property
    def version(self) -> str:
        """The version; change it when the step's behaviour changes."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings, as plain data. No secrets."""


@runtime_checkable
class Step(_Named, Protocol):
    """One step of a pipeline. Concurrent tasks share one step."""

    def __call__(self, trajectory: EpisodeTrajectory) -> Result | Awaitable[Result]:
        """Process a trajectory.

        Raises:
            Exception: The step failed; the pipeline handles it.
        """


@runtime_checkable
class OrderedStep(_Named, Protocol):
    """A step whose result depends on the earlier trajectories."""

    def signature(self, trajectory: EpisodeTrajectory) -> Any:
        """Return small JSON data that determines the result."""

    def admit(self, signature: Any) -> Drop | None:
        """Return a Drop or remember the signature. Called in the dataset's order."""
