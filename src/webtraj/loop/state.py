"""`state.jsonl`: a log of what a loop has done, one JSON object per line, synced at once.

::

    {"event": "loop", "version": 1, "webtraj": "0.2.0", "config": {...}, "time": ...}
    {"event": "begun", "iteration": 1, "phase": "rollout", "attempt": 1, "command": [...],
     "seed": 7, "policy": 0, "before": {"<path>": "<digest>"}, "time": ...}
    {"event": "ended", "iteration": 1, "phase": "rollout", "seconds": 8.1, "found": false,
     "outputs": {"<path>": "<digest>"}, "time": ...}
    {"event": "failed", "iteration": 1, "phase": "train", "status": 1, "seconds": 2.0, "time": ...}

A `loop` line is written each time that the loop is started or resumed. A phase that has `begun` but
not `ended` was interrupted or failed. `policy` is the version of the weights that played. `before`
lists the outputs that existed before, to distinguish new ones from old ones. `found` means that the
outputs were complete and only their line was missing. An incomplete last line is from a loop that
died while writing; it is removed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

import webtraj
from webtraj import errors
from webtraj.loop.configuration import LoopConfig, to_data
from webtraj.loop.phases import LoopObserver, Phase, Slot, digest
from webtraj.loop.places import Places
from webtraj.settings.configuration import flatten, without_secrets
from webtraj.settings.credentials import conceal
from webtraj.store import files, records
from webtraj.store.closeable import Closing
from webtraj.trajectory import Count

__all__ = ["Begun", "LoopState", "begin", "own"]

_VERSION = 1


@dataclasses.dataclass(frozen=True, slots=True)
class _Line:
    """The fields of a line that are read back."""

    event: str
    version: Count = 1
    config: Mapping[str, object] = dataclasses.field(default_factory=dict)
    iteration: Count = 0
    phase: str = ""
    policy: Count = 0
    before: Mapping[str, str] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0


_NEEDED = {
    "loop": ("version", "config"),
    "begun": ("iteration", "phase", "policy", "before"),
    "ended": ("iteration", "phase"),
    "failed": ("iteration", "phase"),
}


_FIELDS = tuple(field.name for field in dataclasses.fields(_Line))


@dataclasses.dataclass(frozen=True, slots=True)
class Begun:
    """Record of a started phase."""

    policy: int
    """Version of the weights that played."""
    before: Mapping[str, str]
    """Digests of the outputs that existed before its first try, by path."""
    attempts: int
    """Number of tries."""


class LoopState(Closing):
    """The state of a loop, for reading and appending. Only one process at a time may open it.

    Args:
        path: The file, which need not exist yet.

    Raises:
        CorruptDataError: A line other than the last is damaged.
        StorageError: The file cannot be read or written.
        UnsupportedSchemaError: The file was written by a newer webtraj.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._entries, whole = _read(path)
            files.make_folder(path.parent)
            new = not path.exists()
            self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o644)
            os.truncate(self._file, whole)
            if new:
                files.sync_folder(path.parent)
        except OSError as error:
            if isinstance(error, errors.WebtrajError):
                raise
            raise errors.StorageError(
                f"Cannot write the loop's state {str(path)!r}: {error}."
            ) from error

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    @property
    def empty(self) -> bool:
        """Whether no loop was started here."""
        return not self._entries

    @property
    def config(self) -> Mapping[str, Any] | None:
        """The loop's latest configuration, or None."""
        configs = [entry["config"] for entry in self._entries if entry["event"] == "loop"]
        return configs[-1] if configs else None

    @property
    def anything_ended(self) -> bool:
        """Whether any phase is done."""
        return any(entry["event"] == "ended" for entry in self._entries)

    def find_end(self, key: tuple[int, str]) -> Mapping[str, Any] | None:
        """Return the record of a done phase; None if it is not done."""
        return next((entry for entry in self._of(key) if entry["event"] == "ended"), None)

    def find_begun(self, key: tuple[int, str]) -> Begun | None:
        """Return the record of a started phase; None if it was not started."""
        tries = [entry for entry in self._of(key) if entry["event"] == "begun"]
        if not tries:
            return None
        return Begun(tries[-1]["policy"], tries[0]["before"], len(tries))

    def seconds(self, key: tuple[int, str]) -> float:
        """Return a phase's duration, including failed tries but not crashed ones."""
        return sum(float(entry.get("seconds", 0.0)) for entry in self._of(key))

    def add_loop(self, config: Mapping[str, Any]) -> None:
        """Record that the loop starts or resumes."""
        version = webtraj.__version__
        self._add({"event": "loop", "version": _VERSION, "webtraj": version, "config": config})

    def add_begun(self, phase: Phase, command: tuple[str, ...], policy: int) -> Begun:
        """Record that a phase starts, and return how."""
        earlier = self.find_begun(phase.slot.key)
        before = (
            {output.path: digest(output.path) for output in phase.outputs}
            if earlier is None
            else earlier.before
        )
        begun = Begun(policy, before, 1 if earlier is None else earlier.attempts + 1)
        self._add(
            {
                **_make_line("begun", phase.slot),
                "attempt": begun.attempts,
                "command": [conceal(one) for one in command],
                "seed": phase.seed,
                "policy": policy,
                "before": dict(before),
            }
        )
        return begun

    def add_ended(self, phase: Phase, seconds: float, *, found: bool = False) -> None:
        """Record that a phase is done."""
        outputs = {output.path: digest(output.path) for output in phase.outputs}
        self._add(
            {
                **_make_line("ended", phase.slot),
                "seconds": seconds,
                "found": found,
                "outputs": outputs,
            }
        )

    def add_failed(self, slot: Slot, status: int, seconds: float) -> None:
        """Record that a try at a phase failed."""
        self._add({**_make_line("failed", slot), "status": status, "seconds": seconds})

    def _of(self, key: tuple[int, str]) -> list[Mapping[str, Any]]:
        return [
            entry
            for entry in self._entries
            if entry["event"] != "loop" and (entry["iteration"], entry["phase"]) == key
        ]

    def _add(self, entry: dict[str, Any]) -> None:
        entry = {**entry, "time": time.time()}
        line = orjson.dumps(entry) + b"\n"
        try:
            files.write_all(self._file, line)
            os.fsync(self._file)
        except OSError as error:
            raise errors.StorageError(f"Cannot write the loop's state: {error}.") from error
        self._entries.append(entry)


