"""What ended an episode that an error ended, in a word and in a sentence."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from webtraj.store.blobs import LazyBlob
from webtraj.trajectory import INFRASTRUCTURE_FAILURES, EndReason, Outcome

if TYPE_CHECKING:
    from webtraj.store.index import EpisodeSummary
    from webtraj.trajectory import EpisodeTrajectory

__all__ = ["BROKEN", "Fault", "fault_of", "is_fault"]

BROKEN = (*INFRASTRUCTURE_FAILURES, Outcome.AGENT_ERROR)
"""The outcomes that say that something broke."""

_LONGEST = 400


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """What went wrong."""

    kind: str
    """The error's type without its module, `BrowserCrashedError`; or how it ended, `crashed`."""
    message: str = ""
    """What was said, its first line, or the beginning of that."""


def is_fault(summary: EpisodeSummary) -> bool:
    """Returns whether something broke in an episode, as far as its summary tells."""
    return summary.outcome in BROKEN or summary.end_reason in (EndReason.ERRORED, EndReason.CRASHED)


def fault_of(trajectory: EpisodeTrajectory) -> Fault:
    """Returns what ended an episode in which something broke."""
    end = trajectory.end
    error = None if end is None else end.error
    if error is not None and error.type:
        return Fault(str(error.type).rpartition(".")[2], _first_line(error.message))
    if trajectory.outcome is Outcome.JUDGE_ERROR:
        judgements = () if end is None else end.judgements
        return Fault("judge_error", _first_line(judgements[-1].reason) if judgements else "")
    if trajectory.outcome in BROKEN:
        return Fault(trajectory.outcome.name.lower())
    return Fault(trajectory.end_reason.name.lower())


def _first_line(message: object) -> str:
    text = message.load() if isinstance(message, LazyBlob) else message
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return str(text).strip().partition("\n")[0][:_LONGEST]
