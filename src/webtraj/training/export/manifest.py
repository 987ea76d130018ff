"""`webtraj-export.jsonl` of training data: what it was made of, and how. One JSON object a line.

The first line is of the whole: the format and its options, what was left out and why, and `origin`:
the datasets, filters and seeds that the samples came by. Then comes a line for each episode::

    {"episode_id": "...", "sha256": "<of its file>", "samples": {"train": 7}}

It tells no time and no place: the same samples and options give the same bytes.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

import webtraj
from webtraj.datasets.exporters.base import MANIFEST, VERSION
from webtraj.training.export.base import ExportReport, SampleFormat

__all__ = ["write"]


def write(
    folder: Path,
    made: SampleFormat,
    report: ExportReport,
    *,
    origin: Mapping[str, Any],
    episodes: Mapping[str, str],
) -> None:
    """Writes the manifest of all that is in a folder."""
    ids = sorted({episode_id for split in report.splits.values() for episode_id in split.episodes})
    header = {
        "webtraj_export": VERSION,
        "format": report.format,
        "format_version": made.version,
        "webtraj": webtraj.__version__,
        "options": dataclasses.asdict(made) if dataclasses.is_dataclass(made) else {},
        "origin": origin,
        "num_episodes": len(ids),
        "num_pictures": report.num_pictures,
        "splits": {
            name: {
                "rows": split.rows,
                "samples": split.samples,
                "left_out": dict(sorted(split.left_out.items())),
                "changes": dict(sorted(split.changes.items())),
            }
            for name, split in report.splits.items()
        },
        "files": {name: _described(folder / name) for name in report.files},
    }
    with (folder / MANIFEST).open("wb") as file:
        file.write(orjson.dumps(header) + b"\n")
        for episode_id in ids:
            counts = {
                name: split.episodes[episode_id]
                for name, split in report.splits.items()
                if episode_id in split.episodes
            }
            line = {"episode_id": episode_id, "sha256": episodes.get(episode_id, "")}
            file.write(orjson.dumps({**line, "samples": counts}) + b"\n")


def _described(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"size": path.stat().st_size, "sha256": digest}
