"""Episodes that ended and wait in spools on this machine to be sent to the bucket."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from webtraj import errors
from webtraj.store.index import EpisodeSummary

__all__ = ["Unsent"]


class Unsent:
    """Reads the index lines of one run's episodes in spools, each once.

    Args:
        spools: The spools.
        run_id: The run.
    """

    def __init__(self, spools: Iterable[Path], run_id: str) -> None:
        self._folders = [spool / "index" for spool in spools]
        self._prefix = f"{run_id}-"
        self._known: dict[str, EpisodeSummary] = {}

    def look(self) -> Mapping[str, EpisodeSummary]:
        """Returns those that wait now, by id."""
        found: dict[str, EpisodeSummary] = {}
        for folder in self._folders:
            try:
                names = os.listdir(folder)  # noqa: PTH208  (Many names, and no paths.)
            except FileNotFoundError:
                continue
            for name in names:
                if not (name.startswith(self._prefix) and name.endswith(".jsonl")):
                    continue
                episode_id = name.removesuffix(".jsonl")
                summary = self._known.get(episode_id) or _read(folder / name)
                if summary is not None:
                    found[episode_id] = summary
        self._known = found
        return found


def _read(path: Path) -> EpisodeSummary | None:
    try:
        return EpisodeSummary.from_line(path.read_bytes())
    except errors.UnsupportedSchemaError:
        raise
    except (OSError, ValueError):  # Sent meanwhile, or just being written.
        return None
