"""The JSON collector: episodes as JSON files in a dataset folder (see `layout`).

What it promises, and what a power cut can take, stands in `journaling`.
"""

from __future__ import annotations

import os

from webtraj.collectors.journaling import Fsync, JournalingCollector
from webtraj.store.layout import DatasetHeader

__all__ = ["Fsync", "JsonTrajectoryCollector"]


class JsonTrajectoryCollector(JournalingCollector):
    """Keeps episodes as JSON files in a folder. Safe to share between tasks and threads."""

    def __init__(self, path: str | os.PathLike[str], *, fsync: Fsync = "episode") -> None:
        """Initializes the collector, and the dataset folder if it is not there.

        Args:
            path: The dataset folder: new, empty, or a dataset already, which is added to.
            fsync: When to wait for the disk; see `webtraj.collectors.journaling`.

        Raises:
            CollectorError: The folder cannot be written.
            InvalidInputError: `fsync` is none of its values, or the folder is a dataset of another
                format.
            NotADatasetError: The folder holds other things.
            UnsupportedSchemaError: The dataset was made by a newer webtraj.
        """
        super().__init__(path, DatasetHeader(format="json"), fsync=fsync)
