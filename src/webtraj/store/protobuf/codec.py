"""A whole episode as bytes, and back."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

import orjson
from google.protobuf.message import DecodeError, EncodeError

from webtraj import errors
from webtraj.proto.webtraj.v1 import trajectory_pb2 as pb
from webtraj.store.blobs import Blob, BlobSource
from webtraj.store.formats import SCHEMA_VERSION, StoredEpisode, check_data, unreadable
from webtraj.store.protobuf import compression, records, shape
from webtraj.store.protobuf.blobs import MIME_TYPES, InlineBlobs
from webtraj.store.protobuf.value_reading import ValueReader
from webtraj.store.protobuf.value_writing import ValueWriter, blob_of

__all__ = ["ProtobufFormat", "decode_message"]


@dataclasses.dataclass(frozen=True, slots=True)
class ProtobufFormat:
    """The format of `<episode id>.pb`, or of the same compressed."""

    name: str
    self_contained: bool = True

    def encode(self, episode: Mapping[str, Any], blobs: BlobSource) -> bytes:
        """Returns the file's content.

        Raises:
            CorruptDataError: A blob is missing or damaged, or the data does not follow the format.
            DatasetError: The episode is larger than Protobuf can read.
            InvalidInputError: The format is for reading only.
        """
        if self.name == "pb.xz":
            raise errors.InvalidInputError(
                "Episodes in the format 'pb.xz' are only read; write 'pb' or 'pb.zst'."
            )
        content = _encode(episode, blobs)
        return compression.compress_zst(content) if self.name == "pb.zst" else content

    def decode(self, content: bytes, where: str) -> StoredEpisode:
        """Returns what a file holds.

        Raises:
            CorruptDataError: It is no episode, or too large.
            UnsupportedSchemaError: It was written by a newer webtraj.
        """
        plain = compression.decompress(content, self.name.partition(".")[2], where)
        try:
            message = pb.TrajectoryData.FromString(plain)
        except (DecodeError, ValueError, RecursionError, MemoryError) as error:
            raise unreadable(where, error) from error
        return decode_message(message, where)


def decode_message(message: pb.TrajectoryData, where: str) -> StoredEpisode:
    """Returns the episode that a message holds.

    Raises:
        CorruptDataError: It does not follow the schema, or was not written by webtraj.
        UnsupportedSchemaError: It was written by a newer webtraj.
    """
    version = message.webtraj.schema_version
    if version > SCHEMA_VERSION:
        check_data({"schema_version": version, "steps": [], "info": {}}, where)
    if version < 1:
        raise errors.CorruptDataError(
            f"{where!r} holds no episode of webtraj's. If it is one of Orby's collector, import it "
            "by webtraj.store.protobuf.orby.read_orby."
        )
    contents = [blob.content for blob in message.webtraj.blobs]
    reader = ValueReader(where)
    for action in message.actions:
        if not action.HasField("webtraj"):  # Two bytes; as a record they would be a thousand.
            reader.corrupt("an action has no fields of webtraj's")
        contents.append(action.after_state.viewport.screenshot.content)
    blobs = InlineBlobs(filter(None, contents), where)
    try:
        data = records.get_episode(reader, message)
        orjson.dumps(data)  # What it holds may be nested too deep for others to write.
    except (ValueError, TypeError, RecursionError) as error:
        if isinstance(error, errors.WebtrajError):
            raise
        raise unreadable(where, error) from error
    for blob in reader.blobs:
        blobs.read(blob)
    return StoredEpisode(check_data(data, where), blobs)


def _encode(episode: Mapping[str, Any], blobs: BlobSource) -> bytes:
    message = pb.TrajectoryData()
    writer = ValueWriter()
    try:
        records.put_episode(writer, message, episode)
        shape.fill_episode(message, episode)
        _fill_steps(message, episode, blobs, writer)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        if isinstance(error, errors.WebtrajError):
            raise
        raise errors.CorruptDataError(
            f"The episode {_name(episode)!r} does not follow the format of episodes: "
            f"{error!r:.300}. Run `webtraj verify` on its dataset."
        ) from error
    try:
        size = message.ByteSize()
        if size <= compression.MAX_SIZE:
            return message.SerializeToString(deterministic=True)
    except EncodeError:
        size = compression.MAX_SIZE + 1
    raise _too_large(episode, size)


def _fill_steps(
    message: pb.TrajectoryData,
    episode: Mapping[str, Any],
    blobs: BlobSource,
    writer: ValueWriter,
) -> None:
    """Fills in the blobs, those that Orby's readers look for where they do."""
    shots = [shape.screenshot_blob(step) for step in episode["steps"]]
    others = {blob.sha256: blob for blob in writer.blobs}  # Whatever else it is called.
    for shot in shots:
        if shot is not None:
            others.pop(shot.sha256, None)
    size = sum(blob.size for blob in (*shots, *others.values()) if blob is not None)
    if size > compression.MAX_SIZE:
        raise _too_large(episode, size)  # Before anything is read.
    for position, (action, step, shot) in enumerate(
        zip(message.actions, episode["steps"], shots, strict=True)
    ):
        shape.fill_step(
            action,
            step,
            name=f"{_name(episode)}/{position}",
            domain=message.domain,
            screenshot=None if shot is None else _content(blobs, shot),
        )
    for blob in others.values():
        entry = message.webtraj.blobs.add()
        entry.mime_type = MIME_TYPES.get(blob.ext, "application/octet-stream")
        entry.content = _content(blobs, blob)
    goal = episode["info"].get("goal")
    long_goal = blob_of(goal) if type(goal) is dict else None
    if long_goal is not None:
        message.goal = _content(blobs, long_goal).decode("utf-8", "replace")


def _content(blobs: BlobSource, blob: Blob) -> bytes:
    content = bytes(blobs.read(blob))
    if len(content) != blob.size or hashlib.sha256(content).hexdigest() != blob.sha256:
        raise errors.CorruptDataError(
            f"The blob {blob.sha256!r} is not the {blob.size} bytes that its name says: it was "
            "changed or damaged after it was written."
        )
    return content


def _too_large(episode: Mapping[str, Any], size: int) -> errors.DatasetError:
    return errors.DatasetError(
        f"The episode {_name(episode)!r} has at least {size} bytes, and a Protobuf file takes "
        f"{compression.MAX_SIZE}. Nothing of it was written; keep it as JSON, which has no limit."
    )


def _name(episode: Mapping[str, Any]) -> str:
    info = episode.get("info")
    return str(info.get("episode_id")) if isinstance(info, Mapping) else ""
