"""The index of a dataset: a summary line for each sealed episode, so lists need not read episodes.

Each writer appends to its own file, one write per line, so that writers never wait for each other.
It holds a lock (flock) on the file while it runs. A bucket cannot append, so there a writer puts a
new file, a shard, for each batch of lines. A last line without a newline does not count. Its
episode is found by its file.

A file that disappears while being read was replaced by `webtraj.datasets.recovery`; then the list
of files is read again.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import hashlib
import itertools
import math
import os
import secrets
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import msgspec
import numpy as np
import orjson

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.store import decoding, encoding, files, records
from webtraj.store.blobs import BlobSource
from webtraj.store.layout import (
    BOM,
    FORMATS,
    are_episode_ids,
    check_episode_id,
    check_version,
    is_episode_id,
)

__all__ = [
    "EpisodeSummary",
    "IndexFile",
    "IndexWriter",
    "index_file_name",
    "merge",
    "parse_index_file",
    "summarize",
    "version_span",
]

_Enum = TypeVar("_Enum", trajectory_lib.EndReason, trajectory_lib.Outcome)


class EpisodeSummary(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The facts about an episode that lists show.

    This is a msgspec.Struct, which is read twice as fast as a dataclass, because a dataset has
    many. Use `replace` and `asdict` of `msgspec.structs`.
    """

    episode_id: str
    task: str = ""
    goal: str = ""
    site: str = ""
    environment: str = ""
    policy: str = ""
    policy_version: str = ""
    """The weights that answered, by `version_span`; empty in lines older than this field."""
    seed: int | None = None
    group_id: str = ""
    attempt: trajectory_lib.Count = 0
    retry_of: str = ""
    end_reason: trajectory_lib.EndReason = trajectory_lib.EndReason.UNKNOWN
    outcome: trajectory_lib.Outcome = trajectory_lib.Outcome.UNKNOWN
    num_steps: trajectory_lib.Count = 0
    """Number of transitions, as in `EpisodeTrajectory.num_steps`."""
    total_reward: float | None = None
    """Sum of the rewards; None if the episode was not scored."""
    start_time: trajectory_lib.Timestamp | None = None
    """In seconds since the epoch (UTC)."""
    end_time: trajectory_lib.Timestamp | None = None
    """In seconds since the epoch (UTC)."""
    format: str = "json"
    """The format of the episode's file: the extension of its name."""
    size: trajectory_lib.Count = 0
    """Bytes of the episode's file, without separate blobs."""
    sha256: str = ""
    """SHA-256 of the episode's file."""

    def to_line(self) -> bytes:
        """Return the summary as a line of JSON."""
        data = {name: _spell(getattr(self, name)) for name in _FIELDS}
        line, _ = encoding.dumps(data)
        return line + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        """Return the summary in a line of `to_line`, ignoring unknown fields.

        Raises:
            UnsupportedSchemaError: It was written by a newer webtraj.
            ValueError: The line is malformed.
        """
        try:
            data = orjson.loads(line)
            version = data.get("schema_version", 1)
            check_version(version if isinstance(version, int) else 1, "An index line")
            # Environments may set other types, which read as text; index fields must match.
            if not _TEXT_TYPES.issuperset(map(type, map(data.get, _TEXTS))):
                name = next(name for name in _TEXTS if type(data.get(name)) not in _TEXT_TYPES)
                raise TypeError(f"{name} is {data[name]!r:.100}")
            known = records.read_fields(cls, data, decoding.Reading())
            check_episode_id(known["episode_id"])
            if known.get("format", "json") not in FORMATS:
                raise TypeError(f"format is {known['format']!r:.100}")
            return cls(**known)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no summary of an episode: {error!r:.300}") from error


_FIELDS = EpisodeSummary.__struct_fields__
_TEXTS = tuple(one.name for one in msgspec.structs.fields(EpisodeSummary) if one.type is str)
_TEXT_TYPES = frozenset((str, dict, type(None)))
"""The JSON types of a text: itself, an encoded one, or a missing one."""
_INFO_FIELDS = frozenset(_FIELDS) & {
    field.name for field in dataclasses.fields(trajectory_lib.EpisodeInfo)
}


