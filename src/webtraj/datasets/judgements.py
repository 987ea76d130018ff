"""Judgements of episodes, stored beside the dataset; reading an episode adds them to its end.

::

    <dataset>/judgements/<writer>.jsonl

has a line for each judgement (`webtraj.datasets.sidecar`)::

    {"episode_id": "...", "time": 1795000000.5, "judgement": {"judge": "rules", ...},
     "crc32": "..."}

An episode's judgements are those in its file, then those beside it in the order of their times. Its
outcome is that of the last one that is not UNKNOWN. Long texts and pictures of a judge's model
calls are blobs of the dataset.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import orjson

from webtraj import errors
from webtraj.datasets.place import DatasetPlace
from webtraj.datasets.sidecar import Sidecar, check_line, seal_line
from webtraj.redaction.parts import Stripper
from webtraj.store import encoding, records
from webtraj.store.blobs import Blob, BlobSource, blobs_of
from webtraj.store.closeable import Closing
from webtraj.store.decoding import Budget
from webtraj.store.index import EpisodeSummary
from webtraj.store.layout import check_episode_id
from webtraj.trajectory import EpisodeTrajectory, Judgement, Outcome, Timestamp, is_scored

__all__ = ["FOLDER", "Judgements"]

_logger = logging.getLogger(__name__)

FOLDER = "judgements"
"""The folder beside the episodes."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Facts:
    """A judgement without its evidence."""

    judge: str
    version: str = ""
    outcome: Outcome = Outcome.UNKNOWN
    reward: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class _Line:
    episode_id: str
    judgement: _Facts
    time: Timestamp = 0.0


