"""Reads what the exporter `rlds` wrote, with numpy alone. The format stands in `rlds`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from webtraj import errors

__all__ = ["RldsEpisodes"]

_VERSION = 1


class RldsEpisodes:
    """The episodes of an export, one at a time: a sequence that can be gone through again.

    An episode is what the index says of it, and under `steps` a column by name: an array for
    numbers of one shape, else a list with a value a step, None where a step has none.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Opens an export.

        Raises:
            CorruptDataError: It is none, or is damaged.
            UnsupportedSchemaError: It was written by a newer webtraj.
        """
        self._folder = Path(folder)
        try:
            index = json.loads((self._folder / "index.json").read_bytes())
            version = index["webtraj_rlds"]
            self.columns: dict[str, dict[str, Any]] = index["columns"]
            """What each column holds."""
            self.episodes: list[dict[str, Any]] = index["episodes"]
            """What is known of each episode."""
            self._files = [shard["file"] for shard in index["shards"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise errors.CorruptDataError(
                f"{str(folder)!r} is no export in the format rlds: {error!r:.200}."
            ) from error
        if version > _VERSION:
            raise errors.UnsupportedSchemaError(
                f"{str(folder)!r} is of version {version}; this webtraj reads up to {_VERSION}."
            )
        self._shard = -1
        self._arrays: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self.episodes)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Returns an episode by its position.

        Raises:
            CorruptDataError: Its file is damaged.
        """
        about = self.episodes[index]
        try:
            if about["stop"] > about["start"]:
                self._load(about["shard"])
            rows = slice(about["start"], about["stop"])
            names = ("is_first", "is_last", "is_terminal", "reward", "discount")
            steps: dict[str, Any] = {name: self._array(name)[rows] for name in names}
            for name, layout in self.columns.items():
                steps[name] = self._column(name, layout, rows)
        except (OSError, ValueError, KeyError, IndexError) as error:
            raise errors.CorruptDataError(
                f"The episode {about.get('episode_id')!r} in {str(self._folder)!r} cannot be "
                f"read: {error!r:.200}."
            ) from error
        return {**about, "steps": steps}

    def _load(self, shard: int) -> None:
        if shard != self._shard:
            with np.load(self._folder / self._files[shard], allow_pickle=False) as file:
                self._arrays = {name: file[name] for name in file.files}
            self._shard = shard

    def _array(self, name: str) -> Any:
        return self._arrays[name] if self._arrays else np.empty(0)

    def _column(self, name: str, layout: dict[str, Any], rows: slice) -> Any:
        if rows.stop <= rows.start:
            return []
        array = self._arrays[name]
        if layout["layout"] == "fixed":
            found: Any = array[rows]
            if layout["kind"] == "text":
                found = found.tolist()
        else:
            offsets = self._arrays[f"{name}:offsets"]
            found = [array[offsets[i] : offsets[i + 1]] for i in range(rows.start, rows.stop)]
            if layout["kind"] == "number":
                shapes = self._arrays[f"{name}:shape"][rows]
                found = [a.reshape(shape) for a, shape in zip(found, shapes, strict=True)]
            else:
                found = [a.tobytes() for a in found]
                if layout["kind"] != "bytes":
                    found = [data.decode("utf-8", "surrogatepass") for data in found]
        if layout["optional"]:
            present = self._arrays[f"{name}:present"][rows]
            return [v if there else None for v, there in zip(found, present, strict=True)]
        return found
