"""Make datasets safe to share: drop pictures, page sources, files and credentials.

`shareable` makes the shareable version of one episode, `share` of a whole dataset. `stripping`
lists what is dropped; `EpisodeInfo.metadata["shareable"]` counts it by kind. Kept are ids and
provenance, goals, axtrees and other text, actions, thoughts, model calls, rewards and times. The
result is checked: every episode is decoded as it would be written, and searched for pictures by a
second, independent method. If a picture is left, the episode is an error.

The same episode, rules and version give the same result, so an interrupted `share` can be run
again: existing episodes are compared, and skipped if they are the same.
"""

from __future__ import annotations

import base64
import collections
import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import numpy as np

import webtraj
from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.datasets.dataset import Dataset, encode_episode, open_dataset
from webtraj.datasets.place import Place
from webtraj.datasets.progress import counted
from webtraj.datasets.stripping import KINDS, Stripper, is_image, is_picture, picture_in
from webtraj.datasets.transfer import TransferReport
from webtraj.datasets.writer import DatasetWriter, MemoryBlobs
from webtraj.environments.redacting import redact_episode
from webtraj.redaction import RedactionRules
from webtraj.store.blobs import Blob
from webtraj.store.index import EpisodeSummary

__all__ = ["SHAREABLE", "ShareReport", "check_shareable", "share", "shareable"]

SHAREABLE: Final = "shareable"
"""Key in `EpisodeInfo.metadata` of the dropped counts and the webtraj version."""

_KEEPABLE = tuple(kind for kind in KINDS if kind != "images")

_STILL_THERE = (
    "The episode {episode_id!r} would still hold a picture ({where}), so it was not written. "
    "Remove that value from the source first, and please report this as a bug."
)


@dataclasses.dataclass(frozen=True, slots=True)
class ShareReport(TransferReport):
    """The result for each episode, and what was dropped from the written ones."""

    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Values dropped, by kind."""
    redactions: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Redactions by the rules given to `share`, by rule."""


def shareable(
    trajectory: trajectory_lib.EpisodeTrajectory,
    *,
    keep: Collection[str] = (),
    rules: RedactionRules | None = None,
) -> trajectory_lib.EpisodeTrajectory:
    """Return a version of an episode that is safe to share. The original is not changed.

    >>> from webtraj.trajectory import EpisodeInfo, StepRecord, StepType
    >>> picture = bytes([0xFF, 0xD8, 0xFF]) + b" and so on"
    >>> step = StepRecord(0, StepType.FIRST, {"axtree": "text", "screenshot": picture})
    >>> made = shareable(trajectory_lib.EpisodeTrajectory(EpisodeInfo(), (step,)))
    >>> made.steps[0].observation
    {'axtree': 'text', 'screenshot': b''}
    >>> made.info.metadata["shareable"]["dropped"]
    {'images': 1}

    Args:
        trajectory: The episode.
        keep: Kinds to keep: files, html, credentials, storage. A kept file may be or contain a
            picture that is not detected, such as a PDF or a video.
        rules: Values to redact, in addition to those redacted when recording.

    Raises:
        InvalidInputError: A kind is unknown, or a picture would be left.
    """
    made = _stripped(trajectory, _kept(keep), rules)
    if made.end is not None:  # An open episode cannot be encoded, so it cannot be checked.
        check_shareable(made)
    return made


def share(
    source: Place | Dataset,
    target: Place,
    *,
    keep: Collection[str] = (),
    rules: RedactionRules | None = None,
    format: str | None = None,  # noqa: A002  (As in DatasetHeader.)
    where: Callable[[EpisodeSummary], bool] | None = None,
    source_options: Mapping[str, Any] | None = None,
    target_options: Mapping[str, Any] | None = None,
) -> ShareReport:
    """Write the shareable version of a dataset, one episode at a time.

    Args:
        source: The dataset, its folder or its URL.
        target: A folder or URL: new, empty, or the target of an interrupted call.
        keep: Kinds to keep; see `shareable`.
        rules: Values to redact, in addition to those redacted when recording.
        format: The target's format. Default: the source's.
        where: Predicate that selects episodes. Default: all.
        source_options: Bucket options; see `webtraj.store.bucket.BucketStorage`.
        target_options: The same, for the target.

    Raises:
        InvalidInputError: A kind is unknown, or the target has another format or is the source.
        NotADatasetError: The source is not a dataset, or the target holds other files.
        UnsupportedSchemaError: A newer webtraj wrote one of them.
        StorageError: One of them could not be read or written; run it again.
    """
    kept = _kept(keep)
    # Lazy blobs: dropped pictures are never read.
    dataset = (
        source
        if isinstance(source, Dataset)
        else open_dataset(source, blobs="lazy", storage_options=source_options, complete=True)
    )
    chosen = dataset if where is None else dataset.filter(where)
    wanted = format or dataset.place.header.format
    found: dict[str, list[str]] = {"added": [], "skipped": [], "clashes": [], "failed": []}
    dropped: collections.Counter[str] = collections.Counter()
    redactions: collections.Counter[str] = collections.Counter()
    with DatasetWriter(target, format=wanted, storage_options=target_options) as writer:
        if writer.url == dataset.url:
            raise errors.InvalidInputError(
                f"{writer.url!r} is both the source and the target. Choose another target."
            )
        summaries = chosen.summaries
        for summary in counted(
            summaries, "Copying episodes", len(summaries), size=lambda one: one.size
        ):
            episode_id = summary.episode_id
            try:
                made = _stripped(chosen[episode_id], kept, rules)
                kind, what = _written(made, writer)
            except errors.UnsupportedSchemaError:
                raise
            except (errors.CorruptDataError, errors.UnwritableValueError) as error:
                kind, what = "failed", f"{episode_id}: {error}"
            except errors.InvalidInputError as error:
                kind, what = "failed", str(error)
            found[kind].append(what)
            if kind in ("added", "skipped"):
                dropped.update(made.info.metadata[SHAREABLE]["dropped"])
                redactions.update(made.info.metadata[SHAREABLE]["redactions"])
    return ShareReport(
        **{kind: tuple(names) for kind, names in found.items()},
        dropped=dict(dropped),
        redactions=dict(redactions),
    )


