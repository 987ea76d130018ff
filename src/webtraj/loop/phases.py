"""Each phase of a loop as data: a command, the outputs that it promises, what it waits for."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from webtraj import errors
from webtraj.loop.configuration import PHASES, ExtraConfig, LoopConfig

__all__ = [
    "Group",
    "LoopObserver",
    "NullLoopObserver",
    "Output",
    "Phase",
    "PhaseFailedError",
    "Policy",
    "Slot",
    "digest",
    "lanes",
    "seed_of",
    "staleness",
]

# What can go wrong in a loop, other than its input.


class PhaseFailedError(errors.WebtrajError, RuntimeError):
    """A phase's command failed, or did not make what it promises; the loop can be gone on with."""


# What phases promise to make: whether it is there and whole, and a digest to know it by.

_WHOLE = 4 << 20
"""Files of so many bytes are read whole,"""
_ENDS = 1 << 20
"""and of larger ones so much of the beginning and of the end."""


@dataclasses.dataclass(frozen=True, slots=True)
class Output:
    """A file or folder that a phase makes."""

    path: str
    """Where."""
    kind: Literal["dataset", "kept", "export", "model", "any"] = "any"
    """What it is: a dataset with episodes, one of what was kept of others, which may be nothing, an
    export, a model's folder, or anything."""

    @property
    def missing(self) -> str:
        """What is wrong with it, as the end of a sentence; empty if it is whole."""
        path = Path(self.path)
        if not path.exists() or (path.is_dir() and not any(path.iterdir())):
            return "is not there, or empty"
        if self.kind == "export":
            from webtraj.datasets.exporters.base import MANIFEST, is_manifest

            return "" if is_manifest(path / MANIFEST) else f"has no {MANIFEST}"
        if self.kind == "model":
            if not (path / "config.json").is_file():
                return "has no config.json"
            return "" if any(path.glob("*.safetensors")) else "has no *.safetensors"
        return self._dataset_missing() if self.kind in ("dataset", "kept") else ""

    def _dataset_missing(self) -> str:
        from webtraj.datasets.dataset import open_dataset

        try:
            found = len(open_dataset(self.path).summaries)
            return "" if found or self.kind == "kept" else "has no episodes"
        except errors.DatasetError as error:
            return f"is no dataset ({error})"


def digest(path: str | os.PathLike[str]) -> str:
    """Returns what a file's or folder's content is known by; empty if there is nothing.

    The names and sizes of all files are in it, and their content: of files above 4 MiB the first
    and the last MiB, and none of a dataset's blobs and episodes, which names and index tell.
    """
    top = Path(path)
    total = hashlib.sha256()
    if top.is_file():
        _add(total, top, "")
    elif top.is_dir():
        for file in sorted(_files(top)):
            _add(total, file, file.relative_to(top).as_posix())
    else:
        return ""
    return total.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "locks"]
        for name in names:
            file = Path(parent) / name
            if file.is_file() and not name.endswith((".tmp", ".lock")):
                yield file


def _add(total: hashlib._Hash, file: Path, name: str) -> None:
    size = file.stat().st_size
    total.update(f"{name}\0{size}\0".encode())
    if name.startswith(("blobs/", "episodes/")):
        return
    with file.open("rb") as opened:
        if size <= _WHOLE:
            total.update(opened.read())
        else:
            total.update(opened.read(_ENDS))
            opened.seek(-_ENDS, os.SEEK_END)
            total.update(opened.read())


# Which phases a loop has, in which order, and what each waits for.
#
# Turn by turn, there is one lane: each phase comes after the one before it. With overlap there are
# two, which run at once: one plays, the other trains::
#
#     playing    evaluate 0 | rollout 1 | rollout 2        | evaluate 1 | rollout 3 ...
#     training                          | export 1, train 1             | export 2, train 2 ...
#
# So from the second iteration on, a rollout is played with weights that are one training older than
# turn by turn: it needs those of iteration k - 2, and waits for them. With a `max_staleness` above
# 1 they are as many trainings older.

Group = Literal["rollout", "update"]
"""Whether a phase plays and prepares what was played, or makes a model of it."""

_UPDATE = ("export", "train", "publish")


@dataclasses.dataclass(frozen=True, slots=True)
class Slot:
    """A phase's place in the loop."""

    iteration: int
    """From 1; 0 before the first."""
    name: str
    """The phase's."""
    group: Group
    """Which kind of work it is."""
    after: tuple[tuple[int, str], ...] = ()
    """Phases of the other lane that it waits for, each by iteration and name."""

    @property
    def key(self) -> tuple[int, str]:
        """What tells it from all others."""
        return self.iteration, self.name

    def __str__(self) -> str:
        return f"{self.name} of iteration {self.iteration}"


def lanes(config: LoopConfig, *, overlap: bool | None = None) -> tuple[tuple[Slot, ...], ...]:
    """Returns the loop's phases: one lane, or two that run at once.

    Args:
        config: The loop's configuration.
        overlap: Whether there are two; by default as configured.
    """
    if not (config.overlap.enabled if overlap is None else overlap):
        return (tuple(_turn_by_turn(config)),)
    return tuple(_playing(config)), tuple(_training(config))


def staleness(config: LoopConfig) -> int:
    """Returns how many trainings behind the weights that play are, at most."""
    return config.overlap.max_staleness if config.overlap.enabled else 0


def _turn_by_turn(config: LoopConfig) -> Iterator[Slot]:
    if _evaluated(config, 0):
        yield Slot(0, "evaluate", "rollout")
    for number in range(1, config.iterations + 1):
        yield from _slots(config, number, "rollout")
        yield from _slots(config, number, "update")
        if _evaluated(config, number):
            yield Slot(number, "evaluate", "rollout")


def _playing(config: LoopConfig) -> Iterator[Slot]:
    behind = config.overlap.max_staleness
    if _evaluated(config, 0):
        yield Slot(0, "evaluate", "rollout")
    for number in range(1, config.iterations + behind + 1):
        if number <= config.iterations:
            weights = number - 1 - behind
            after = ((weights, "publish"),) if weights > 0 else ()
            for slot in _slots(config, number, "rollout"):
                needs = after if slot.name == "rollout" else ()
                yield dataclasses.replace(slot, after=needs)
        trained = number - behind
        if trained > 0 and _evaluated(config, trained):
            yield Slot(trained, "evaluate", "rollout", ((trained, "publish"),))


def _training(config: LoopConfig) -> Iterator[Slot]:
    for number in range(1, config.iterations + 1):
        slots = list(_slots(config, number, "update"))
        last = list(_slots(config, number, "rollout"))[-1]
        yield dataclasses.replace(slots[0], after=(last.key,))
        yield from slots[1:]


def _slots(config: LoopConfig, number: int, group: Group) -> Iterator[Slot]:
    """Yields the phases of an iteration that play, or those that train; without the evaluation."""
    for name in PHASES[:-1]:
        if _group(name) != group:
            continue
        if name not in ("judge", "postprocess", "export") or getattr(config, name) is not None:
            yield Slot(number, name, group)
        for extra in config.extra:
            if extra.after == name and _wanted(extra, number):
                yield Slot(number, extra.name, group)


def _group(name: str) -> Group:
    return "update" if name in _UPDATE else "rollout"


def _wanted(extra: ExtraConfig, number: int) -> bool:
    return extra.iterations == "every" or number == 1


def _evaluated(config: LoopConfig, number: int) -> bool:
    evaluation = config.evaluation
    return evaluation is not None and (
        number % evaluation.every == 0 or number == config.iterations
    )


# Phases.


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


# Who looks on while a loop runs.


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
