"""The file formats of episodes: their protocol, JSON, and all by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

import orjson

from webtraj import errors
from webtraj.store.blobs import BlobSource
from webtraj.store.layout import FORMATS, StoredEpisode, check_data, unreadable

__all__ = ["EpisodeFormat", "JsonFormat", "format_named"]


class EpisodeFormat(Protocol):
    """Encodes an episode's data to bytes, and decodes it."""

    @property
    def name(self) -> str:
        """The extension of its files, without the dot."""

    @property
    def self_contained(self) -> bool:
        """Whether a file contains its blobs; if not, they are in a blob store beside it."""

    def encode(self, episode: Mapping[str, Any], blobs: BlobSource) -> bytes:
        """Return the file's content for an episode's data.

        Raises:
            CorruptDataError: A blob is missing, or the data does not follow the format.
            InvalidInputError: The format is read-only.
        """

    def decode(self, content: bytes, where: str) -> StoredEpisode:
        """Return the contents of a file.

        Args:
            content: The file's bytes.
            where: The file's name in errors.

        Raises:
            CorruptDataError: The file is not an episode.
            UnsupportedSchemaError: It was written by a newer webtraj.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class JsonFormat:
    """The format of `<episode id>.json`."""

    name: str = "json"
    self_contained: bool = False

    def encode(self, episode: Mapping[str, Any], blobs: BlobSource) -> bytes:
        """Return the file's content; the blobs stay in their store."""
        del blobs  # The file only refers to them.
        return orjson.dumps(episode)

    def decode(self, content: bytes, where: str) -> StoredEpisode:
        """Return the contents of a file."""
        try:
            data = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise unreadable(where, error) from error
        return StoredEpisode(check_data(data, where))


def format_named(name: str) -> EpisodeFormat:
    """Return a format by name.

    >>> format_named("json").name
    'json'

    Raises:
        InvalidInputError: No format has that name.
        MissingDependencyError: It needs a package that is not installed.
    """
    if name not in FORMATS:
        raise errors.InvalidInputError(
            f"No episode format {name!r}; expected one of {', '.join(FORMATS)}."
        )
    if name == "json":
        return JsonFormat()
    from webtraj.store import protobuf  # Needs the extra `protobuf`.

    return protobuf.FORMATS[name]
