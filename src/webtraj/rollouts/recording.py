"""How a rollout is recorded: in which format, and by which collector."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from webtraj import errors
from webtraj.rollouts.runs import Run
from webtraj.store.layout import format_named
from webtraj.store.places import is_url

if TYPE_CHECKING:
    from webtraj.collectors.bucket import S3TrajectoryCollector
    from webtraj.collectors.local import JsonTrajectoryCollector, ProtobufTrajectoryCollector

__all__ = ["EpisodeFormat", "checked_format", "open_collector", "settle_format"]

EpisodeFormat = Literal["json", "pb", "pb.zst"]
"""What rollouts write: JSON, or Protobuf, as it is or compressed (`webtraj.store`)."""

_FORMATS = ("json", "pb", "pb.zst")
_DEFAULT: EpisodeFormat = "json"


def checked_format(wanted: str | None) -> EpisodeFormat | None:
    """Returns a format that is one that rollouts write, and whose packages are installed.

    Raises:
        InvalidInputError: It is none.
        MissingDependencyError: It needs a package that is not installed.
    """
    if wanted is None:
        return None
    if wanted not in _FORMATS:
        raise errors.InvalidInputError(
            f"format={wanted!r:.60} is none that a rollout writes; expected one of "
            f"{', '.join(_FORMATS)}."
        )

    format_named(wanted)
    return cast("EpisodeFormat", wanted)


def settle_format(
    wanted: str | None,
    out: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None,
    *,
    run: Run | None = None,
    new: EpisodeFormat = _DEFAULT,
) -> EpisodeFormat:
    """Returns the format that episodes are written in: the dataset's own, where there is one.

    Args:
        wanted: The format that is asked for; None for any.
        out: The dataset.
        storage_options: For a bucket.
        run: The run that is gone on with. A bucket has its plan before it has a dataset's header,
            and then what the run was begun with says the format.
        new: The format of a new dataset, unless another is asked for.

    Raises:
        InvalidInputError: The dataset has another format, or there is none of that name.
        MissingDependencyError: The format needs a package that is not installed.
        StorageError: A bucket cannot be read.
    """
    checked_format(wanted)
    own = _format_of_dataset(out, storage_options)
    if own is None and run is not None:
        own = run.read_settings().get("format", _DEFAULT)
        if own not in _FORMATS:
            raise errors.InvalidInputError(
                f"'runs/{run.run_id}/settings.json' in {os.fspath(out)!r} has format={own!r:.60}; "
                f"expected one of {', '.join(_FORMATS)}. Correct it."
            )
    if own is not None and wanted not in (None, own):
        raise errors.InvalidInputError(
            f"The dataset {os.fspath(out)!r} has the format {own!r}, and {wanted!r} was asked for. "
            "Leave the format out, or name another place; `webtraj convert` makes one format of "
            "another."
        )
    return checked_format(own or wanted or new) or new


def open_collector(
    out: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None,
    format_name: EpisodeFormat,
    *,
    close_timeout: float = 300.0,
) -> JsonTrajectoryCollector | ProtobufTrajectoryCollector | S3TrajectoryCollector:
    """Opens a collector.

    Args:
        out: A folder, or a bucket's URL.
        storage_options: For a bucket.
        format_name: What `settle_format` returned.
        close_timeout: For a bucket: seconds to wait in the end for what has not been sent.

    Raises:
        WebtrajError: As the collectors' initializers do.
    """
    if is_url(out):
        from webtraj.collectors.bucket import S3TrajectoryCollector

        return S3TrajectoryCollector(
            os.fspath(out),
            format=format_name,
            storage_options=storage_options,
            close_timeout=close_timeout,
        )
    if format_name == "json":
        from webtraj.collectors.local import JsonTrajectoryCollector

        return JsonTrajectoryCollector(out)
    from webtraj.collectors.local import ProtobufTrajectoryCollector

    return ProtobufTrajectoryCollector(out, compression="zst" if format_name == "pb.zst" else None)


def _format_of_dataset(
    out: str | os.PathLike[str], storage_options: Mapping[str, Any] | None
) -> str | None:
    """Returns what the dataset's header says; None where there is no header yet."""
    if not is_url(out):
        from webtraj.store.layout import DatasetLayout

        layout = DatasetLayout(Path(out))
        return layout.check().format if layout.header.exists() else None
    from webtraj.store.layout import HEADER, DatasetHeader
    from webtraj.store.places import open_storage

    storage = open_storage(out, storage_options)
    try:
        content = storage.read(HEADER)
    except errors.StorageMissingError:
        return None
    return DatasetHeader.from_bytes(content, f"{storage.url}/{HEADER}").format