class Judgements(Closing):
    """The judgements beside one dataset, including those of other processes. Safe to share.

    Attributes:
        problems: A message for each complete line that is not a judgement.
    """

    def __init__(self, place: DatasetPlace, *, clock: Callable[[], float] = time.time) -> None:
        self._place = place
        self._clock = clock
        self._lines = Sidecar(place, FOLDER)
        self._of: dict[str, list[tuple[_Line, bytes]]] = {}
        self._lock = threading.RLock()
        self.problems: list[str] = []

    def refresh(self) -> frozenset[str]:
        """Read the judgements added since the last call, and return the ids of their episodes.

        Raises:
            StorageError: They cannot be read.
        """
        with self._lock:
            new = {
                line.episode_id
                for key, content in self._lines.new_lines()
                if (line := self._take(key, content)) is not None
            }
            return frozenset(new)

    def add(self, judged: Iterable[tuple[str, Judgement]]) -> None:
        """Store judgements, all of them or none, each with the id of its episode.

        Raises:
            InvalidEpisodeIdError: An id cannot name a file.
            StorageError: They cannot be written.
        """
        with self._lock:
            self._store([self._line(episode_id, judgement) for episode_id, judgement in judged])

    def take_over(
        self,
        others: Judgements,
        episode_ids: Iterable[str],
        *,
        without: frozenset[str] = frozenset(),
    ) -> None:
        """Store another dataset's judgements of some episodes, unless they are here already.

        Args:
            others: The other dataset's judgements.
            episode_ids: The episodes.
            without: Parts to leave out; see `webtraj.redaction.parts`.

        Raises:
            CorruptDataError: A judgement does not follow the format, or a blob is missing.
            StorageError: One cannot be read or written.
        """
        with self._lock:
            lines = []
            for episode_id in episode_ids:
                here = {line for line, _ in self._of.get(episode_id, ())}
                beside = others._of.get(episode_id, ())
                for (line, _), judgement in zip(beside, others.of(episode_id), strict=True):
                    if line not in here:
                        made = Stripper(without).walk(judgement) if without else judgement
                        lines.append(self._encode(episode_id, line.time, made))
            self._store(lines)

    def of(self, episode_id: str, *, blobs: BlobSource | None = None) -> tuple[Judgement, ...]:
        """Return the judgements beside an episode, in the order of their times.

        Args:
            episode_id: The episode.
            blobs: The source of long texts and pictures; by default the dataset's blobs.

        Raises:
            CorruptDataError: A judgement does not follow the format, or a blob is missing.
            StorageError: A blob cannot be read.
        """
        where = f"{self._place.url}: {FOLDER} of {episode_id}"
        return tuple(
            records.decode_record(
                Judgement,
                orjson.loads(content)["judgement"],
                blobs or self._place.blobs,
                Budget(where, len(content)),
            )
            for _, content in self._of.get(episode_id, ())
        )

    def blobs_of(self, episode_id: str) -> list[Blob]:
        """Return the blobs that the judgements beside an episode refer to."""
        return [
            blob
            for _, content in self._of.get(episode_id, ())
            for blob in blobs_of(orjson.loads(content))
        ]

    def outcome_of(self, episode_id: str) -> Outcome | None:
        """Return an episode's outcome by the judgements beside it; None if they give none."""
        found = [line.judgement.outcome for line, _ in self._of.get(episode_id, ())]
        return next((outcome for outcome in reversed(found) if outcome), None)

    @property
    def episode_ids(self) -> frozenset[str]:
        """The ids of the episodes that have judgements beside them."""
        return frozenset(self._of)

    def has(self, episode_id: str, judge: str, version: str) -> bool:
        """Return whether this version of a judge has reached a verdict on an episode."""
        return any(
            (line.judgement.judge, line.judgement.version) == (judge, version)
            and line.judgement.outcome is not Outcome.JUDGE_ERROR
            for line, _ in self._of.get(episode_id, ())
        )

    def digest(self, summary: EpisodeSummary) -> str:
        """Return a hash of an episode's file and of the judgements beside it.

        Without judgements it is the file's own SHA-256.
        """
        beside = self._of.get(summary.episode_id)
        if not beside or not summary.sha256:
            return summary.sha256
        total = hashlib.sha256(summary.sha256.encode())
        for _, content in beside:
            total.update(content)
        return total.hexdigest()

    def part(self, episode_ids: Iterable[str]) -> Judgements:
        """Return the judgements beside some episodes, as they are known now."""
        made = Judgements(self._place)
        made._of = {one: self._of[one] for one in episode_ids if one in self._of}
        return made

    def summarize(self, summaries: Iterable[EpisodeSummary]) -> list[EpisodeSummary]:
        """Return summaries with the outcomes that the judgements beside the episodes give them.

        A summary whose outcome is no score has no reward.
        """
        return [
            one
            if one.episode_id not in self._of
            and (one.total_reward is None or is_scored(one.outcome, one.end_reason))
            else self._judge(one)
            for one in summaries
        ]

    def apply(
        self, trajectory: EpisodeTrajectory, *, blobs: BlobSource | None = None
    ) -> EpisodeTrajectory:
        """Return an episode with the judgements beside it. See `of`."""
        end = trajectory.end
        if end is None or trajectory.episode_id not in self._of:
            return trajectory
        for judgement in self.of(trajectory.episode_id, blobs=blobs):
            end = end.with_judgement(judgement)
        return dataclasses.replace(trajectory, end=end)

    def close(self) -> None:
        """Close the file. Idempotent."""
        with self._lock:
            self._lines.close()

    def __getstate__(self) -> dict[str, Any]:
        """Pickle what was read. The copy reads everything again when it is refreshed."""
        return {"place": self._place, "of": self._of}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        Judgements.__init__(self, state["place"])
        self._of = state["of"]

    def _judge(self, summary: EpisodeSummary) -> EpisodeSummary:
        outcome = self.outcome_of(summary.episode_id)
        outcome = summary.outcome if outcome is None else outcome
        scored = is_scored(outcome, summary.end_reason)
        total = summary.total_reward if scored else None
        return msgspec.structs.replace(summary, outcome=outcome, total_reward=total)

    def _line(self, episode_id: str, judgement: Judgement) -> bytes:
        known = self._of.get(episode_id)
        # The clocks of two machines differ, but a later judgement must count.
        now = max(self._clock(), known[-1][0].time + 1e-3 if known else 0.0)
        return self._encode(check_episode_id(episode_id), now, judgement)

    def _encode(self, episode_id: str, at: float, judgement: Judgement) -> bytes:
        data = {"episode_id": episode_id, "time": at, "judgement": judgement}
        return seal_line(encoding.dumps_fields(data, self._place.blobs)[0])

    def _store(self, lines: Sequence[bytes]) -> None:
        if lines:
            self._lines.add(b"".join(line + b"\n" for line in lines))
        for line in lines:
            self._take("", line)

    def _take(self, key: str, content: bytes) -> _Line | None:
        try:
            check_line(content)
            line = records.read_object(_Line, orjson.loads(content))
            check_episode_id(line.episode_id)
        except (ValueError, errors.WebtrajError) as error:
            problem = (
                f"Skipped a line of {key!r} in {self._place.url!r} that is not a judgement: "
                f"{error}. Correct or remove it: {content.decode(errors='replace'):.200}"
            )
            self.problems.append(problem)
            _logger.warning("%s", problem)
            return None
        known = self._of.setdefault(line.episode_id, [])
        if (line, content) not in known:
            known.append((line, content))
            known.sort(key=lambda item: item[0].time)
        return line
