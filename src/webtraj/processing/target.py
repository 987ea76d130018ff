"""The dataset that a pipeline writes: its owner, its existing outputs, and new ones.

A processed dataset belongs to one pipeline, which `processing/pipeline.json` names. Other pipelines
are refused, and so is a destination inside the recorded dataset, or the reverse.

In a folder, a second concurrent run is refused (flock). In a bucket, which has no locks, both runs
do the work and the first write counts: each run accepts an existing output that the same pipeline
made from the same file.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from webtraj import errors
from webtraj.datasets.dataset import decode_episode
from webtraj.datasets.place import DatasetPlace, Place, map_in_order
from webtraj.datasets.writer import DatasetWriter
from webtraj.processing.ledger import PROCESSING, Passage
from webtraj.store import records
from webtraj.store.files import lock_file
from webtraj.store.layout import episode_key
from webtraj.store.places import is_url
from webtraj.store.stores import parse_url
from webtraj.trajectory import Derivation, EpisodeTrajectory

__all__ = ["HEAD_STEP", "Identity", "Target", "check_apart"]

HEAD_STEP = "pipeline"
"""The step name at the head of each chain of derivations; it records the pipeline."""

_PIPELINE = f"{PROCESSING}pipeline.json"
_LOCK = ".lock"
_WORKERS = 16


@dataclasses.dataclass(frozen=True, slots=True)
class Identity:
    """A pipeline's identity: its steps, with their versions and settings."""

    hash: str
    """The hash of the steps: 16 hex digits."""
    steps: tuple[Mapping[str, Any], ...]
    """Name, version and settings of each step."""

    def __str__(self) -> str:
        return ", ".join(map(_describe, self.steps)) or "no steps"

    def to_bytes(self) -> bytes:
        """Return the content of pipeline.json."""
        data = {"hash": self.hash, "steps": list(self.steps)}
        return orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> Identity:
        """Read the content of a pipeline.json. `where` names the file in errors.

        Raises:
            CorruptDataError: The content cannot be read.
        """
        stored = records.read_line(_StoredIdentity, content, repr(where), _REMEDY)
        for number, step in enumerate(stored.steps):
            if (
                not isinstance(step.get("settings"), Mapping)
                or not {"name", "version"} <= step.keys()
            ):
                raise errors.CorruptDataError(
                    f"{where!r} cannot be read: steps[{number}] is {step!r:.100}; expected a name, "
                    f"a version and settings. {_REMEDY}"
                )
        return cls(stored.hash, stored.steps)


_REMEDY = "It was changed or damaged after it was written. Choose a new destination."


