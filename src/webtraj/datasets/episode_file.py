"""Reading one sealed episode's file, and making one's data of a trajectory."""

from __future__ import annotations

from typing import Any

import orjson

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.store import formats, records
from webtraj.store.blobs import BlobSink, BlobSource
from webtraj.store.budget import Budget
from webtraj.store.index import EpisodeSummary, summarize
from webtraj.store.layout import SCHEMA_VERSION, check_episode_id, episode_key, is_episode_id

__all__ = ["decode_episode", "encode_episode", "summarize_file"]


def decode_episode(
    episode: dict[str, Any], blobs: BlobSource | None, *, where: str = "", size: int = 0
) -> trajectory_lib.EpisodeTrajectory:
    """Return the trajectory that an episode's data stands for.

    Args:
        episode: The episode's data.
        blobs: Gives the blobs that it refers to.
        where: Names its file in errors.
        size: The bytes of its file; the memory that it may take is in proportion to them.

    Raises:
        CorruptDataError: It does not follow the format, asks for too much memory, or a blob is
            missing.
    """
    budget = Budget(where or "A stored episode", size)
    found = records.decode_record(trajectory_lib.EpisodeTrajectory, episode, blobs, budget)
    if not is_episode_id(found.episode_id):  # It becomes the name of files.
        raise errors.CorruptDataError(
            f"{budget.where!r} holds an episode called {found.episode_id!r:.200}, which cannot "
            "name a file."
        )
    return found


def encode_episode(trajectory: trajectory_lib.EpisodeTrajectory, blobs: BlobSink) -> dict[str, Any]:
    """Returns the data that stands for a trajectory: what a collector would have written of it.

    Raises:
        InvalidInputError: The trajectory has no end.
        InvalidEpisodeIdError: Its id cannot name a file.
    """
    check_episode_id(trajectory.episode_id)
    if trajectory.end is None:
        raise errors.InvalidInputError(
            f"The episode {trajectory.episode_id!r} has no end; give it an EpisodeEnd that says "
            "how it ended."
        )

    def data_of(name: str, value: Any) -> Any:
        content, _ = records.dumps_fields({name: value}, blobs)
        return orjson.loads(content)[name]

    return {
        "schema_version": SCHEMA_VERSION,
        "info": data_of("info", trajectory.info),
        "start_time": data_of("start_time", trajectory.start_time),
        "end_time": data_of("end_time", trajectory.end_time),
        "steps": [data_of(f"steps[{i}]", step) for i, step in enumerate(trajectory.steps)],
        "end": data_of("end", trajectory.end),
    }


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
