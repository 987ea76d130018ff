"""The Protobuf collector: episodes as Protobuf files in a dataset folder (see `layout`).

Each file holds its blobs itself. What the collector promises, and what a power cut can take, stands
in `journaling`; what the files hold in `webtraj.store.protobuf`.
"""

from __future__ import annotations

import os
from typing import Literal

from webtraj import errors
from webtraj.collectors.journaling import Fsync, JournalingCollector
from webtraj.store import formats
from webtraj.store.layout import DatasetHeader

__all__ = ["ProtobufTrajectoryCollector"]


class ProtobufTrajectoryCollector(JournalingCollector):
    """Keeps episodes as Protobuf files in a folder. Safe to share between tasks and threads."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        compression: Literal["zst"] | None = None,
        fsync: Fsync = "episode",
    ) -> None:
        """Initializes the collector, and the dataset folder if it is not there.

        Args:
            path: The dataset folder: new, empty, or a dataset already, which is added to.
            compression: None for `.pb` files, "zst" for `.pb.zst`.
            fsync: When to wait for the disk; see `webtraj.collectors.journaling`.

        Raises:
            CollectorError: The folder cannot be written.
            InvalidInputError: `compression` or `fsync` is none of its values, or the folder is a
                dataset of another format.
            MissingDependencyError: The packages of `webtraj[protobuf]` are not installed.
            NotADatasetError: The folder holds other things.
            UnsupportedSchemaError: The dataset was made by a newer webtraj.
        """
        if compression not in (None, "zst"):
            raise errors.InvalidInputError(
                f"compression={compression!r} is not known; expected None or 'zst'."
            )
        name = "pb" if compression is None else f"pb.{compression}"
        formats.format_named(name)  # Before a folder is made in vain.
        super().__init__(path, DatasetHeader(format=name), fsync=fsync)
