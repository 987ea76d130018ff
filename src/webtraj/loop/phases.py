"""The phases of a loop as data: a command, its promised outputs, what it waits for."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from webtraj import errors
from webtraj.loop.configuration import PHASES, LoopConfig

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

# Failures of a loop, other than invalid input.


class PhaseFailedError(errors.WebtrajError, RuntimeError):
    """A phase's command failed or did not make its outputs. The loop can be resumed."""


# Outputs that phases promise: whether they are complete, and a digest of their content.

_WHOLE = 4 << 20
"""Files up to this many bytes are digested completely."""
_ENDS = 1 << 20
"""Bytes to digest at each end of larger files."""


@dataclasses.dataclass(frozen=True, slots=True)
class Output:
    """A file or folder that a phase makes."""

    path: str
    """Path of the output."""
    kind: Literal["dataset", "kept", "export", "model", "any"] = "any"
    """Kind of output: a dataset with episodes, one of kept episodes that may be empty, an export, a
    model's folder, or anything."""

    @property
    def missing(self) -> str:
        """The problem with the phase, as the end of a sentence; empty if it is complete."""
        path = Path(self.path)
        if not path.exists() or (path.is_dir() and not any(path.iterdir())):
            return "is missing or empty"
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
            return f"is not a dataset ({error})"


def digest(path: str | os.PathLike[str]) -> str:
    """Return a digest of a file's or folder's content; empty if it does not exist.

    It covers the names, sizes and contents of all files. For files above 4 MiB, it covers only the
    first and the last MiB. For a dataset, it covers the index in full, and blobs and episodes by
    name only.
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


# The order of phases, and what each waits for.
#
# Without overlap there is one lane: each phase follows the previous one. With overlap, two lanes
# run at once, one playing and one training::
#
#     playing    evaluate 0 | rollout 1 | rollout 2        | evaluate 1 | rollout 3 ...
#     training                          | export 1, train 1             | export 2, train 2 ...
#
# So from the second iteration on, a rollout plays with weights that are one training older than
# without overlap: it waits for those of iteration k - 2. A larger `max_staleness` makes them that
# many trainings older.

Group = Literal["rollout", "update"]
"""Whether a phase plays and prepares the episodes, or makes a model of them."""

_UPDATE = ("export", "groups", "train", "publish")


@dataclasses.dataclass(frozen=True, slots=True)
class Slot:
    """A phase's place in the loop."""

    iteration: int
    """Number from 1; 0 before the first iteration."""
    name: str
    """Name of the phase."""
    group: Group
    """Group of the phase."""
    after: tuple[tuple[int, str], ...] = ()
    """Phases of the other lane that it waits for, by iteration and name."""

    @property
    def key(self) -> tuple[int, str]:
        """Unique key."""
        return self.iteration, self.name

    def __str__(self) -> str:
        return f"{self.name} of iteration {self.iteration}"


def lanes(config: LoopConfig, *, overlap: bool | None = None) -> tuple[tuple[Slot, ...], ...]:
    """Return the loop's phases, in one lane, or in two that run at once.

    Args:
        config: The loop's configuration.
        overlap: Whether to use two lanes; by default as configured.
    """
    if not (config.overlap.enabled if overlap is None else overlap):
        return (tuple(_turn_by_turn(config)),)
    return tuple(_slots_of_playing(config)), tuple(_slots_of_training(config))


def staleness(config: LoopConfig) -> int:
    """Return the maximum number of trainings that the playing weights are behind."""
    return config.overlap.max_staleness if config.overlap.enabled else 0


def _turn_by_turn(config: LoopConfig) -> Iterator[Slot]:
    if _is_evaluated(config, 0):
        yield Slot(0, "evaluate", "rollout")
    for number in range(1, config.iterations + 1):
        yield from _slots(config, number, "rollout")
        yield from _slots(config, number, "update")
        if _is_evaluated(config, number):
            yield Slot(number, "evaluate", "rollout")


def _slots_of_playing(config: LoopConfig) -> Iterator[Slot]:
    behind = config.overlap.max_staleness
    if _is_evaluated(config, 0):
        yield Slot(0, "evaluate", "rollout")
    for number in range(1, config.iterations + behind + 1):
        if number <= config.iterations:
            weights = number - 1 - behind
            after = ((weights, "publish"),) if weights > 0 else ()
            for slot in _slots(config, number, "rollout"):
                needs = after if slot.name == "rollout" else ()
                yield dataclasses.replace(slot, after=needs)
        trained = number - behind
        if trained > 0 and _is_evaluated(config, trained):
            yield Slot(trained, "evaluate", "rollout", ((trained, "publish"),))


