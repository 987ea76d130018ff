"""Each phase as data: a command, the outputs that it promises, how it is gone on with.

What phases there are and when they run, `schedule` says; which command each is, `building`; how a
command is run, `running`.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path

from webtraj.loop.outputs import Output
from webtraj.loop.schedule import Slot

__all__ = ["Phase", "Policy", "seed_of"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Who plays."""

    version: int
    """The iteration that the weights come from; 0 for what the loop began with."""
    weights: str = ""
    """The model's folder or name; empty for an agent without a model."""
    model: str = ""
    """The model's name, as its server knows it; empty without a server."""
    urls: tuple[str, ...] = ()
    """Its servers, `/v1` included."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One phase of one iteration, ready to run."""

    slot: Slot
    """Which."""
    command: tuple[str, ...]
    """What is run."""
    going_on: tuple[str, ...] = ()
    """What is run instead where an earlier try can be gone on with."""
    goes_on_in: str = ""
    """A dataset: an earlier try has left something to go on with if it has a planned run."""
    outputs: tuple[Output, ...] = ()
    """What it must have made when it ends."""
    at_once: bool = False
    """Whether its outputs are there whole or not at all. Then those of a try whose end nobody saw
    are its outputs, and it is not run again."""
    links: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Links to make before it is run, and where each leads."""
    seed: int = 0
    """Its seed."""
    retries: int = 0
    """How often it is tried again."""

    @property
    def next_command(self) -> tuple[str, ...]:
        """What is to be run now: the command, or what goes on with an earlier try."""
        begun = bool(self.goes_on_in) and any(Path(self.goes_on_in).glob("runs/*/plan.jsonl"))
        return self.going_on if begun else self.command


def seed_of(seed: int, phase: str, iteration: int) -> int:
    """Returns a phase's seed, from 0 to 2**31 - 1. Evaluations all have the same.

    >>> seed_of(0, "rollout", 1) != seed_of(0, "rollout", 2)
    True
    >>> seed_of(0, "evaluate", 1) == seed_of(0, "evaluate", 2)
    True
    """
    number = 0 if phase == "evaluate" else iteration
    digest = hashlib.blake2b(f"{seed}\0{phase}\0{number}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1
