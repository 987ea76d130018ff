"""Verification: whether a dataset is what its writer meant it to be.

Checked are: that each episode's file is what its index line says, byte for byte; that its records
follow the format and the data model's rules; that every blob it names is there, whole and
unchanged; that the index and the files name the same episodes; and what waits for recovery.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from webtraj import errors, formats
from webtraj import trajectory as trajectory_lib
from webtraj.collectors.blobs import BlobStore
from webtraj.collectors.index import EpisodeSummary, read_index, read_index_file, summarize
from webtraj.collectors.journal import claim
from webtraj.collectors.layout import DatasetLayout, is_episode_id
from webtraj.datasets.episode_file import decode_episode
from webtraj.serialization import references
from webtraj.serialization.blobs import Blob

__all__ = ["Problem", "VerificationReport", "verify"]


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    where: str
    """The episode, or the file relative to the dataset."""
    what: str


@dataclasses.dataclass(frozen=True, slots=True)
class VerificationReport:
    """What `verify` found."""

    num_episodes: int
    num_steps: int
    num_blobs: int
    """Distinct blobs that episodes refer to."""
    problems: tuple[Problem, ...]
    being_written: tuple[str, ...]
    """Ids of episodes that a living writer is recording: no problem."""
    unreferenced_blobs: int
    """Blobs that no sealed episode refers to: no problem, open episodes may."""

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify(path: str | os.PathLike[str]) -> VerificationReport:
    """Checks a whole dataset. Reads every byte of it, and changes none.

    Raises:
        NotADatasetError: The folder holds no dataset.
        UnsupportedSchemaError: It was written by a newer webtraj.
    """
    layout = DatasetLayout(Path(path))
    layout.check()
    check = _Verification(layout)
    check.run()
    return check.report()


class _Verification:
    def __init__(self, layout: DatasetLayout) -> None:
        self._layout = layout
        self._store = BlobStore(layout.blobs)
        self._problems: list[Problem] = []
        self._being_written: list[str] = []
        self._blobs: dict[Blob, bool] = {}
        self._num_episodes = 0
        self._num_steps = 0

    def run(self) -> None:
        # The index first: an episode sealed meanwhile then has its file, whichever is listed.
        index = {summary.episode_id: summary for summary in read_index(self._layout.index)}
        stored = self._layout.sealed_episodes()
        self._check_names()
        self._check_index_lines()
        self._check_journals()
        for episode_id in sorted(index.keys() - stored.keys()):
            self._note(episode_id, "is in the index, but its file is missing")
        # A journal goes after the index line has come.
        unsealed = self._layout.open_episodes()
        indexed = {summary.episode_id for summary in read_index(self._layout.index)}
        for episode_id in sorted(stored):
            if episode_id not in indexed | unsealed:
                self._note(episode_id, "is not in the index; run `webtraj recover`")
            self._check_episode(episode_id, stored[episode_id], index.get(episode_id))

    def report(self) -> VerificationReport:
        files = {path.name for path in self._layout.blobs.glob("??/[!.]*")}
        known = {self._store.path(blob).name for blob, sound in self._blobs.items() if sound}
        return VerificationReport(
            num_episodes=self._num_episodes,
            num_steps=self._num_steps,
            num_blobs=len(self._blobs),
            problems=tuple(self._problems),
            being_written=tuple(self._being_written),
            unreferenced_blobs=len(files - known),
        )

    def _note(self, where: str, what: str) -> None:
        self._problems.append(Problem(where, what))

    def _check_names(self) -> None:
        layout = self._layout
        for path in sorted(layout.episodes.glob("[!.]*")):
            name = formats.split_name(path.name)
            if name is None or not is_episode_id(name[0]):
                self._note_foreign(path)
        for path in sorted(layout.journals.glob("[!.]*")):
            if path.suffix != ".jsonl" or not is_episode_id(path.stem):
                self._note_foreign(path)

    def _note_foreign(self, path: Path) -> None:
        name = path.relative_to(self._layout.root)
        self._note(str(name), "is no file that a collector writes; take it out")

    def _check_index_lines(self) -> None:
        for path in sorted(self._layout.index.glob("*.jsonl")):
            lines = path.read_bytes().count(b"\n")
            readable = sum(1 for _ in read_index_file(path))
            if readable < lines:
                self._note(f"index/{path.name}", f"{lines - readable} lines cannot be read")

    def _check_journals(self) -> None:
        for episode_id in sorted(self._layout.open_episodes()):
            path = self._layout.journal(episode_id)
            try:
                with claim(path) as claimed:
                    if claimed and path.exists():
                        self._note(episode_id, "was never sealed; run `webtraj recover`")
                    elif path.exists():
                        self._being_written.append(episode_id)
            except FileNotFoundError:
                continue  # Sealed in the meantime.

    def _check_episode(
        self, episode_id: str, format_name: str, summary: EpisodeSummary | None
    ) -> None:
        self._num_episodes += 1
        path = self._layout.episode(episode_id, format_name)
        content = path.read_bytes()
        if summary and summary.sha256 and hashlib.sha256(content).hexdigest() != summary.sha256:
            self._note(episode_id, "its file is not what the index says: changed or damaged")
        try:
            stored = formats.format_named(format_name).decode(content, str(path))
            found = summarize(stored.data, content, stored.blobs or self._store, format_name)
            if stored.blobs is None:
                for blob in references.blobs_of(stored.data):
                    self._check_blob(episode_id, blob)
            trajectory = decode_episode(stored.data, stored.blobs or self._store)
        except errors.WebtrajError as error:
            self._note(episode_id, f"cannot be read: {error}")
            return
        self._num_steps += trajectory.num_steps
        # Compared as written, since a total reward may be NaN, which equals nothing.
        if summary is not None and summary.to_line() != found.to_line():
            self._note(episode_id, "its index line does not agree with its file")
        for what in _broken_invariants(trajectory, episode_id):
            self._note(episode_id, what)

    def _check_blob(self, episode_id: str, blob: Blob) -> None:
        if blob not in self._blobs:
            try:
                self._blobs[blob] = len(self._store.read(blob)) == blob.size
            except errors.CorruptDataError as error:
                self._blobs[blob] = False
                self._note(episode_id, str(error))


def _broken_invariants(
    trajectory: trajectory_lib.EpisodeTrajectory, episode_id: str
) -> Iterator[str]:
    """Yields what in an episode cannot be, whatever its environment did."""
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
        yield "it goes on after LAST"
