"""Episodes as JSON files: the episode's data as it is, its blobs beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import orjson

from webtraj.store.blob import BlobSource
from webtraj.store.episode_format import StoredEpisode, check_data, unreadable

__all__ = ["FORMATS", "JsonFormat"]


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


FORMATS = {"json": JsonFormat()}
