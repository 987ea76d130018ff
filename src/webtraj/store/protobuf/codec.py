"""Encoding of a complete episode to bytes, and decoding."""

from __future__ import annotations

import dataclasses
import hashlib
import lzma
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
import zstandard
from google.protobuf.message import DecodeError, EncodeError

from webtraj import errors
from webtraj.store import decoding
from webtraj.store.blobs import Blob, BlobSource, as_text
from webtraj.store.foreign import is_valid_text
from webtraj.store.layout import SCHEMA_VERSION, StoredEpisode, check_data, unreadable
from webtraj.store.proto.webtraj.v1 import trajectory_pb2 as pb
from webtraj.store.protobuf import records
from webtraj.store.protobuf.values import ValueReader, ValueWriter, blob_of, inline_bytes
from webtraj.store.values import TAG, write_record
from webtraj.trajectory import Outcome

__all__ = [
    "FLOOR",
    "MAX_RATIO",
    "MAX_SIZE",
    "ProtobufFormat",
    "compress_zst",
    "decode_message",
    "decompress",
]

MAX_SIZE = 2**31 - 1
"""The size of the largest message that Protobuf can read or write, in bytes."""
MAX_RATIO = decoding.RATIO
"""The maximum ratio of a file's decompressed size to its size."""
FLOOR = 16 * 2**20
"""The decompressed size that is always allowed. Hostile messages take 60 times that memory."""

_LEVEL = 3
_WINDOW = 2**27
# No input of this size can decompress to more than 32 MiB before the limit is checked.
_CHUNK = 1024
_XZ_PART = 2**16
_MAX_FRAMES = 10_000
"""More frames than any tool writes. Empty frames take time that no other limit counts."""
_SKIPPABLE = b"\x50\x2a\x4d\x18"


def compress_zst(data: bytes) -> bytes:
    """Return data as Zstandard frames that `decompress` accepts."""
    compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
    frame = compressor.compress(data)
    missing = -(-len(data) // MAX_RATIO) - len(frame) if len(data) > FLOOR else 0
    if missing <= 0:
        return frame
    # To the reader, very repetitive data looks like an attack. A skippable frame makes the file
    # longer.
    return frame + _SKIPPABLE + missing.to_bytes(4, "little") + bytes(missing)


def decompress(
    content: bytes, compression: str, where: str, *, max_size: int | None = None
) -> bytes:
    """Decompress content within a size limit.

    Args:
        content: The bytes of a file.
        compression: "zst" or "xz"; empty for none.
        where: The file's name in errors.
        max_size: The maximum decompressed size in bytes; None for the default for a file of this
            size.

    Raises:
        CorruptDataError: It is malformed, truncated, or larger than allowed.
    """
    read = {"": _plain, "zst": _zst, "xz": _xz}[compression]
    usual = max(FLOOR, MAX_RATIO * len(content))
    limit = min(MAX_SIZE, usual if max_size is None else max_size)
    try:
        return read(content, _Output(limit, where))
    except (zstandard.ZstdError, lzma.LZMAError, EOFError, MemoryError) as error:
        raise unreadable(where, error) from error


class _Output:
    """Collects output, up to a limit."""

    def __init__(self, limit: int, where: str) -> None:
        self.limit = limit
        self.data = bytearray()
        self._where = where

    def take(self, part: bytes) -> None:
        self.data += part
        self.check(len(self.data))

    def check(self, size: int) -> None:
        if size > self.limit:
            raise errors.CorruptDataError(
                f"{self._where!r} decompresses to more than its limit of {self.limit} bytes, which "
                f"is usually {MAX_RATIO} times its own size or {FLOOR}, and never more than "
                f"{MAX_SIZE}. If you trust its source, decompress it with the compression's own "
                "tool."
            )


def _plain(content: bytes, output: _Output) -> bytes:
    output.check(len(content))
    return content


def _zst(content: bytes, output: _Output) -> bytes:
    position = frames = 0
    while position < len(content):
        frames += 1
        if frames > _MAX_FRAMES:
            raise EOFError(f"it has more than {_MAX_FRAMES} frames")
        header = content[position : position + 8]
        if len(header) == 8 and header[1:4] == _SKIPPABLE[1:] and header[0] & 0xF0 == 0x50:
            position += 8 + int.from_bytes(header[4:], "little")
            if position > len(content):
                raise EOFError("the last frame is truncated")
            continue
        declared = zstandard.get_frame_parameters(content[position : position + 64]).content_size
        if declared not in (zstandard.CONTENTSIZE_UNKNOWN, zstandard.CONTENTSIZE_ERROR):
            output.check(len(output.data) + declared)
        frame = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
        while not frame.eof:
            part = content[position : position + _CHUNK]
            if not part:
                raise EOFError("the last frame is truncated")
            position += len(part)
            output.take(frame.decompress(part))
        position -= len(frame.unused_data)
    return bytes(output.data)


def _xz(content: bytes, output: _Output) -> bytes:
    position = 0
    for _ in range(_MAX_FRAMES):
        while content[position : position + 4] == bytes(4):  # Padding between streams.
            position += 4
        if position >= len(content):
            return bytes(output.data)
        decompressor = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=2 * _WINDOW)
        while not decompressor.eof:
            part = b""
            if decompressor.needs_input:
                part = content[position : position + _XZ_PART]
                position += len(part)
                if not part:
                    raise EOFError("the last stream is truncated")
            output.take(decompressor.decompress(part, max_length=2**20))
        position -= len(decompressor.unused_data)
    raise EOFError(f"it has more than {_MAX_FRAMES} streams")


