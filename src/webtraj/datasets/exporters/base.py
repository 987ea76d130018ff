"""The exporter interface, and how an export runs.

An exporter writes to an empty temporary folder. The result then appears at the target, a folder or
a bucket, completely or not at all.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib.metadata
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import orjson

import webtraj
from webtraj import errors
from webtraj.datasets.dataset import Dataset
from webtraj.datasets.place import Place
from webtraj.datasets.progress import count_items
from webtraj.settings.named import (
    check_installed,
    find_offered,
    list_names,
    make_of,
    nearest,
    register_as,
)
from webtraj.store import files, records
from webtraj.store.index import EpisodeSummary
from webtraj.store.places import is_url, open_storage
from webtraj.store.storage import FolderStorage, Storage
from webtraj.trajectory import Count, EndReason, EpisodeTrajectory, Outcome, is_finished

__all__ = [
    "ENTRY_POINT_GROUP",
    "Episodes",
    "ExportReport",
    "Exporter",
    "FORMATS",
    "Job",
    "Ledger",
    "LeftOut",
    "MANIFEST",
    "Note",
    "Transform",
    "VERSION",
    "Written",
    "all_formats",
    "describe_file",
    "export_dataset",
    "is_manifest",
    "make_exporter",
    "name_of",
    "new_place",
    "read_manifest",
    "register",
    "unequal",
    "write_manifest",
]

_Made = TypeVar("_Made")

Transform = Callable[[EpisodeTrajectory], EpisodeTrajectory]
"""Changes an episode before it is exported: redacts it, drops its pixels, ..."""

_EPISODES_AHEAD = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """A value that the format cannot hold, or stores differently."""

    episode_id: str
    field: str
    """Path of the field: `steps.observation.boxes`."""
    why: str
    """What was done with it."""
    count: int = 1
    """Number of such values of that field."""


@dataclasses.dataclass(frozen=True, slots=True)
class LeftOut:
    """An episode that was not exported."""

    episode_id: str
    why: str
    failed: bool
    """True if it could not be read; False if the format left it out."""


@dataclasses.dataclass(frozen=True, slots=True)
class Written:
    """An episode that was exported."""

    episode_id: str
    num_steps: int
    end_reason: EndReason
    outcome: Outcome
    superseded: bool
    """Whether another try of its row counts."""

    @property
    def finished(self) -> bool:
        """Whether the episode ended by itself without an error."""
        return is_finished(self.outcome, self.end_reason)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """The result of an export."""

    format: str
    written: tuple[Written, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every episode could be read."""
        return not any(item.failed for item in self.left_out)


class Ledger:
    """Collects the results of an export."""

    def __init__(self, superseded: frozenset[str] = frozenset()) -> None:
        self.superseded = superseded
        """The ids of the episodes that do not count, because another try of their row does."""
        self._written: dict[str, Written] = {}
        self._left_out: dict[str, LeftOut] = {}
        self._notes: dict[tuple[str, str, str], int] = {}

    def wrote(self, episode: EpisodeTrajectory) -> None:
        """Record that an episode was exported."""
        self._written[episode.episode_id] = Written(
            episode.episode_id,
            episode.num_steps,
            episode.end_reason,
            episode.outcome,
            episode.episode_id in self.superseded,
        )
        if episode.lost_step is not None:
            self.note(episode.episode_id, "steps", "some could not be recorded")

    def leave_out(self, episode_id: str, why: str, *, failed: bool = False) -> None:
        """Record that an episode is left out; `Episodes` then skips it."""
        self._left_out[episode_id] = LeftOut(episode_id, why, failed)

    def note(self, episode_id: str, field: str, why: str, count: int = 1) -> None:
        """Record what was done with a value."""
        key = (episode_id, field, why)
        self._notes[key] = self._notes.get(key, 0) + count

    def is_left_out(self, episode_id: str) -> bool:
        """Return whether an episode was left out already."""
        return episode_id in self._left_out

    def report(self, format_name: str) -> ExportReport:
        """Return the report of everything recorded."""
        return ExportReport(
            format=format_name,
            written=tuple(self._written.values()),
            left_out=tuple(self._left_out.values()),
            notes=tuple(Note(*key, count) for key, count in self._notes.items()),
        )