def summarize(
    episode: Mapping[str, Any], content: bytes, blobs: BlobSource, format_name: str = "json"
) -> EpisodeSummary:
    """Return the summary of an episode.

    Args:
        episode: The episode's data.
        content: The bytes of its file.
        blobs: The source of long texts and arrays among the summarized fields.
        format_name: The file's format.

    Raises:
        CorruptDataError: The episode does not follow the format.
    """
    try:
        fields = {k: v for k, v in episode["info"].items() if k in _INFO_FIELDS}
        info = _plain(decoding.decode(fields, blobs))
        end = episode.get("end") or {}
        rewards = [
            decoding.decode(step.get("reward"), blobs)
            for step in episode["steps"]
            if step["step_type"] != "first"
        ]
        reason = _member(trajectory_lib.EndReason, end.get("reason"))
        outcome = _member(trajectory_lib.Outcome, end.get("outcome"))
        # Kept for an episode that a judge may still score; `Judgements.summarize` hides it.
        kept = trajectory_lib.is_finished(outcome, reason)
        return EpisodeSummary(
            **info,
            policy_version=version_span(_versions(_decisions(episode), blobs)),
            end_reason=reason,
            outcome=outcome,
            num_steps=max(len(episode["steps"]) - 1, 0),
            total_reward=trajectory_lib.sum_of_rewards(rewards) if kept else None,
            start_time=_time(episode.get("start_time")),
            end_time=_time(episode.get("end_time")),
            format=format_name,
            size=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
        )
    except errors.WebtrajError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise errors.CorruptDataError(f"Cannot summarize an episode: {error!r}.") from error


def version_span(versions: Iterable[str]) -> str:
    """Return the version of the weights that served some calls, or the first and the last.

    >>> version_span(["3", "3"]), version_span(["3", "", "3..4", "5"]), version_span([])
    ('3', '3..5', '')

    Args:
        versions: The `ModelCall.policy_version` of each call, in order; empty ones are ignored.
    """
    known = list(dict.fromkeys(version for version in versions if version))
    if len(known) < 2:
        return "".join(known)
    return f"{_ends(known[0])[0]}..{_ends(known[-1])[1]}"


def _ends(version: str) -> tuple[str, str]:
    """Return a call's first and last version, which differ if the weights changed during it."""
    before, dots, after = version.partition("..")
    return (before, after) if before and dots and after else (version, version)


