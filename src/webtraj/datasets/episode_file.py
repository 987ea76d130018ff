"""Reading one sealed episode's file."""

from __future__ import annotations

from typing import Any

from webtraj import errors, formats
from webtraj import trajectory as trajectory_lib
from webtraj.collectors.index import EpisodeSummary, summarize
from webtraj.collectors.layout import episode_key
from webtraj.serialization import records
from webtraj.serialization.blobs import BlobSource

__all__ = ["decode_episode", "summarize_file"]


def decode_episode(
    episode: dict[str, Any], blobs: BlobSource | None
) -> trajectory_lib.EpisodeTrajectory:
    """Returns the trajectory that an episode's data stands for.

    Raises:
        CorruptDataError: It does not follow the format, or a blob is missing.
    """
    return records.decode_record(trajectory_lib.EpisodeTrajectory, episode, blobs)


def summarize_file(
    episode_id: str, format_name: str, content: bytes, blobs: BlobSource
) -> EpisodeSummary:
    """Returns the summary of an episode's file, given the file's content.

    Raises:
        CorruptDataError: It is no episode, or another than its name says.
        UnsupportedSchemaError: It was written by a newer webtraj.
    """
    where = episode_key(episode_id, format_name)
    stored = formats.format_named(format_name).decode(content, where)
    summary = summarize(stored.data, content, stored.blobs or blobs, format_name)
    if summary.episode_id != episode_id:
        raise errors.CorruptDataError(
            f"{where!r} holds the episode {summary.episode_id!r}: it was copied or renamed."
        )
    return summary