@dataclasses.dataclass(frozen=True, slots=True)
class _StoredIdentity:
    hash: str
    steps: tuple[Mapping[str, object], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _Found:
    """An output that is in the dataset but not in a ledger."""

    episode_id: str
    sha256: str
    """The SHA-256 of the recorded episode's file."""
    passage: Passage


class Target:
    """The processed dataset during a run. Safe to share between threads.

    Args:
        writer: The dataset.
        identity: The pipeline.
    """

    def __init__(self, writer: DatasetWriter, identity: Identity) -> None:
        self._writer = writer
        self._place: DatasetPlace = writer.place
        self._identity = identity
        self._found: dict[str, list[_Found]] = {}

    @property
    def place(self) -> DatasetPlace:
        """The dataset's place."""
        return self._place

    @contextlib.contextmanager
    def claim(self) -> Iterator[None]:
        """Lock the dataset against other runs and other pipelines.

        Raises:
            InvalidInputError: It belongs to another pipeline, holds episodes that no pipeline made,
                or another run is writing to it.
            StorageError: It cannot be read or written.
        """
        with _lock(self._place):
            self._claim()
            yield

    def find_outputs(self, listed: Iterable[str]) -> None:
        """Find outputs missing from the ledger: those of a killed or concurrent run.

        Args:
            listed: The ids of the outputs in the ledger.

        Raises:
            StorageError: The dataset cannot be read.
        """
        stored = self._place.sealed_episodes()
        for episode_id in listed:
            stored.pop(episode_id, None)
        found: dict[str, list[_Found]] = collections.defaultdict(list)
        for head, output in map_in_order(self._look_at, sorted(stored), workers=_WORKERS):
            if output is not None:
                found[head].append(output)
        self._found = dict(found)

    def outputs_of(self, source: str, sha256: str) -> Passage | None:
        """Return an episode's passage if all of its outputs were found; None otherwise."""
        there = [one for one in self._found.get(source, ()) if one.sha256 == sha256]
        for one in there:
            if set(one.passage.outputs) <= {other.episode_id for other in there}:
                return one.passage
        return None

    def add(self, trajectory: EpisodeTrajectory) -> None:
        """Add an output, unless the same one already exists.

        Raises:
            StorageConflictError: A different episode has that id.
            InvalidInputError: The episode has no end, or its id is not a valid file name.
            StorageError: It cannot be written.
        """
        try:
            self._writer.add(trajectory)
        except errors.StorageConflictError:
            head = next(d for d in reversed(trajectory.info.derivation) if d.step == HEAD_STEP)
            source, there = self._look_at(trajectory.episode_id)
            if there is None or (source, there.sha256) != (
                head.source_episode_id,
                head.source_sha256,
            ):
                raise

    def flush(self) -> None:
        """Wait until all outputs are in the index."""
        self._writer.flush()

    def _claim(self) -> None:
        storage = self._place.storage
        where = f"{self._place.url}/{_PIPELINE}"
        try:
            found = storage.read(_PIPELINE)
        except errors.StorageMissingError:
            if self._place.read_index() or self._place.sealed_episodes():
                raise errors.InvalidInputError(
                    f"{self._place.url!r} holds episodes that no pipeline made; choose a new "
                    "destination for the processed dataset, or one that this pipeline began."
                ) from None
            with contextlib.suppress(errors.StorageConflictError):  # Another run was faster.
                storage.write(_PIPELINE, self._identity.to_bytes(), overwrite=False)
            found = storage.read(_PIPELINE)
        theirs = Identity.from_bytes(found, where)
        if theirs.hash != self._identity.hash:
            raise errors.InvalidInputError(
                f"{self._place.url!r} belongs to another pipeline ({theirs.hash}: {theirs}) than "
                f"this one ({self._identity.hash}: {self._identity}). Choose another destination, "
                "remove this one, or run that pipeline."
            )

    def _look_at(self, episode_id: str) -> tuple[str, _Found | None]:
        """Return an output's source and how it was made; add its index line if missing."""
        name = self._writer.format.name
        try:
            content = self._place.storage.read(episode_key(episode_id, name))
            stored = self._writer.format.decode(content, f"{self._place.url}: {episode_id}")
            blobs = stored.blobs or self._place.blobs_of(episode_id)
            info = {**stored.data, "steps": [], "end": None}
            head = self._head(decode_episode(info, blobs).info.derivation)
            if head is None:
                return "", None
            passage = Passage.from_data(head.changes["passage"])
            self._writer.add_file(stored.data, content, blobs)
        except (errors.StorageMissingError, errors.DatasetError, ValueError, KeyError):
            return "", None  # Not ours; `verify` reports what is wrong with it.
        return head.source_episode_id, _Found(episode_id, head.source_sha256, passage)

    def _head(self, chain: tuple[Derivation, ...]) -> Derivation | None:
        heads = [one for one in chain if one.step == HEAD_STEP]
        ours = bool(heads) and heads[-1].settings.get("hash") == self._identity.hash
        return heads[-1] if ours else None


def check_apart(read: Place, write: Place) -> None:
    """Check that neither of the two places contains the other.

    Raises:
        InvalidInputError: One does, or they are the same.
    """
    one, other = f"{_whole_name(read)}/", f"{_whole_name(write)}/"
    if one.startswith(other) or other.startswith(one):
        raise errors.InvalidInputError(
            f"Cannot read {os.fspath(read)!r:.200} and write {os.fspath(write)!r:.200}: one lies "
            "in the other. The recorded dataset is never changed; write to a place "
            "apart from it."
        )


def _whole_name(place: Place) -> str:
    """Return a canonical name of a place."""
    if not is_url(place):
        return str(Path(place).resolve()).rstrip("/")
    parsed = parse_url(os.fspath(place))
    if parsed.kind == "file":
        return str(Path(parsed.path).resolve()).rstrip("/")
    return f"{parsed.kind}://{parsed.bucket}/{parsed.path}".rstrip("/")


def _describe(step: Mapping[str, Any]) -> str:
    settings = ", ".join(f"{key}={value!r:.60}" for key, value in step["settings"].items())
    return f"{step['name']} {step['version']}" + (f" ({settings})" if settings else "")


@contextlib.contextmanager
def _lock(place: DatasetPlace) -> Iterator[None]:
    if place.layout is None:
        yield
        return
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(lock_file(Path(place.layout.root, PROCESSING, _LOCK), wait=False))
        except BlockingIOError:
            raise errors.InvalidInputError(
                f"Another run is writing to {place.url!r}; wait for it, or stop it."
            ) from None
        yield
