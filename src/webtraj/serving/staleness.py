"""How many updates of the weights a call is behind: on-policy learning bounds it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING

from webtraj import errors

if TYPE_CHECKING:
    from webtraj.trajectory import ModelCall

__all__ = ["Staleness", "VersionHistory"]

_SPAN = ".."  # See `webtraj.agents.models.weights.span`.


@dataclasses.dataclass(frozen=True, slots=True)
class Staleness:
    """How old the weights behind a call are."""

    version: str
    """The version, or the older one of two, if the weights changed during the call."""
    behind: int | None
    """How many updates came after it; None if the version is not known."""


class VersionHistory:
    """The versions of a policy's weights in the order in which they were made.

    >>> history = VersionHistory(["default", "round-1", "round-2"])
    >>> history.of("round-1")
    Staleness(version='round-1', behind=1)
    >>> history.of("round-1..round-2", trained="round-1").behind
    0
    >>> history.of("somebody else's").behind is None
    True

    Args:
        labels: What records call them, as `WeightUpdater.label` says; the oldest first.

    Raises:
        InvalidInputError: One stands there twice, is empty, or cannot be told from two.
    """

    def __init__(self, labels: Iterable[str] = ()) -> None:
        self._positions: dict[str, int] = {}
        for label in labels:
            self.add(label)

    @property
    def labels(self) -> tuple[str, ...]:
        """The versions, the oldest first."""
        return tuple(self._positions)

    def add(self, label: str) -> None:
        """Adds the version after all others.

        Raises:
            InvalidInputError: It is there already, is empty, or cannot be told from two.
        """
        if not label or _SPAN in label or label in self._positions:
            raise errors.InvalidInputError(
                f"{label!r} cannot be the next version of the weights; give one that is not empty, "
                f"has no {_SPAN!r}, and is none of those before."
            )
        self._positions[label] = len(self._positions)

    def of(self, call: ModelCall | str, *, trained: str | None = None) -> Staleness:
        """Returns how stale a call is.

        Args:
            call: The call, or its `policy_version`.
            trained: The version whose training it is used for; by default the newest one. A call
                of a newer one is behind by 0.

        Raises:
            InvalidInputError: `trained` is no version of this history.
        """
        if trained is not None and trained not in self._positions:
            raise errors.InvalidInputError(
                f"{trained!r:.100} is no version of the weights; there are "
                f"{', '.join(map(repr, self._positions)) or 'none'}."
            )
        now = len(self._positions) - 1 if trained is None else self._positions[trained]
        recorded = call if isinstance(call, str) else call.policy_version
        ends = recorded.split(_SPAN)
        positions = [self._positions.get(end) for end in ends]
        known = [position for position in positions if position is not None]
        if len(known) < len(ends):
            return Staleness(recorded, None)
        oldest = min(known)
        return Staleness(self.labels[oldest], max(0, now - oldest))

    def stalest(self, calls: Iterable[ModelCall], *, trained: str | None = None) -> int | None:
        """Returns how far behind the stalest of some calls is; None if that is not known of one."""
        behind = [self.of(call, trained=trained).behind for call in calls]
        known = [count for count in behind if count is not None]
        return max(known, default=0) if len(known) == len(behind) else None
