"""The format and the collector that record a rollout."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from webtraj import errors
from webtraj.runs.run import SETTINGS, Run
from webtraj.runs.spec import EpisodeFormat
from webtraj.store.formats import format_named
from webtraj.store.places import is_url

if TYPE_CHECKING:
    from webtraj.collectors.bucket import S3TrajectoryCollector
    from webtraj.collectors.local import JsonTrajectoryCollector, ProtobufTrajectoryCollector

__all__ = ["EpisodeFormat", "check_format", "open_collector", "settle_format"]

_FORMATS = get_args(EpisodeFormat)
_DEFAULT: EpisodeFormat = "json"


def check_format(wanted: str | None) -> EpisodeFormat | None:
    """Return a format after checking that rollouts can write it and its packages are installed.

    Raises:
        InvalidInputError: Rollouts cannot write that format.
        MissingDependencyError: It needs a package that is not installed.
    """
    if wanted is None:
        return None
    if wanted not in _FORMATS:
        raise errors.InvalidInputError(
            f"Unknown episode format {wanted!r:.60}; expected one of {', '.join(_FORMATS)}."
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
    """Return the format to write episodes in: the dataset's own, if it has one.

    Args:
        wanted: The requested format; None for any.
        out: The dataset.
        storage_options: Bucket options.
        run: The run to resume. A bucket holds the plan before the dataset's header; until then the
            format comes from the run's settings.
        new: The format of a new dataset if none is requested.

    Raises:
        InvalidInputError: The dataset has another format, or the name is unknown.
        MissingDependencyError: The format needs a package that is not installed.
        StorageError: A bucket cannot be read.
    """
    check_format(wanted)
    own = _format_of_dataset(out, storage_options)
    if own is None and run is not None:
        own = run.read_settings().get("format", _DEFAULT)
        if own not in _FORMATS:
            raise errors.InvalidInputError(
                f"'runs/{run.run_id}/{SETTINGS}' in {os.fspath(out)!r} has format={own!r:.60}; "
                f"expected one of {', '.join(_FORMATS)}. Correct it."
            )
    if own is not None and wanted not in (None, own):
        raise errors.InvalidInputError(
            f"The dataset {os.fspath(out)!r} has format {own!r}, but {wanted!r} was requested. "
            "Leave out the format or record to another place; `webtraj copy` changes the format "
            "of a dataset."
        )
    return check_format(own or wanted or new) or new


def open_collector(
    out: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None,
    format_name: EpisodeFormat,
    *,
    close_timeout: float = 300.0,
) -> JsonTrajectoryCollector | ProtobufTrajectoryCollector | S3TrajectoryCollector:
    """Open a collector.

    Args:
        out: A folder or bucket URL.
        storage_options: Bucket options.
        format_name: The result of `settle_format`.
        close_timeout: For a bucket: seconds to wait on close for unsent episodes.

    Raises:
        WebtrajError: See the collectors.
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
    """Return the format in the dataset's header; None if it has no header yet."""
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
