"""Reading one sealed episode's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.collectors.index import EpisodeSummary, summarize
from webtraj.collectors.layout import SCHEMA_VERSION, DatasetLayout
from webtraj.serialization import records
from webtraj.serialization.blobs import BlobSource

__all__ = ["decode_episode", "parse_episode", "summarize_file"]


def parse_episode(content: bytes, path: Path) -> dict[str, Any]:
    """Returns an episode file's content as JSON data.

    Raises:
        CorruptDataError: It is no episode.
        UnsupportedSchemaError: It was written by a newer webtraj.
    """
    try:
        episode: dict[str, Any] = orjson.loads(content)
        version = int(episode["schema_version"])
        if not isinstance(episode["steps"], list) or not isinstance(episode["info"], dict):
            raise TypeError("expected an info and a list of steps")
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise errors.CorruptDataError(
            f"{str(path)!r} is no readable episode: {error!r}. The file was changed or damaged "
            "after it was written."
        ) from error
    if version > SCHEMA_VERSION:
        raise errors.UnsupportedSchemaError(
            f"{str(path)!r} has schema version {version}; this webtraj reads up to "
            f"{SCHEMA_VERSION}. Install a newer one."
        )
    return episode


def decode_episode(
    episode: dict[str, Any], blobs: BlobSource | None
) -> trajectory_lib.EpisodeTrajectory:
    """Returns the trajectory that a parsed episode file holds.

    Raises:
        CorruptDataError: It does not follow the format, or a blob is missing.
    """
    return records.decode_record(trajectory_lib.EpisodeTrajectory, episode, blobs)


def summarize_file(
    layout: DatasetLayout, episode_id: str, content: bytes, blobs: BlobSource
) -> EpisodeSummary:
    """Returns the summary of an episode's file, given the file's content.

    Raises:
        CorruptDataError: It is no episode, or another than its name says.
        UnsupportedSchemaError: It was written by a newer webtraj.
    """
    path = layout.episode(episode_id)
    summary = summarize(parse_episode(content, path), content, blobs)
    if summary.episode_id != episode_id:
        raise errors.CorruptDataError(
            f"{str(path)!r} holds the episode {summary.episode_id!r}: it was copied or renamed."
        )
    return summary
