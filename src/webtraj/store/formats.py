"""File formats of episodes: what one is, the JSON format, and all by name.

Between the data model and the files stands an episode's *data*, plain JSON data of this shape, in
which values follow `webtraj.store.values` and records `webtraj.store.records`::

    {"schema_version": 1, "info": {...}, "start_time": ..., "end_time": ...,
     "steps": [{...}, ...], "end": {...}}

A journal holds it in pieces, sealing puts it together, and a format makes bytes of it and back.
Formats hold the same information: from one to another and back is the identity on this data, its
order of keys included.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

import orjson

from webtraj import errors
from webtraj.store.blobs import BlobSource

__all__ = [
    "FORMATS",
    "SCHEMA_VERSION",
    "EpisodeFormat",
    "JsonFormat",
    "StoredEpisode",
    "check_data",
    "format_named",
    "split_name",
    "unreadable",
]

SCHEMA_VERSION = 1


@dataclasses.dataclass(frozen=True, slots=True)
class StoredEpisode:
    """What an episode's file holds."""

    data: dict[str, Any]
    """The episode's data."""
    blobs: BlobSource | None = None
    """The blobs that the file itself holds; None if they lie beside it."""


class EpisodeFormat(Protocol):
    """Makes bytes of an episode's data, and back."""

    @property
    def name(self) -> str:
        """What its files' names end in, after a dot."""

    @property
    def self_contained(self) -> bool:
        """Whether a file holds its blobs; if not, they lie beside it, in a blob store."""

    def encode(self, episode: Mapping[str, Any], blobs: BlobSource) -> bytes:
        """Returns the file's content.

        Raises:
            CorruptDataError: A blob is missing, or the data does not follow the format.
            InvalidInputError: The format is for reading only.
        """

    def decode(self, content: bytes, where: str) -> StoredEpisode:
        """Returns what a file holds.

        Args:
            content: All of the file.
            where: Names the file in errors.

        Raises:
            CorruptDataError: It is no episode.
            UnsupportedSchemaError: It was written by a newer webtraj.
        """


def check_data(data: Any, where: str) -> dict[str, Any]:
    """Returns parsed data if it is an episode's that this version can read.

    Raises:
        CorruptDataError: It is not an episode's.
        UnsupportedSchemaError: It was written by a newer webtraj.
    """
    try:
        version = int(data["schema_version"])
        if not isinstance(data["steps"], list) or not isinstance(data["info"], dict):
            raise TypeError("expected an info and a list of steps")
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise unreadable(where, error) from error
    if version > SCHEMA_VERSION:
        raise errors.UnsupportedSchemaError(
            f"{where!r} has schema version {version}; this webtraj reads up to "
            f"{SCHEMA_VERSION}. Install a newer one."
        )
    checked: dict[str, Any] = data
    return checked


def unreadable(where: str, error: Exception) -> errors.CorruptDataError:
    """Returns the error for a file that cannot be read."""
    return errors.CorruptDataError(
        f"{where!r} is no readable episode: {error!r:.300}. The file was changed or damaged "
        "after it was written."
    )


@dataclasses.dataclass(frozen=True, slots=True)
class JsonFormat:
    """The format of `<episode id>.json`."""

    name: str = "json"
    self_contained: bool = False

    def encode(self, episode: Mapping[str, Any], blobs: BlobSource) -> bytes:
        """Returns the file's content; the blobs stay where they are."""
        del blobs  # Only referred to.
        return orjson.dumps(episode)

    def decode(self, content: bytes, where: str) -> StoredEpisode:
        """Returns what a file holds."""
        try:
            data = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise unreadable(where, error) from error
        return StoredEpisode(check_data(data, where))


_PROTOBUF = ("pb", "pb.zst", "pb.xz")
FORMATS = ("json", *_PROTOBUF)
"""The names of all formats."""


def format_named(name: str) -> EpisodeFormat:
    """Returns a format by its name.

    >>> format_named("json").name
    'json'

    Raises:
        InvalidInputError: There is no such format.
        MissingDependencyError: It needs a package that is not installed.
    """
    if name not in FORMATS:
        raise errors.InvalidInputError(
            f"{name!r} is no format of episodes; expected one of {', '.join(FORMATS)}."
        )
    if name == "json":
        return JsonFormat()
    from webtraj.store import protobuf  # Needs the extra `protobuf`.

    return protobuf.FORMATS[name]


def split_name(file_name: str) -> tuple[str, str] | None:
    """Returns the episode's id and the format's name that a file's name tells; None if neither.

    >>> split_name("20261120T130405-9f86.pb.zst")
    ('20261120T130405-9f86', 'pb.zst')
    """
    for name in sorted(FORMATS, key=len, reverse=True):
        stem = file_name.removesuffix(f".{name}")
        if stem and stem != file_name:
            return stem, name
    return None