class Episodes:
    """The episodes to export, read from the dataset on each iteration.

    Unreadable episodes are left out. Only the current episode is in memory; from a bucket, also the
    next few.
    """

    def __init__(self, dataset: Dataset, ledger: Ledger, transform: Transform | None) -> None:
        self._dataset = dataset
        self._ledger = ledger
        self._transform = transform

    @property
    def summaries(self) -> Mapping[str, EpisodeSummary]:
        """The index summary of each episode, including unreadable ones."""
        return {summary.episode_id: summary for summary in self._dataset.summaries}

    def __iter__(self) -> Iterator[EpisodeTrajectory]:
        wanted = (i for i in self._dataset.episode_ids if not self._ledger.is_left_out(i))
        read = self._dataset.place.map(self._read, wanted, workers=_EPISODES_AHEAD)
        for found in count_items(read, "Exporting episodes", len(self._dataset)):
            if isinstance(found, LeftOut):
                self._ledger.leave_out(found.episode_id, found.why, failed=True)
            else:
                yield found

    def _read(self, episode_id: str) -> EpisodeTrajectory | LeftOut:
        try:
            episode = self._dataset[episode_id]
        except errors.DatasetError as error:
            return LeftOut(episode_id, f"it cannot be read: {error}", failed=True)
        return episode if self._transform is None else self._transform(episode)


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """The input of an exporter."""

    episodes: Episodes
    folder: Path
    """An empty folder."""
    name: str
    """The final name of the folder."""
    ledger: Ledger


class Exporter(Protocol):
    """One format, with its options as fields."""

    version: ClassVar[int]
    """Raised whenever the same episodes would give different bytes."""
    libraries: ClassVar[tuple[str, ...]]
    """The packages whose versions may change the bytes."""

    def export(self, job: Job) -> None:
        """Write the episodes.

        Raises:
            InvalidInputError: An option is invalid.
            MissingDependencyError: The format needs a package that is not installed.
            StorageError: The written files read back differently.
            OSError: The disk is full, or fails.
        """


def unequal(where: str, what: str) -> errors.StorageError:
    """Return the error for files that read back differently from what was written."""
    return errors.StorageError(
        f"{where!r} reads back with {what} that differs from what was written. Nothing was "
        "exported. Check the disk and the library versions, and please report this as a bug."
    )


def options_of(exporter: Any) -> dict[str, Any]:
    """Return an exporter's options by name."""
    return {field.name: getattr(exporter, field.name) for field in dataclasses.fields(exporter)}


# `webtraj-export.jsonl`: the export's contents and options, one JSON object per line.
#
# The first line describes the whole export::
#
#     {"webtraj_export": 1, "format": "atif", "format_version": 1, "webtraj": "0.2.0",
#      "libraries": {"numpy": "2.4.6"}, "options": {...}, "selection": {...}, "transform": "",
#      "num_episodes": 2, "num_left_out": 0,
#      "files": {"<path>": {"size": 1234, "sha256": "..."}, ...}}
#
# Then one line per episode, in the dataset's order::
#
#     {"episode_id": "...", "sha256": "<of its file in the dataset>", "num_steps": 3,
#      "end_reason": "terminated", "outcome": "success", "finished": true,
#      "superseded": false, "notes": [{"field": "...", "why": "...", "count": 3}]}
#     {"episode_id": "...", "sha256": "...", "left_out": "<why>"}
#
# It contains no times or paths: the same dataset and options give the same bytes.

MANIFEST = "webtraj-export.jsonl"
VERSION = 1


def write_manifest(
    folder: Path,
    exporter: Exporter,
    report: ExportReport,
    summaries: Mapping[str, EpisodeSummary],
    *,
    selection: Mapping[str, Any],
    transform: str,
) -> None:
    """Write the manifest of all files in a folder."""
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
            path.relative_to(folder).as_posix(): describe_file(path) for path in _files(folder)
        },
    }
    with (folder / MANIFEST).open("wb") as file:
        file.write(orjson.dumps(header) + b"\n")
        for line in _episode_lines(report, summaries):
            file.write(orjson.dumps(line) + b"\n")