_MIME_TYPES = {
    "jpg": "image/jpeg",
    "png": "image/png",
    "webp": "image/webp",
    "gif": "image/gif",
    "pdf": "application/pdf",
    "txt": "text/plain",
}
"""The type of a blob's content by its extension; all others are plain bytes."""


class _InlineBlobs(BlobSource):
    """The blobs of one file, by their content's hash."""

    def __init__(self, contents: Iterable[bytes], where: str) -> None:
        """Initialize the source. `where` is the file's name in errors."""
        self._contents = {hashlib.sha256(content).hexdigest(): content for content in contents}
        self._texts: dict[str, str] = {}
        self._where = where

    def load(self, blob: Blob, *, text: bool) -> Any:
        """Return a blob's bytes, or its text.

        Raises:
            CorruptDataError: The file does not contain it, or it is not UTF-8.
        """
        content = self.read(blob)
        if not text:
            return content
        # One string for all references, so that a small file cannot take much memory.
        if blob.sha256 not in self._texts:
            self._texts[blob.sha256] = as_text(content, f"blob {blob.sha256} in {self._where}")
        return self._texts[blob.sha256]

    def read(self, blob: Blob) -> bytes:
        """Return a blob's bytes.

        Raises:
            CorruptDataError: The file does not contain them.
        """
        content = self._contents.get(blob.sha256)
        if content is None or len(content) != blob.size:
            raise errors.CorruptDataError(
                f"{self._where!r} does not contain the {blob.size} bytes of the blob "
                f"{blob.sha256!r:.100} that it refers to: it was changed or damaged after it was "
                "written."
            )
        return content


# Orby's fields that are derived from an episode's data. They are written for readers that know no
# other fields, and never read. Fields without an equivalent stay empty.

_Failure = pb.TrajectoryData.ResultFailure
_MAGIC = {b"\xff\xd8\xff": "jpg", b"\x89PNG": "png", b"RIFF": "webp", b"GIF8": "gif"}
_FAILURES = {outcome.name.lower() for outcome in Outcome} - {"unknown", "success"}
_ANSWERS = ("action/answer", "action/send_message")


def _screenshot_blob(step: Mapping[str, Any]) -> Blob | None:
    """Return the blob of a step's screenshot, if it is an image."""
    item = _entry(step, "screenshot")
    blob = blob_of(item) if type(item) is dict else None
    return blob if blob is not None and item[TAG] == "blob" and _is_image(blob.ext) else None


def _fill_episode(message: pb.TrajectoryData, data: Mapping[str, Any]) -> None:
    """Fill in the episode's result."""
    end = data.get("end")
    outcome = end.get("outcome") if type(end) is dict else None
    steps = data["steps"]
    last = steps[-1].get("action") if steps else None
    name = last.get("type") if type(last) is dict and last.get(TAG) == "record" else ""
    fields = last.get("fields") if type(last) is dict else None
    if outcome == "success":
        message.success.SetInParent()
        answered = type(name) is str and name in _ANSWERS
        text = fields.get("text") if answered and type(fields) is dict else None
        if type(text) is str:
            message.success.answer = text
    elif type(outcome) is str and outcome in _FAILURES:
        # Never zero, which some readers take for a success.
        infeasible = name == "action/report_infeasible"
        message.failure.failure_message = (
            _Failure.REPORT_INFEASIBLE if infeasible else _Failure.UNKNOWN_ERROR
        )