def _decisions(episode: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield an agent's decisions, the one in flight last."""
    for step in episode["steps"]:
        yield step.get("decision") or {}
    yield (episode.get("end") or {}).get("in_flight_decision") or {}


def _versions(decisions: Iterable[Mapping[str, Any]], blobs: BlobSource) -> Iterator[str]:
    """Yield the versions of the weights behind an agent's calls."""
    for decision in decisions:
        for call in decision.get("model_calls") or ():
            version = call.get("policy_version") or ""
            if not call.get("error"):
                yield version if isinstance(version, str) else str(decoding.decode(version, blobs))


def _plain(info: dict[str, Any]) -> dict[str, Any]:
    """Return an episode's info in the form that lists show, for any types in it."""
    if not is_episode_id(info["episode_id"]):
        raise errors.CorruptDataError(
            f"Invalid episode id {info['episode_id']!r:.200}: it cannot name a file."
        )
    seed, attempt = info.get("seed"), info.get("attempt", 0)
    plain: dict[str, Any] = {name: str(value) for name, value in info.items()}
    plain["seed"] = int(seed) if isinstance(seed, (int, np.integer)) else None
    plain["attempt"] = int(attempt) if isinstance(attempt, (int, np.integer)) else 0
    return plain


def _time(value: Any) -> float | None:
    """Return a time if it is within the calendar's range; else None."""
    is_time = (
        isinstance(value, (float, int))
        and math.isfinite(value)
        and 0 <= value < trajectory_lib.LAST_TIME
    )
    return value if is_time else None


def index_file_name(suffix: str = "") -> str:
    """Return a unique name for an index file, across hosts and processes."""
    name = socket.gethostname()[:64].lstrip("-.") or "host"
    # A host name may contain characters that keys must not.
    host = "".join(char if char.isalnum() and char.isascii() else "-" for char in name)
    return f"{host}-{os.getpid()}-{secrets.token_hex(4)}{suffix}.jsonl"


@dataclasses.dataclass(frozen=True, slots=True)
class IndexFile:
    """The contents of one index file."""

    summaries: tuple[EpisodeSummary, ...] = ()
    unreadable: int = 0
    """Number of lines that are not summaries."""


class IndexWriter:
    """Appends lines to its own index file, made when the first line comes."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / index_file_name()
        self._file: files.LineFile | None = None
        self._lock = threading.Lock()

    def append(self, summary: EpisodeSummary, *, sync: bool = False) -> None:
        """Add one line.

        Raises:
            OSError: It could not be written.
        """
        line = summary.to_line()
        with self._lock:
            if self._file is None:
                self._file = files.LineFile(self.path)
            self._file.append(line, sync=sync)

    def close(self) -> None:
        """Release the file. Idempotent."""
        with self._lock:
            file, self._file = self._file, None
            if file is not None:
                file.close()


def parse_index_file(content: bytes) -> IndexFile:
    """Parse an index file."""
    content = content.removeprefix(BOM)
    view, end = memoryview(content), content.rfind(b"\n") + 1
    summaries: list[EpisodeSummary] = []
    unreadable = start = 0
    while start < end:
        stop = content.rfind(b"\n", start, start + _CHUNK)
        stop = content.index(b"\n", start) if stop < 0 else stop
        usual = _parse_usual(view[start:stop])
        summaries += usual
        for line in () if usual else content[start:stop].split(b"\n"):
            try:
                if line in (b"", b"\r"):  # Left by an editor.
                    continue
                summaries += _parse_usual(line) or [EpisodeSummary.from_line(line)]
            except errors.UnsupportedSchemaError:
                raise
            except ValueError:
                unreadable += 1
        start = stop + 1
    return IndexFile(tuple(summaries), unreadable)


_CHUNK = 512 << 10
"""Bytes of lines that are parsed at once, unless a line is longer."""

_NAMED: dict[str, dict[str, Any]] = {
    "end_reason": {member.name.lower(): member for member in trajectory_lib.EndReason},
    "outcome": {member.name.lower(): member for member in trajectory_lib.Outcome},
}


def _spell(value: Any) -> Any:
    """Return a field's value as a line holds it."""
    return value.name.lower() if isinstance(value, enum.Enum) else value


@functools.cache
def _usual_lines() -> msgspec.json.Decoder[EpisodeSummary]:
    """Return a decoder that reads most lines of an index as summaries."""
    count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    time = Annotated[float, msgspec.Meta(ge=0, lt=trajectory_lib.LAST_TIME)]
    types: dict[str, Any] = {
        **{name: _by_name(members) for name, members in _NAMED.items()},
        "format": Literal[FORMATS],
        **dict.fromkeys(("attempt", "num_steps", "size"), count),
        **dict.fromkeys(("start_time", "end_time"), time | None),
    }
    fields = [
        (one.name, types[one.name], one.default)
        for one in msgspec.structs.fields(EpisodeSummary)
        if one.name in types
    ]
    line = msgspec.defstruct(
        "_UsualLine",
        fields,
        bases=(EpisodeSummary,),
        frozen=True,
        kw_only=True,
        gc=False,
        forbid_unknown_fields=True,  # Such as a version, which `from_line` checks.
    )
    return msgspec.json.Decoder(line)


def _by_name(members: Mapping[str, Any]) -> Any:
    """Return a type as which msgspec decodes the names of members to these members."""
    make: Any = enum.Enum
    names = make("names", {name: name for name in members})
    names._value2member_map_.update(members)  # msgspec looks up texts in it.
    return names


_set_class = object.__dict__["__class__"].__set__


def _parse_usual(lines: bytes | memoryview) -> list[EpisodeSummary]:
    """Return the summaries in lines if all are usual lines of `to_line`; else an empty list."""
    try:
        summaries = _usual_lines().decode_lines(lines)
    except msgspec.MsgspecError:
        return []
    if not are_episode_ids([summary.episode_id for summary in summaries]):
        return []
    # The descriptor sets it in a frozen object too.
    collections.deque(map(_set_class, summaries, itertools.repeat(EpisodeSummary)), maxlen=0)
    return summaries


def merge(files: Mapping[str, IndexFile]) -> dict[str, EpisodeSummary]:
    """Merge the files of an index, by name, into one summary per episode id."""
    return {summary.episode_id: summary for file in files.values() for summary in file.summaries}


def _member(enum_class: type[_Enum], name: Any) -> _Enum:
    """Return the enum member with a name, or UNKNOWN, the zero."""
    return enum_class.__members__.get(str(name).upper(), enum_class(0))