def _read(path: Path) -> tuple[list[dict[str, Any]], int]:
    """Return the entries, and the length in bytes of all complete lines."""
    content = path.read_bytes() if path.exists() else b""
    whole = content.rfind(b"\n") + 1
    entries: list[dict[str, Any]] = []
    for number, line in enumerate(content[:whole].splitlines(), start=1):
        try:
            entry = orjson.loads(line)
            checked = records.read_object(_Line, entry)
            for name in _NEEDED.get(checked.event, ("iteration", "phase")):
                if entry.get(name) is None:
                    raise records.WrongFieldError(name, "is missing")
        except ValueError as error:
            raise errors.CorruptDataError(
                f"Line {number} of {str(path)!r} is damaged: {error}. Restore the file from a "
                "copy, or start another loop."
            ) from error
        if checked.version > _VERSION:
            raise errors.UnsupportedSchemaError(
                f"{str(path)!r} has version {checked.version}; this webtraj reads up to "
                f"{_VERSION}. Install a newer webtraj."
            )
        entries.append(
            {**entry, **{name: getattr(checked, name) for name in _FIELDS if name in entry}}
        )
    return entries, whole


def _make_line(event: str, slot: Slot) -> dict[str, Any]:
    return {"event": event, "iteration": slot.iteration, "phase": slot.name}


# Before a loop runs: lock its folder, and check that the state belongs to this loop.

_FIXED = ("seed", "first.policy", "first.iterations")
"""Keys that must not change once a phase is done."""


def own(stack: contextlib.ExitStack, places: Places) -> None:
    """Lock the loop's folder for this process."""
    try:
        files.make_folder(places.out)
        stack.enter_context(files.lock_file(places.lock("loop"), wait=False))
    except BlockingIOError as error:
        raise errors.InvalidInputError(
            f"Another loop is running in {str(places.out)!r}. Wait for its end, or use another out."
        ) from error
    except OSError as error:
        if isinstance(error, errors.WebtrajError):
            raise
        raise errors.StorageError(
            f"Cannot write to {str(places.out)!r}: {error}. Use another out."
        ) from error


def begin(config: LoopConfig, state: LoopState, *, resume: bool, observer: LoopObserver) -> None:
    """Check that the state belongs to this loop, and record that the loop starts or resumes."""
    if not state.empty and not resume:
        raise errors.InvalidInputError(
            f"A loop was already started in {config.out!r}. Resume it with --resume (resume=True), "
            "or use another out."
        )
    told = without_secrets(to_data(config))
    now, before = dict(flatten(told)), dict(flatten(state.config or {}))
    for key in {**now, **before} if before else ():
        value, was = now.get(key), before.get(key)
        if key == "out" or value == was:
            continue
        if key in _FIXED and state.anything_ended:
            raise errors.InvalidInputError(
                f"Cannot change {key} from {was} to {value}: finished phases of the loop in "
                f"{config.out!r} depend on it. Keep {key}={was}, or use another out."
            )
        observer.note(f"Changed {key} from {was} to {value}.")
    state.add_loop(told)