def _fill_step(
    action: pb.ActionData,
    step: Mapping[str, Any],
    *,
    name: str,
    domain: str,
    screenshot: bytes | None,
) -> None:
    """Fill in one action.

    Args:
        action: The message to fill. Fields that are stored nowhere else are set already.
        step: The step's data.
        name: A name that no other step has.
        domain: The episode's site.
        screenshot: The content of the step's `_screenshot_blob`.
    """
    action.id = hashlib.sha256(name.encode()).hexdigest()[:12]
    action.domain = domain
    action.after_state.SetInParent()
    if not action.browser_gym_action.action_string:
        action.browser_gym_action.action_string = _action_string(step.get("action"))
    _fill_result(action.after_state.browser_gym_observation, step)
    if type(step.get("observation")) is dict:
        _fill_viewport(action.after_state, step, screenshot)
        _fill_tabs(action.after_state.browser_gym_observation, step)


def _fill_result(observation: pb.BrowserGymObservation, step: Mapping[str, Any]) -> None:
    reward, discount = step.get("reward"), step.get("discount")
    if isinstance(reward, (int, float)):
        observation.reward = float(reward)
    if step.get("step_type") == "last" and isinstance(discount, (int, float)):
        observation.terminated = discount == 0
        observation.truncated = discount > 0


def _fill_viewport(state: pb.WebState, step: Mapping[str, Any], screenshot: bytes | None) -> None:
    blob = _screenshot_blob(step)
    item = _entry(step, "screenshot")
    ext = blob.ext if blob is not None else ""
    if screenshot is None and type(item) is dict:
        screenshot = inline_bytes(item)
        ext = next((e for m, e in _MAGIC.items() if (screenshot or b"").startswith(m)), "")
    if screenshot and _is_image(ext):
        state.viewport.screenshot.mime_type = _MIME_TYPES[ext]
        state.viewport.screenshot.content = screenshot
    scroll = _entry(step, "scroll")
    if type(scroll) is dict:
        for key in ("x", "y", "width", "height"):
            if type(scroll.get(key)) in (int, float):
                setattr(state.viewport.viewport_rect, key, float(scroll[key]))


def _fill_tabs(observation: pb.BrowserGymObservation, step: Mapping[str, Any]) -> None:
    tabs = _decode_short(_entry(step, "tabs") or _entry(step, "open_pages_urls"))
    if tabs is not None and all(isinstance(tab, str) and is_valid_text(tab) for tab in tabs):
        observation.open_pages_urls.extend(map(str, tabs))
    active = _entry(step, "active_tab")
    if type(active) is not int:
        indices = _decode_short(_entry(step, "active_page_index"))
        active = indices[0] if indices else None
    if type(active) is int and 0 <= active < 2**31:
        observation.active_page_index = active
    last_action = _entry(step, "last_action")
    error = last_action.get("error") if type(last_action) is dict else None
    # The observation's own error, if any, takes precedence.
    if type(error) is str and not observation.HasField("last_action_error"):
        observation.last_action_error = error


def _decode_short(data: Any) -> list[Any] | None:
    """Return a short list, tuple or array as a list."""
    if not isinstance(data, (dict, list)):
        return None
    try:
        value = decoding.decode(data)
        items = value.tolist() if hasattr(value, "tolist") else list(value)
    except (errors.CorruptDataError, TypeError):  # A blob, or not a list.
        return None
    return items if isinstance(items, list) else None


def _action_string(data: Any) -> str:
    if type(data) is not dict or not str(data.get("type")).startswith("action/"):
        return ""
    try:
        text = write_record(decoding.decode(data))
    except errors.WebtrajError:  # It has a blob, or breaks a rule of its class.
        return ""
    return text if is_valid_text(text) else ""


def _entry(step: Mapping[str, Any], key: str) -> Any:
    """Return one entry of a step's observation."""
    observation = step.get("observation")
    return observation.get(key) if type(observation) is dict else None


def _is_image(ext: str) -> bool:
    return _MIME_TYPES.get(ext, "").startswith("image/")


