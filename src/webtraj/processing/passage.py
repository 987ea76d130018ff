"""What became of one recorded episode in a pipeline, as the ledger and its outputs keep it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

from webtraj.store import records
from webtraj.store.layout import check_episode_id

__all__ = ["Count", "Dropped", "Failure", "Passage"]


@dataclasses.dataclass(frozen=True, slots=True)
class Count:
    """What a step did to one episode, or to what earlier steps had made of it."""

    seen: int = 0
    """Trajectories that came to it."""
    changed: int = 0
    """Those of them that it changed, or said something of."""
    kept: int = 0
    """Trajectories that went on from it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Dropped:
    """One trajectory that a step dropped."""

    step: int
    """The step's place in the pipeline, from 0."""
    reason: str
    detail: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """What kept an episode from being processed. It is tried again by another run."""

    step: str
    """The name of the step; `read` or `write` where it was none."""
    type: str
    """The exception's class."""
    message: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """How an episode came through the steps."""

    outputs: tuple[str, ...] = ()
    """The ids of the episodes that were made of it; none if it was dropped."""
    counts: tuple[Count, ...] = ()
    """Of each step that it came to."""
    dropped: tuple[Dropped, ...] = ()
    signatures: Mapping[int, tuple[Any, ...]] = dataclasses.field(default_factory=dict)
    """Of what each `OrderedStep`, by its place, let in, in order: JSON data."""

    def to_data(self) -> dict[str, Any]:
        """Returns it as JSON data."""
        data: dict[str, Any] = {
            "outputs": list(self.outputs),
            "counts": [[count.seen, count.changed, count.kept] for count in self.counts],
        }
        if self.dropped:
            data["dropped"] = [dataclasses.asdict(one) for one in self.dropped]
        if self.signatures:
            data["signatures"] = {str(n): list(values) for n, values in self.signatures.items()}
        return data

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Return what `to_data` made data of.

        Raises:
            ValueError: It is not such data; the message names the field.
        """
        stored = records.read_object(_Stored, dict(data))
        return cls(
            outputs=tuple(map(check_episode_id, stored.outputs)),
            counts=tuple(map(_count_of, stored.counts)),
            dropped=stored.dropped,
            signatures={int(n): tuple(values) for n, values in stored.signatures.items()},
        )


@dataclasses.dataclass(frozen=True, slots=True)
class _Stored:
    outputs: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    dropped: tuple[Dropped, ...] = ()
    signatures: Mapping[str, tuple[object, ...]] = dataclasses.field(default_factory=dict)


def _count_of(numbers: tuple[int, ...]) -> Count:
    if len(numbers) != 3:
        raise records.WrongFieldError("counts", f"has {numbers!r:.60}; expected three numbers each")
    return Count(*numbers)
