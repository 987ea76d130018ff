"""The index of a dataset: a summary line for each sealed episode, so that lists need no episodes.

Each writer appends to a file of its own, one write a line, so that writers never wait for each
other. A last line without its newline does not count: its episode is found by its file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import secrets
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

import orjson

from webtraj import errors, formats
from webtraj import trajectory as trajectory_lib
from webtraj.collectors.layout import check_episode_id
from webtraj.serialization import decoding, encoding
from webtraj.serialization.blobs import BlobSource
from webtraj.storage import files

__all__ = ["EpisodeSummary", "IndexWriter", "read_index", "read_index_file", "summarize"]

_Enum = TypeVar("_Enum", trajectory_lib.EndReason, trajectory_lib.Outcome)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSummary:
    """What a list shows of an episode."""

    episode_id: str
    task: str = ""
    goal: str = ""
    site: str = ""
    environment: str = ""
    policy: str = ""
    seed: int | None = None
    group_id: str = ""
    attempt: int = 0
    end_reason: trajectory_lib.EndReason = trajectory_lib.EndReason.UNKNOWN
    outcome: trajectory_lib.Outcome = trajectory_lib.Outcome.UNKNOWN
    num_steps: int = 0
    """Number of transitions, as in `EpisodeTrajectory.num_steps`."""
    total_reward: float = 0.0
    start_time: float | None = None
    """In seconds since the epoch (UTC)."""
    end_time: float | None = None
    """In seconds since the epoch (UTC)."""
    format: str = "json"
    """The format of the episode's file: the end of its name."""
    size: int = 0
    """Bytes of the episode's file, blobs that lie beside it not counted."""
    sha256: str = ""
    """Of the episode's file."""

    def to_line(self) -> bytes:
        """Returns the summary as a line of JSON."""
        data = {name: getattr(self, name) for name in _FIELDS}
        data["end_reason"] = self.end_reason.name.lower()
        data["outcome"] = self.outcome.name.lower()
        line, _ = encoding.dumps(data)
        return line + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        """Returns the summary that `to_line` made a line of; what is not known is left aside.

        Raises:
            ValueError: It is no such line.
        """
        try:
            data = decoding.decode(orjson.loads(line))
            known = {name: data[name] for name in _FIELDS if name in data}
            check_episode_id(data["episode_id"])
            for name in _TIMES:
                if not isinstance(known.get(name, 0.0), (float, int, type(None))):
                    raise TypeError(f"{name} is {known[name]!r:.100}")
            if known.get("format", "json") not in formats.FORMATS:
                raise TypeError(f"format is {known['format']!r:.100}")
        except (KeyError, TypeError) as error:
            raise ValueError(f"no summary of an episode: {error!r}") from error
        known["end_reason"] = _member(trajectory_lib.EndReason, data.get("end_reason"))
        known["outcome"] = _member(trajectory_lib.Outcome, data.get("outcome"))
        return cls(**known)


_FIELDS = tuple(field.name for field in dataclasses.fields(EpisodeSummary))
_TIMES = ("start_time", "end_time")
_INFO_FIELDS = (
    "episode_id", "task", "goal", "site", "environment", "policy", "seed", "group_id", "attempt",
)  # fmt: skip


def summarize(
    episode: Mapping[str, Any], content: bytes, blobs: BlobSource, format_name: str = "json"
) -> EpisodeSummary:
    """Returns the summary of an episode.

    Args:
        episode: The episode's data.
        content: The bytes of its file.
        blobs: Gives the long texts and arrays among what is summarized.
        format_name: The file's format.

    Raises:
        CorruptDataError: It does not follow the format.
    """
    try:
        fields = {k: v for k, v in episode["info"].items() if k in _INFO_FIELDS}
        info = decoding.decode(fields, blobs)
        end = episode.get("end") or {}
        rewards = [
            decoding.decode(step.get("reward"), blobs)
            for step in episode["steps"]
            if step["step_type"] != "first"
        ]
        return EpisodeSummary(
            **info,
            end_reason=_member(trajectory_lib.EndReason, end.get("reason")),
            outcome=_member(trajectory_lib.Outcome, end.get("outcome")),
            num_steps=max(len(episode["steps"]) - 1, 0),
            total_reward=float(sum(map(trajectory_lib.reward_value, rewards))),
            start_time=episode.get("start_time"),
            end_time=episode.get("end_time"),
            format=format_name,
            size=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
        )
    except errors.WebtrajError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise errors.CorruptDataError(f"An episode cannot be summarized: {error!r}.") from error


class IndexWriter:
    """Appends summaries to an index file of its own, made when the first one comes."""

    def __init__(self, folder: Path) -> None:
        # Unique, so that no two writers ever share a file, whatever host or process they are.
        self.path = folder / f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}.jsonl"
        self._descriptor = -1
        self._lock = threading.Lock()

    def append(self, summary: EpisodeSummary, *, sync: bool = False) -> None:
        """Adds one line.

        Raises:
            OSError: It could not be written.
        """
        line = summary.to_line()
        with self._lock:
            if self._descriptor < 0:
                flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
                self._descriptor = os.open(self.path, flags, 0o644)
            size = os.fstat(self._descriptor).st_size
            try:
                files.write_all(self._descriptor, line)
            except OSError:
                os.ftruncate(self._descriptor, size)
                raise
            if sync:
                os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Lets go of the file. Idempotent."""
        with self._lock:
            descriptor, self._descriptor = self._descriptor, -1
            if descriptor >= 0:
                os.close(descriptor)


def read_index(folder: Path) -> Iterator[EpisodeSummary]:
    """Yields the summaries of all writers, in no particular order.

    Lines that cannot be read are passed over: their episodes are found by their files, and
    `webtraj verify` reports them.
    """
    for path in sorted(folder.glob("*.jsonl")):
        yield from read_index_file(path)


def read_index_file(path: Path) -> Iterator[EpisodeSummary]:
    """Yields the summaries of one writer."""
    *lines, _ = path.read_bytes().split(b"\n")
    for line in lines:
        try:
            yield EpisodeSummary.from_line(line)
        except ValueError:
            continue


def _member(enum_class: type[_Enum], name: Any) -> _Enum:
    """Returns the member of that name; UNKNOWN, the zero, if there is none."""
    return enum_class.__members__.get(str(name).upper(), enum_class(0))