@dataclasses.dataclass(frozen=True, slots=True)
class ProtobufFormat:
    """The format of `<episode id>.pb`, plain or compressed."""

    name: str
    self_contained: bool = True

    def encode(self, episode: Mapping[str, Any], blobs: BlobSource) -> bytes:
        """Return the file's content.

        Raises:
            CorruptDataError: A blob is missing or damaged, or the data does not follow the format.
            DatasetError: The episode is larger than Protobuf can read.
            InvalidInputError: The format is read-only.
        """
        if self.name == "pb.xz":
            raise errors.InvalidInputError(
                "The format 'pb.xz' is read-only. Write 'pb' or 'pb.zst' instead."
            )
        content = _encode(episode, blobs)
        return compress_zst(content) if self.name == "pb.zst" else content

    def decode(self, content: bytes, where: str) -> StoredEpisode:
        """Return the contents of a file.

        Raises:
            CorruptDataError: It is not an episode, or it is too large.
            UnsupportedSchemaError: It was written by a newer webtraj.
        """
        plain = decompress(content, self.name.partition(".")[2], where)
        try:
            message = pb.TrajectoryData.FromString(plain)
        except (DecodeError, ValueError, RecursionError, MemoryError) as error:
            raise unreadable(where, error) from error
        return decode_message(message, where)


def decode_message(message: pb.TrajectoryData, where: str) -> StoredEpisode:
    """Return the episode in a message.

    Raises:
        CorruptDataError: It does not follow the schema, or was not written by webtraj.
        UnsupportedSchemaError: It was written by a newer webtraj.
    """
    version = message.webtraj.schema_version
    if version > SCHEMA_VERSION:
        check_data({"schema_version": version, "steps": [], "info": {}}, where)
    if version < 1:
        raise errors.CorruptDataError(
            f"{where!r} is not an episode of webtraj's. If it comes from Orby's collector, import "
            "it with webtraj.store.protobuf.orby.read_orby."
        )
    contents = [blob.content for blob in message.webtraj.blobs]
    reader = ValueReader(where)
    for action in message.actions:
        if not action.HasField("webtraj"):  # Two bytes, which would become a record of a thousand.
            reader.corrupt("an action has no fields of webtraj's")
        contents.append(action.after_state.viewport.screenshot.content)
    blobs = _InlineBlobs(filter(None, contents), where)
    try:
        data = records.get_episode(reader, message)
        orjson.dumps(data)  # Its values may be nested too deeply to be written again.
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
        _fill_episode(message, episode)
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
        if size <= MAX_SIZE:
            return message.SerializeToString(deterministic=True)
    except EncodeError:
        size = MAX_SIZE + 1
    raise _too_large(episode, size)


def _fill_steps(
    message: pb.TrajectoryData,
    episode: Mapping[str, Any],
    blobs: BlobSource,
    writer: ValueWriter,
) -> None:
    """Fill in the blobs; screenshots go where Orby's readers expect them."""
    shots = [_screenshot_blob(step) for step in episode["steps"]]
    others = {blob.sha256: blob for blob in writer.blobs}  # By content, whatever the extension.
    for shot in shots:
        if shot is not None:
            others.pop(shot.sha256, None)
    size = sum(blob.size for blob in (*shots, *others.values()) if blob is not None)
    if size > MAX_SIZE:
        raise _too_large(episode, size)  # Checked before reading any blob.
    for position, (action, step, shot) in enumerate(
        zip(message.actions, episode["steps"], shots, strict=True)
    ):
        _fill_step(
            action,
            step,
            name=f"{_name(episode)}/{position}",
            domain=message.domain,
            screenshot=None if shot is None else _content(blobs, shot),
        )
    for blob in others.values():
        entry = message.webtraj.blobs.add()
        entry.mime_type = _MIME_TYPES.get(blob.ext, "application/octet-stream")
        entry.content = _content(blobs, blob)
    goal = episode["info"].get("goal")
    long_goal = blob_of(goal) if type(goal) is dict else None
    if long_goal is not None:
        message.goal = _content(blobs, long_goal).decode("utf-8", "replace")


def _content(blobs: BlobSource, blob: Blob) -> bytes:
    content = bytes(blobs.read(blob))
    if len(content) != blob.size or hashlib.sha256(content).hexdigest() != blob.sha256:
        raise errors.CorruptDataError(
            f"The blob {blob.sha256!r} is not the {blob.size} bytes that its name states: it was "
            "changed or damaged after it was written."
        )
    return content


def _too_large(episode: Mapping[str, Any], size: int) -> errors.DatasetError:
    return errors.DatasetError(
        f"The episode {_name(episode)!r} has at least {size} bytes, but a Protobuf file can hold "
        f"only {MAX_SIZE}. Nothing was written. Use JSON, which has no limit."
    )


def _name(episode: Mapping[str, Any]) -> str:
    info = episode.get("info")
    return str(info.get("episode_id")) if isinstance(info, Mapping) else ""
