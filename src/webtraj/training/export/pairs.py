"""Pairs: two replies to the same prompt, of which one was worth more.

A pair is the sample of the better reply, which says in its metadata what the worse one was.
"""

from __future__ import annotations

import dataclasses

from webtraj.training.samples import Sample

__all__ = ["Rejected", "pair_of", "rejected_of"]

_NAME = "rejected"


@dataclasses.dataclass(frozen=True, slots=True)
class Rejected:
    """The worse reply of a pair."""

    completion: str
    sample: str
    """The name of the sample that it is of."""
    reward: float | None = None


def pair_of(chosen: Sample, rejected: Rejected) -> Sample:
    """Returns a pair."""
    return dataclasses.replace(chosen, metadata={**chosen.metadata, _NAME: rejected})


def rejected_of(sample: Sample) -> Rejected | None:
    """Returns the worse reply of a pair; None if the sample is none."""
    found = sample.metadata.get(_NAME)
    return found if isinstance(found, Rejected) else None