def check_shareable(trajectory: trajectory_lib.EpisodeTrajectory) -> None:
    """Check that an episode, as it would be written, holds no picture.

    Raises:
        InvalidInputError: It holds one, or the episode cannot be written.
    """
    blobs = MemoryBlobs()
    _check(encode_episode(trajectory, blobs), blobs, trajectory.episode_id)


def _kept(keep: Collection[str]) -> frozenset[str]:
    kept = frozenset((keep,) if isinstance(keep, str) else keep)
    unknown = sorted(kept.difference(_KEEPABLE))
    if unknown:
        raise errors.InvalidInputError(
            f"Unknown keep={unknown}; expected {', '.join(_KEEPABLE)}. Pictures are always "
            "dropped; to keep everything, use `webtraj copy`."
        )
    return kept


def _stripped(
    trajectory: trajectory_lib.EpisodeTrajectory,
    keep: frozenset[str],
    rules: RedactionRules | None,
) -> trajectory_lib.EpisodeTrajectory:
    stripper = Stripper(keep)
    # Replace the metadata of an earlier call.
    known = {key: v for key, v in trajectory.info.metadata.items() if key != SHAREABLE}
    stripped = dataclasses.replace(
        trajectory,
        steps=tuple(map(stripper.strip, trajectory.steps)),
        end=stripper.strip(trajectory.end),
        info=stripper.strip(dataclasses.replace(trajectory.info, metadata=known)),
    )
    made, counts = redact_episode(stripped, rules=rules)
    shareable_info = {
        "dropped": {kind: stripper.counts[kind] for kind in KINDS if stripper.counts[kind]},
        "kept": sorted(keep),
        "redactions": counts,
        "webtraj": webtraj.__version__,
    }
    metadata = {**made.info.metadata, SHAREABLE: shareable_info}
    return dataclasses.replace(made, info=dataclasses.replace(made.info, metadata=metadata))


def _written(
    trajectory: trajectory_lib.EpisodeTrajectory, writer: DatasetWriter
) -> tuple[str, str]:
    blobs = MemoryBlobs()
    data = encode_episode(trajectory, blobs)
    _check(data, blobs, trajectory.episode_id)
    content = writer.format.encode(data, blobs)
    try:
        added_now = writer.add_file(data, content, blobs).added
    except errors.StorageConflictError as error:
        return "clashes", str(error)
    return ("added" if added_now else "skipped"), trajectory.episode_id


def _check(data: Mapping[str, Any], blobs: MemoryBlobs, episode_id: str) -> None:
    for path, value in _leaves(data, ""):
        if _shows(value, blobs):
            where = f"at {path}"
            raise errors.InvalidInputError(_STILL_THERE.format(episode_id=episode_id, where=where))


def _leaves(data: Any, path: str) -> Iterable[tuple[str, Any]]:
    """Yield the leaves of an episode's data; a tagged value is one leaf."""
    if isinstance(data, Mapping):
        if data.get("$") in ("bytes", "blob", "text", "ndarray"):
            yield path, data
        if data.get("$") == "ndarray" and not isinstance(data.get("v"), list):
            return  # Raw numbers may start like an image file; the shape decides.
        for key, value in data.items():
            yield f"{path}, a key", str(key)
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _leaves(value, f"{path}[{index}]")
    elif isinstance(data, str):
        yield path, data


def _shows(value: Any, blobs: MemoryBlobs) -> bool:
    if isinstance(value, str):
        return picture_in(value)
    match value["$"]:
        case "bytes":
            return _bytes_show(base64.b64decode(value["v"]))
        case "blob":
            return _bytes_show(blobs.read(_blob(value)))
        case "text":
            return picture_in(blobs.read(_blob(value)).decode("utf-8", "surrogatepass"))
        case _:
            return _is_picture(value)


def _blob(tag: Mapping[str, Any]) -> Blob:
    return Blob(tag["sha256"], tag["ext"], tag["size"])


def _bytes_show(data: bytes) -> bool:
    return is_image(data) or picture_in(data.decode("latin-1"))


def _is_picture(value: Mapping[str, Any]) -> bool:
    try:
        dtype, shape = np.dtype(value["dtype"]), tuple(value["shape"])
    except (TypeError, ValueError):  # A structured or custom dtype.
        return False
    return is_picture(np.broadcast_to(np.zeros((), dtype), shape))
