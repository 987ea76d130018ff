"""Verify that a dataset is complete and undamaged.

Checks that each episode file matches its index line byte for byte; that its records follow the
format and the rules of the data model; that every blob it names exists, whole and unchanged; that
the index and the files list the same episodes; and that the judgements beside them can be read.
Reports episodes that wait for recovery. A bucket is checked like a folder, reading several objects
at once.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.datasets.dataset import decode_episode
from webtraj.datasets.judgements import FOLDER as JUDGEMENTS
from webtraj.datasets.judgements import Judgements
from webtraj.datasets.place import DatasetPlace, Place, open_place
from webtraj.datasets.progress import count_items
from webtraj.store import layout
from webtraj.store.blobs import Blob, BlobSource, blob_key, blobs_of
from webtraj.store.formats import format_named
from webtraj.store.index import EpisodeSummary, IndexFile, merge, summarize
from webtraj.store.journal import claim
from webtraj.store.layout import BLOBS, EPISODES, INDEX, is_episode_id

__all__ = ["Problem", "VerificationReport", "verify"]


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """One problem found in a dataset."""

    where: str
    """The episode, or the file relative to the dataset."""
    what: str


@dataclasses.dataclass(frozen=True, slots=True)
class VerificationReport:
    """The result of `verify`."""

    num_episodes: int
    num_steps: int
    num_blobs: int
    """Distinct blobs that episodes refer to."""
    problems: tuple[Problem, ...]
    being_written: tuple[str, ...]
    """Ids of episodes being recorded now; not a problem."""
    unreferenced_blobs: int
    """Blobs that no sealed episode refers to; not a problem, since open episodes may."""

    @property
    def clean(self) -> bool:
        """Whether there are no problems."""
        return not self.problems


_WORKERS = 8


def verify(place: Place, *, storage_options: Mapping[str, Any] | None = None) -> VerificationReport:
    """Check a whole dataset. Reads every byte of it and changes nothing.

    Args:
        place: The dataset's folder or URL.
        storage_options: Bucket options; see `webtraj.store.bucket.BucketStorage`.

    Raises:
        NotADatasetError: There is no dataset at `place`.
        UnsupportedSchemaError: A newer webtraj wrote it.
        StorageError: The bucket cannot be read.
    """
    check = _Verification(open_place(place, storage_options))
    check.run()
    return check.report()


class _Verification:
    def __init__(self, place: DatasetPlace) -> None:
        self._place = place
        self._problems: list[Problem] = []
        self._being_written: list[str] = []
        self._blobs: dict[Blob, bool] = {}
        self._num_episodes = 0
        self._num_steps = 0

    def run(self) -> None:
        # Read the index first: an episode sealed meanwhile then already has its file.
        index_files = self._place.read_index()
        index = merge(index_files)
        stored = self._place.sealed_episodes()
        self._check_names()
        self._check_index_lines(index_files)
        self._check_journals()
        for episode_id in sorted(index.keys() - stored.keys()):
            self._note(episode_id, "is in the index, but its file is missing")
        # A writer removes the journal after it writes the index line.
        unsealed = self._place.open_episodes()
        indexed = merge(self._place.read_index()).keys()
        contents = self._contents(stored)
        for episode_id, content in count_items(
            contents, "Verifying episodes", len(stored), size=_size
        ):
            if episode_id not in indexed | unsealed:
                self._note(episode_id, "is not in the index; run `webtraj recover`")
            if content is not None:
                self._check_episode(episode_id, stored[episode_id], content, index.get(episode_id))
        self._check_judgements(stored)

    def report(self) -> VerificationReport:
        stored = {key.rpartition("/")[2] for key in self._keys(BLOBS)}
        known = {blob_key(blob, "")[3:] for blob, sound in self._blobs.items() if sound}
        return VerificationReport(
            num_episodes=self._num_episodes,
            num_steps=self._num_steps,
            num_blobs=len(self._blobs),
            problems=tuple(self._problems),
            being_written=tuple(self._being_written),
            unreferenced_blobs=len(stored - known),
        )

    def _note(self, where: str, what: str) -> None:
        self._problems.append(Problem(where, what))

    def _keys(self, prefix: str) -> Iterator[str]:
        return (entry.key for entry in self._place.storage.list(prefix))

    def _contents(self, stored: Mapping[str, str]) -> Iterator[tuple[str, bytes | None]]:
        """Yield each episode's file content, or None if it cannot be read."""
        names = sorted(stored)
        contents = self._place.attempt(
            lambda name: self._place.read_episode(name, stored[name]), names, workers=_WORKERS
        )
        for episode_id, content in zip(names, contents, strict=True):
            if isinstance(content, bytes):
                yield episode_id, content
            else:  # Such as one that was deleted meanwhile.
                self._note(episode_id, str(content))
                yield episode_id, None

    def _check_names(self) -> None:
        for key in self._keys(EPISODES):
            name = layout.split_name(key.removeprefix(EPISODES))
            if name is None or not is_episode_id(name[0]):
                self._note_foreign(key)
        if self._place.layout is None:
            return
        for path in sorted(self._place.layout.journals.glob("[!.]*")):
            if path.suffix != ".jsonl" or not is_episode_id(path.stem):
                self._note_foreign(str(path.relative_to(self._place.layout.root)))

    def _note_foreign(self, name: str) -> None:
        self._note(name, "was not written by a collector; remove it")

    def _check_index_lines(self, index_files: Mapping[str, IndexFile]) -> None:
        for name, file in index_files.items():
            if file.unreadable:
                self._note(f"{INDEX}{name}", f"{file.unreadable} lines cannot be read")

    def _check_journals(self) -> None:
        layout = self._place.layout
        for episode_id in sorted(self._place.open_episodes()) if layout else ():
            assert layout is not None
            path = layout.journal(episode_id)
            try:
                with claim(path) as claimed:
                    if claimed and path.exists():
                        self._note(episode_id, "was never sealed; run `webtraj recover`")
                    elif path.exists():
                        self._being_written.append(episode_id)
            except FileNotFoundError:
                continue  # Sealed in the meantime.

    def _check_episode(
        self, episode_id: str, format_name: str, content: bytes, summary: EpisodeSummary | None
    ) -> None:
        self._num_episodes += 1
        if summary and summary.sha256 and hashlib.sha256(content).hexdigest() != summary.sha256:
            self._note(episode_id, "its file does not match the index: changed or damaged")
        where = f"{EPISODES}{episode_id}.{format_name}"
        beside = self._place.blobs_of(episode_id)
        try:
            stored = format_named(format_name).decode(content, where)
            blobs: BlobSource = stored.blobs or beside
            if stored.blobs is None:
                wanted = blobs_of(stored.data)
                blobs = beside.read_ahead(stored.data)
                self._check_blobs(episode_id, wanted, blobs)
            found = summarize(stored.data, content, blobs, format_name)
            trajectory = decode_episode(stored.data, blobs, where=where, size=len(content))
        except errors.WebtrajError as error:
            if isinstance(error, errors.StorageError):
                raise  # An unreachable bucket says nothing about the data.
            self._note(episode_id, f"cannot be read: {error}")
            return
        self._num_steps += trajectory.num_steps
        # Compare the encoded lines: a total reward may be NaN, which equals nothing.
        if summary is not None and summary.to_line() != found.to_line():
            self._note(episode_id, "its index line does not match its file")
        for what in _broken_invariants(trajectory, episode_id):
            self._note(episode_id, what)

    def _check_judgements(self, stored: Mapping[str, str]) -> None:
        judgements = Judgements(self._place)
        judgements.refresh()
        for problem in judgements.problems:
            self._note(JUDGEMENTS, problem)
        for episode_id in sorted(judgements.episode_ids):
            if episode_id not in stored:
                self._note(JUDGEMENTS, f"judges the episode {episode_id!r}, which is not there")
            try:
                self._check_blobs(episode_id, judgements.blobs_of(episode_id), self._place.blobs)
                judgements.of(episode_id)
            except errors.DatasetError as error:
                self._note(episode_id, f"a judgement cannot be read: {error}")

    def _check_blobs(self, episode_id: str, wanted: Iterable[Blob], blobs: BlobSource) -> None:
        for blob in wanted:
            if blob in self._blobs:
                continue
            try:
                size = len(blobs.read(blob))
            except errors.CorruptDataError as error:
                self._blobs[blob] = False
                self._note(episode_id, str(error))
                continue
            self._blobs[blob] = size == blob.size
            if size != blob.size:
                self._note(episode_id, f"refers to {blob.sha256} as {blob.size} bytes, not {size}")


def _size(found: tuple[str, bytes | None]) -> int:
    return len(found[1] or b"")


def _broken_invariants(
    trajectory: trajectory_lib.EpisodeTrajectory, episode_id: str
) -> Iterator[str]:
    """Yield violations of the data model, except those that an environment can cause."""
    if trajectory.episode_id != episode_id:
        yield f"its file holds the episode {trajectory.episode_id!r}"
    if trajectory.end is None:
        yield "it has no end"
    elif trajectory.end.reason is trajectory_lib.EndReason.UNKNOWN:
        yield "its end has no known reason"
    elif not trajectory.end.recording_errors:
        indices = [step.index for step in trajectory.steps]
        if indices != list(range(len(indices))):
            yield f"its steps are numbered {indices}, not in order from 0"
    if any(step.last for step in trajectory.steps[:-1]):
        yield "it has steps after LAST"
