"""`webtraj-export.jsonl`: what an export holds, and how it was made. One JSON object a line.

The first line is of the whole::

    {"webtraj_export": 1, "format": "atif", "format_version": 1, "webtraj": "0.1.0",
     "libraries": {"numpy": "2.4.6"}, "options": {...}, "selection": {...}, "transform": "",
     "num_episodes": 2, "num_left_out": 0,
     "files": {"<path>": {"size": 1234, "sha256": "..."}, ...}}

Then comes a line for each episode, in the dataset's order::

    {"episode_id": "...", "sha256": "<of its file in the dataset>", "num_steps": 3,
     "end_reason": "terminated", "outcome": "success", "finished": true,
     "notes": [{"field": "...", "why": "...", "count": 3}]}
    {"episode_id": "...", "sha256": "...", "left_out": "<why>"}

It tells no time and no place: the same dataset and options give the same bytes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

import webtraj
from webtraj import errors
from webtraj.datasets.exporters.base import Exporter, ExportReport, options_of
from webtraj.store import records
from webtraj.store.index import EpisodeSummary
from webtraj.trajectory import Count

__all__ = ["MANIFEST", "VERSION", "is_manifest", "read_manifest", "write_manifest"]

MANIFEST = "webtraj-export.jsonl"
VERSION = 1
_CHUNK = 1 << 20


def write_manifest(
    folder: Path,
    exporter: Exporter,
    report: ExportReport,
    summaries: Mapping[str, EpisodeSummary],
    *,
    selection: Mapping[str, Any],
    transform: str,
) -> None:
    """Writes the manifest of all files of a folder."""
    header = {
        "webtraj_export": VERSION,
        "format": report.format,
        "format_version": exporter.version,
        "webtraj": webtraj.__version__,
        "libraries": {name: importlib.metadata.version(name) for name in exporter.libraries},
        "options": options_of(exporter),
        "selection": dict(selection),
        "transform": transform,
        "num_episodes": len(report.written),
        "num_left_out": len(report.left_out),
        "files": {
            path.relative_to(folder).as_posix(): {
                "size": path.stat().st_size,
                "sha256": _sha256(path),
            }
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        },
    }
    with (folder / MANIFEST).open("wb") as file:
        file.write(orjson.dumps(header) + b"\n")
        for line in _episode_lines(report, summaries):
            file.write(orjson.dumps(line) + b"\n")


def read_manifest(path: Path | str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Returns the first line of an export's manifest, and those of its episodes.

    Args:
        path: The export's folder, or the manifest.

    Raises:
        CorruptDataError: There is none, or it does not follow the format.
    """
    path = Path(path)
    path = path / MANIFEST if path.is_dir() else path
    try:
        header, *episodes = [orjson.loads(line) for line in path.read_bytes().splitlines()]
        checked = records.read_object(_Header, header)
        for episode in episodes:
            records.read_object(_Episode, episode)
    except (OSError, ValueError) as error:
        raise errors.CorruptDataError(
            f"{str(path)!r} is not a manifest of an export: {error!s:.200}. Name a folder that "
            "`webtraj export` wrote."
        ) from error
    if checked.webtraj_export > VERSION:
        raise errors.UnsupportedSchemaError(
            f"{str(path)!r} is of version {checked.webtraj_export}; this webtraj reads up to "
            f"{VERSION}. Install a newer one."
        )
    return header, episodes


@dataclasses.dataclass(frozen=True, slots=True)
class _Header:
    webtraj_export: Count
    format: str = ""
    options: Mapping[str, object] = dataclasses.field(default_factory=dict)
    files: Mapping[str, Mapping[str, object]] = dataclasses.field(default_factory=dict)
    splits: Mapping[str, Mapping[str, object]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class _Episode:
    episode_id: str
    sha256: str = ""
    left_out: str = ""


def is_manifest(path: Path) -> bool:
    """Returns whether there is a manifest at a path, by how it begins."""
    try:
        with path.open("rb") as file:
            return file.read(18).startswith(b'{"webtraj_export":')
    except OSError:
        return False


def _episode_lines(
    report: ExportReport, summaries: Mapping[str, EpisodeSummary]
) -> Iterator[dict[str, Any]]:
    notes: dict[str, list[dict[str, Any]]] = {}
    for note in report.notes:
        said = {"field": note.field, "why": note.why, "count": note.count}
        notes.setdefault(note.episode_id, []).append(said)
    written = {item.episode_id: item for item in report.written}
    left_out = {item.episode_id: item for item in report.left_out}
    for episode_id, summary in summaries.items():
        line: dict[str, Any] = {"episode_id": episode_id, "sha256": summary.sha256}
        if episode_id in left_out:
            yield {**line, "left_out": left_out[episode_id].why}
        elif episode_id in written:
            item = written[episode_id]
            yield {
                **line,
                "num_steps": item.num_steps,
                "end_reason": item.end_reason.name.lower(),
                "outcome": item.outcome.name.lower(),
                "finished": item.finished,
                "notes": notes.get(episode_id, []),
            }


def _sha256(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            total.update(chunk)
    return total.hexdigest()