def _slots_of_training(config: LoopConfig) -> Iterator[Slot]:
    for number in range(1, config.iterations + 1):
        slots = list(_slots(config, number, "update"))
        last = list(_slots(config, number, "rollout"))[-1]
        yield dataclasses.replace(slots[0], after=(last.key,))
        yield from slots[1:]


def _slots(config: LoopConfig, number: int, group: Group) -> Iterator[Slot]:
    """Yield an iteration's phases of one group, without the evaluation."""
    for name in PHASES[:-1]:
        if (name in _UPDATE) != (group == "update"):
            continue
        if _is_configured(config, name, number):
            yield Slot(number, name, group)
        for extra in config.extra:
            if extra.after == name and (extra.iterations == "every" or number == 1):
                yield Slot(number, extra.name, group)


def _is_configured(config: LoopConfig, name: str, number: int) -> bool:
    match name:
        case "export":
            return config.export is not None and config.algorithm(number) != "grpo"
        case "groups":
            return config.algorithm(number) != "sft"
        case "judge" | "postprocess":
            return getattr(config, name) is not None
        case _:
            return True


def _is_evaluated(config: LoopConfig, number: int) -> bool:
    evaluation = config.evaluation
    return evaluation is not None and (
        number % evaluation.every == 0 or number == config.iterations
    )


# Phases.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The policy that plays."""

    version: int
    """The iteration of the weights; 0 for the initial ones."""
    weights: str = ""
    """The model's folder or name; empty for an agent without a model."""
    model: str = ""
    """The model's name on its server; empty without a server."""
    urls: tuple[str, ...] = ()
    """URLs of its servers, `/v1` included."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One phase of one iteration, ready to run."""

    slot: Slot
    """Place in the loop."""
    command: tuple[str, ...]
    """Command to run."""
    going_on: tuple[str, ...] = ()
    """Command that resumes an earlier try."""
    goes_on_in: str = ""
    """Dataset of an earlier try, which is resumed if the dataset has a planned run."""
    outputs: tuple[Output, ...] = ()
    """Outputs that must exist when it ends."""
    at_once: bool = False
    """Whether its outputs appear only when complete. Then outputs left by an interrupted try count,
    and it is not run again."""
    links: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Links to make before it runs, with their targets."""
    seed: int = 0
    """Seed of the phase."""
    retries: int = 0
    """Retries after a failure."""

    @property
    def next_command(self) -> tuple[str, ...]:
        """The command to run now: the first one, or the one that resumes an earlier try."""
        begun = bool(self.goes_on_in) and any(Path(self.goes_on_in).glob("runs/*/plan.jsonl"))
        return self.going_on if begun else self.command


def seed_of(seed: int, phase: str, iteration: int) -> int:
    """Return a phase's seed, from 0 to 2**31 - 1. All evaluations share one.

    >>> seed_of(0, "rollout", 1) != seed_of(0, "rollout", 2)
    True
    >>> seed_of(0, "evaluate", 1) == seed_of(0, "evaluate", 2)
    True
    """
    number = 0 if phase == "evaluate" else iteration
    digest = hashlib.blake2b(f"{seed}\0{phase}\0{number}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1


# Observers of a running loop.


class LoopObserver(Protocol):
    """Receives a loop's events."""

    def loop_begins(self, total: int, done: int) -> None:
        """Called once, with the number of phases and of those already done."""

    def note(self, text: str) -> None:
        """Called with other information, such as changed settings or what the loop waits for."""

    def phase_began(self, phase: Phase, *, attempt: int, log: str) -> None:
        """Called when a phase's command starts."""

    def phase_said(self, slot: Slot, line: str) -> None:
        """Called with some of the lines that a phase prints."""

    def phase_ended(self, slot: Slot, seconds: float) -> None:
        """Called when a phase is done. A phase that was done already took 0 seconds."""

    def phase_failed(self, slot: Slot, why: str, *, pause: float) -> None:
        """Called when a phase failed and will be retried after a pause in seconds."""

    def measured(self, line: Mapping[str, Any]) -> None:
        """Called with a line of the metrics when it is new or changed."""


class NullLoopObserver:
    """Ignores all events."""

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