def read_manifest(path: Path | str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the header and the episode lines of an export's manifest.

    Args:
        path: The export's folder, or its manifest.

    Raises:
        CorruptDataError: The manifest is missing, or does not follow the format.
    """
    path = Path(path)
    path = path / MANIFEST if path.is_dir() else path
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _no_manifest(str(path), error) from error
    return _parse_manifest(content, str(path))


def _parse_manifest(content: bytes, where: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    try:
        header, *episodes = [orjson.loads(line) for line in content.splitlines()]
        checked = records.read_object(_Header, header)
        for episode in episodes:
            records.read_object(_Episode, episode)
    except ValueError as error:
        raise _no_manifest(where, error) from error
    if checked.webtraj_export > VERSION:
        raise errors.UnsupportedSchemaError(
            f"{where!r} has manifest version {checked.webtraj_export}; this webtraj reads up "
            f"to {VERSION}. Upgrade webtraj."
        )
    return header, episodes


def _no_manifest(where: str, error: Exception) -> errors.CorruptDataError:
    return errors.CorruptDataError(
        f"{where!r} is not an export manifest: {error!s:.200}. Name a folder written by "
        "`webtraj export` or `webtraj train export`."
    )


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
    """Return whether the file at a path starts like a manifest."""
    try:
        with path.open("rb") as file:
            return file.read(18).startswith(b'{"webtraj_export":')
    except OSError:
        return False


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def describe_file(path: Path) -> dict[str, Any]:
    """Return what a manifest says about a file: its size in bytes, and its hash."""
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return {"size": path.stat().st_size, "sha256": sha256}


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
                "superseded": item.superseded,
                "notes": notes.get(episode_id, []),
            }


# The formats by name. A format is an entry point, imported on first use.

ENTRY_POINT_GROUP = "webtraj.exporters"

FORMATS = ("html", "huggingface")
"""The built-in formats. Packages offer those of other tools."""


def all_formats() -> dict[str, Any]:
    """Return the formats of all installed packages by name: each a class or `module:Class`."""
    return dict(sorted(find_offered(ENTRY_POINT_GROUP).items()))


def register(name: str) -> Callable[[_Made], _Made]:
    """Return a decorator that makes a class the exporter of a format.

    Raises:
        InvalidInputError: The name is that of a built-in format.
    """
    return register_as(ENTRY_POINT_GROUP, name, FORMATS)


def make_exporter(name: str, options: Mapping[str, Any] | None = None) -> Exporter:
    """Create the exporter of a format.

    Args:
        name: A key of `all_formats`.
        options: Values of its fields; text is converted, as from a command line.

    Raises:
        InvalidInputError: The format or an option is unknown, or a value is invalid.
        MissingDependencyError: The format needs a package that is not installed.
    """
    known = all_formats()
    if name not in known:
        check_installed(ENTRY_POINT_GROUP, name)
        raise errors.InvalidInputError(
            f"No export format {name!r:.60}. "
            f"{nearest(name, known, cutoff=0.6)}"
            f"The formats are {list_names(ENTRY_POINT_GROUP, known)}."
        )
    made: Exporter = make_of(known[name], name, options)
    return made


# The target of an export: a new folder or bucket, which gets everything or nothing.
#
# Files are written to a hidden folder next to the target, which is renamed when all is done. For a
# bucket they are uploaded at the end, the manifest last: if it exists, the export is complete.

_ANOTHER = "choose a new folder or URL"
_PICTURE = re.compile(r"images/[0-9a-f]{64}\.[a-z]+")
"""The name of a picture in an export of samples, whose manifest does not list them."""


def name_of(out: Place) -> str:
    """Return the last part of a path or URL.

    >>> name_of("exports/click-v0/"), name_of("s3://bucket/web/click-v0")
    ('click-v0', 'click-v0')
    """
    if is_url(out):
        return os.fspath(out).rstrip("/").rpartition("/")[2]
    return Path(os.path.abspath(out)).name  # noqa: PTH100  (Path.resolve would follow links.)


@contextlib.contextmanager
def new_place(
    out: Place,
    *,
    overwrite: bool,
    storage_options: Mapping[str, Any] | None,
    with_others: bool = False,
) -> Iterator[Path]:
    """Yield an empty folder, whose files are moved to `out` if the block succeeds.

    Args:
        out: A path or URL with nothing there yet, or with an earlier export.
        overwrite: Whether to replace an earlier export.
        with_others: Folder only: whether to delete other files along with the earlier export.
        storage_options: Bucket options; see `webtraj.store.bucket.BucketStorage`.

    Raises:
        InvalidInputError: `out` holds something that must not be overwritten.
        StorageError: `out` cannot be written.
    """
    storage = open_storage(out, storage_options)
    if not isinstance(storage, FolderStorage):
        with _new_prefix(storage, overwrite) as folder:
            yield folder
        return
    path = Path(os.path.abspath(storage.root))  # noqa: PTH100  (As above.)
    _check_free(path, overwrite, with_others)
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        files.make_folder(path.parent)
        temporary.mkdir()
        try:
            yield temporary
            files.sync_tree(temporary)
            _check_free(path, overwrite, with_others)
            _replace(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        if isinstance(error, errors.WebtrajError):
            raise
        raise errors.StorageError(
            f"Cannot write {str(path)!r}: {error}. Nothing was exported, and existing files were "
            "not changed."
        ) from error


@contextlib.contextmanager
def _new_prefix(storage: Storage, overwrite: bool) -> Iterator[Path]:
    there = sorted(entry.key for entry in storage.list())
    if there:
        if not (overwrite and MANIFEST in there):
            raise errors.InvalidInputError(_refuse(storage.url, overwrite, MANIFEST in there))
        _check_listed(storage.url, there, storage.read(MANIFEST))
    with tempfile.TemporaryDirectory(prefix="webtraj-export-") as temporary:
        folder = Path(temporary)
        yield folder
        keys = [path.relative_to(folder).as_posix() for path in _files(folder)]
        if there:  # Without a manifest, a half-replaced folder does not look like an export.
            storage.delete(MANIFEST)
        for key in sorted(keys, key=lambda key: key == MANIFEST):
            storage.write(key, (folder / key).read_bytes())
        for key in set(there) - set(keys):
            storage.delete(key)


def _check_free(path: Path, overwrite: bool, with_others: bool) -> None:
    if not path.exists():
        return
    if not path.is_dir():
        raise errors.InvalidInputError(f"{str(path)!r} is not a folder; {_ANOTHER}.")
    exported = is_manifest(path / MANIFEST)
    if any(path.iterdir()) and not (overwrite and exported):
        raise errors.InvalidInputError(_refuse(str(path), overwrite, exported))
    if exported and not with_others:
        there = (item for item in path.rglob("*") if item.is_symlink() or not item.is_dir())
        names = sorted(item.relative_to(path).as_posix() for item in there)
        _check_listed(str(path), names, (path / MANIFEST).read_bytes())


def _check_listed(where: str, there: Iterable[str], manifest: bytes) -> None:
    """Check that an earlier export wrote every file that replacing it would delete."""
    header, _ = _parse_manifest(manifest, where)
    listed = {*header.get("files", ()), MANIFEST}
    others = [name for name in there if name not in listed and not _PICTURE.fullmatch(name)]
    if others:
        more = f" and {len(others) - 1} more files" if len(others) > 1 else ""
        raise errors.InvalidInputError(
            f"{where!r} holds {others[0]!r:.200}{more}, which the earlier export did not write. "
            f"Move them away, or {_ANOTHER}."
        )


def _refuse(where: str, overwrite: bool, exported: bool) -> str:
    if exported:
        return f"{where!r} holds an earlier export; {_ANOTHER}, or overwrite it."
    said = "holds files that are not an export" if overwrite else "is not empty"
    return f"{where!r} {said}; {_ANOTHER}."


def _replace(temporary: Path, path: Path) -> None:
    """Replace one folder by another; on failure, restore the first."""
    aside = path.with_name(f".{secrets.token_hex(8)}.tmp")
    occupied = path.is_dir() and any(path.iterdir())
    if occupied:
        path.rename(aside)
    try:
        temporary.rename(path)
    except OSError:
        if occupied:
            aside.rename(path)
        raise
    files.sync_folder(path.parent)
    if occupied:
        shutil.rmtree(aside, ignore_errors=True)


def export_dataset(
    dataset: Dataset,
    out: Place,
    *,
    format: str,  # noqa: A002  (As in DatasetHeader.)
    options: Mapping[str, Any] | None = None,
    transform: Transform | None = None,
    selection: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> ExportReport:
    """Export the episodes of a dataset to another format, completely or not at all.

    Args:
        dataset: The dataset, opened with eager blobs; use `Dataset.filter` to select episodes.
        out: A new or empty folder, or a URL with nothing under it.
        format: A key of `all_formats`.
        options: The format's own options.
        transform: Changes each episode before it is exported. The manifest records its name.
        selection: How the episodes were selected, as JSON data for the manifest.
        overwrite: Whether to replace an earlier export at `out`. Any other file at `out` is an
            error.
        storage_options: Bucket options; see `webtraj.store.bucket.BucketStorage`.

    Returns:
        The episodes written and left out, and the values that were changed.

    Raises:
        InvalidInputError: The format or an option is unknown, or `out` is not empty.
        MissingDependencyError: The format needs a package that is not installed.
        StorageError: Reading or writing failed, or the files read back differently.
    """
    exporter = make_exporter(format, options)
    dataset.place.check_outside(out)
    ledger = Ledger(dataset.superseded)
    episodes = Episodes(dataset, ledger, transform)
    with new_place(out, overwrite=overwrite, storage_options=storage_options) as folder:
        exporter.export(Job(episodes, folder, name_of(out), ledger))
        report = ledger.report(format)
        write_manifest(
            folder,
            exporter,
            report,
            episodes.summaries,
            selection=selection or {},
            transform="" if transform is None else _name(transform),
        )
    return report


def _name(transform: Transform) -> str:
    of = transform if hasattr(transform, "__qualname__") else type(transform)
    return f"{of.__module__}.{of.__qualname__}"
