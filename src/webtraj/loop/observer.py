"""Who looks on while a loop runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from webtraj.loop.phases import Phase
from webtraj.loop.schedule import Slot

__all__ = ["LoopObserver", "NullLoopObserver"]


class LoopObserver(Protocol):
    """Is told what a loop does."""

    def loop_begins(self, total: int, done: int) -> None:
        """Called once: how many phases there are, and how many of them are done already."""

    def note(self, text: str) -> None:
        """Called with what else there is to know: changes, what is waited for."""

    def phase_began(self, phase: Phase, *, attempt: int, log: str) -> None:
        """Called when a phase's command is started."""

    def phase_said(self, slot: Slot, line: str) -> None:
        """Called with lines that it prints, not each of them."""

    def phase_ended(self, slot: Slot, seconds: float) -> None:
        """Called when a phase is done; one that was found done took 0 seconds."""

    def phase_failed(self, slot: Slot, why: str, *, pause: float) -> None:
        """Called when a phase failed and is tried again after a pause in seconds."""

    def measured(self, line: Mapping[str, Any]) -> None:
        """Called with a line of the metrics, when it is known or changed."""


class NullLoopObserver:
    """Does not look."""

    def loop_begins(self, total: int, done: int) -> None:
        """See `LoopObserver`."""

    def note(self, text: str) -> None:
        """See `LoopObserver`."""

    def phase_began(self, phase: Phase, *, attempt: int, log: str) -> None:
        """See `LoopObserver`."""

    def phase_said(self, slot: Slot, line: str) -> None:
        """See `LoopObserver`."""

    def phase_ended(self, slot: Slot, seconds: float) -> None:
        """See `LoopObserver`."""

    def phase_failed(self, slot: Slot, why: str, *, pause: float) -> None:
        """See `LoopObserver`."""

    def measured(self, line: Mapping[str, Any]) -> None:
        """See `LoopObserver`."""
