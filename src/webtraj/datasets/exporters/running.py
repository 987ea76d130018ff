"""Exporting: from a dataset to a new folder or bucket, in one of the formats."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.datasets.dataset import Dataset
from webtraj.datasets.exporters import base
from webtraj.datasets.exporters.base import MANIFEST, Exporter, is_manifest
from webtraj.datasets.place import Place
from webtraj.named import make_of, nearest
from webtraj.store import files
from webtraj.store.places import FolderStorage, Storage, is_url, open_storage

__all__ = ["FORMATS", "Format", "export_dataset", "make_exporter", "name_of", "new_place"]

# The formats by name. A new one is a line here, and a module that is imported when it is used.

_HERE = "webtraj.datasets.exporters"


@dataclasses.dataclass(frozen=True, slots=True)
class Format:
    """A format that episodes can be exported to."""

    home: str
    """The exporter's module and class, as `module:Class`."""
    summary: str
    """What it is, in a line."""


FORMATS: dict[str, Format] = {
    "atif": Format(f"{_HERE}.atif:AtifExporter", "Agent Trajectory Interchange Format, v1.8"),
    "minari": Format(f"{_HERE}.minari:MinariExporter", "a Minari dataset"),
    "huggingface": Format(f"{_HERE}.huggingface:HuggingFaceExporter", "Parquet with a card"),
    "html": Format("webtraj.viewer.exporter:HtmlExporter", "an HTML file an episode, to look at"),
}


def make_exporter(name: str, options: Mapping[str, Any] | None = None) -> Exporter:
    """Returns the exporter of a format.

    Args:
        name: A key of `FORMATS`.
        options: Values of its fields; text is converted, as from a command line.

    Raises:
        InvalidInputError: There is no such format or option, or a value does not do.
        MissingDependencyError: The format needs a package that is not installed.
    """
    if name not in FORMATS:
        raise errors.InvalidInputError(
            f"No export format {name!r:.60}. "
            f"{nearest(name, FORMATS, cutoff=0.6)}The formats are {', '.join(FORMATS)}."
        )
    made: Exporter = make_of(FORMATS[name].home, name, options)
    return made


# Where an export goes: a new folder or bucket, in which it is whole or not at all.
#
# Files are written to a hidden folder beside the target, which is renamed when all is done. To a
# bucket they are sent then, the manifest last: where it is, everything is.

_ANOTHER = "name a new folder or URL"


def name_of(out: Place) -> str:
    """Returns the last part of a path or URL.

    >>> name_of("exports/click-v0/"), name_of("s3://bucket/web/click-v0")
    ('click-v0', 'click-v0')
    """
    if is_url(out):
        return os.fspath(out).rstrip("/").rpartition("/")[2]
    return Path(os.path.abspath(out)).name  # noqa: PTH100  (Path.resolve would follow links.)


@contextlib.contextmanager
def new_place(
    out: Place, *, overwrite: bool, storage_options: Mapping[str, Any] | None
) -> Iterator[Path]:
    """Gives an empty folder, whose files are at `out` once the block is left in good order.

    Args:
        out: A path or URL at which there is nothing yet, or an earlier export.
        overwrite: Whether an earlier export is replaced.
        storage_options: For a bucket: what `webtraj.store.bucket.BucketStorage` takes.

    Raises:
        InvalidInputError: There is something at `out` that must stay.
        StorageError: It cannot be written.
    """
    storage = open_storage(out, storage_options)
    if not isinstance(storage, FolderStorage):
        with _new_prefix(storage, overwrite) as folder:
            yield folder
        return
    path = Path(os.path.abspath(storage.root))  # noqa: PTH100  (As above.)
    _check_free(path, overwrite)
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        files.make_folder(path.parent)
        temporary.mkdir()
        try:
            yield temporary
            files.sync_tree(temporary)
            _replace(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        if isinstance(error, errors.WebtrajError):
            raise
        raise errors.StorageError(
            f"{str(path)!r} cannot be written: {error}. Nothing was exported; what was there is "
            "still there."
        ) from error


@contextlib.contextmanager
def _new_prefix(storage: Storage, overwrite: bool) -> Iterator[Path]:
    there = sorted(entry.key for entry in storage.list())
    if there and not (overwrite and MANIFEST in there):
        raise errors.InvalidInputError(_occupied(storage.url, overwrite, MANIFEST in there))
    with tempfile.TemporaryDirectory(prefix="webtraj-export-") as temporary:
        folder = Path(temporary)
        yield folder
        keys = sorted(p.relative_to(folder).as_posix() for p in _files(folder))
        if there:  # Without its manifest, what is half replaced is no export.
            storage.delete(MANIFEST)
        for key in sorted(keys, key=lambda key: key == MANIFEST):
            storage.write(key, (folder / key).read_bytes())
        for key in set(there) - set(keys):
            storage.delete(key)


def _check_free(path: Path, overwrite: bool) -> None:
    if not path.exists():
        return
    if not path.is_dir():
        raise errors.InvalidInputError(f"{str(path)!r} is no folder; {_ANOTHER}.")
    exported = is_manifest(path / MANIFEST)
    if any(path.iterdir()) and not (overwrite and exported):
        raise errors.InvalidInputError(_occupied(str(path), overwrite, exported))


def _occupied(where: str, overwrite: bool, exported: bool) -> str:
    if exported:
        return f"{where!r} holds an earlier export; {_ANOTHER}, or overwrite it."
    said = "holds things that are no export, and are not overwritten" if overwrite else "is taken"
    return f"{where!r} {said}; {_ANOTHER}."


def _replace(temporary: Path, path: Path) -> None:
    """Puts a folder in the place of another, which is back if that fails."""
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


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def export_dataset(
    dataset: Dataset,
    out: Place,
    *,
    format: str,  # noqa: A002  (As in DatasetHeader.)
    options: Mapping[str, Any] | None = None,
    transform: base.Transform | None = None,
    selection: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> base.ExportReport:
    """Writes the episodes of a dataset in another format. It is there whole or not at all.

    Args:
        dataset: What to export, opened with eager blobs; `Dataset.filter` chooses episodes.
        out: A new or empty folder, or a URL under which there is nothing.
        format: A key of `webtraj.datasets.exporters.FORMATS`.
        options: The format's own options.
        transform: Makes of each episode the one that is exported. It is named in the manifest.
        selection: How the episodes were chosen, for the manifest: JSON data.
        overwrite: Whether an earlier export at `out` is replaced.
        storage_options: For a bucket: what `webtraj.store.bucket.BucketStorage` takes.

    Returns:
        What was written, what was left out, and which values are not as they were.

    Raises:
        InvalidInputError: There is no such format or option, or `out` is taken.
        MissingDependencyError: The format needs a package that is not installed.
        StorageError: It cannot be read or written, or does not read back as it was written.
    """
    exporter = make_exporter(format, options)
    _check_apart(dataset, out)
    ledger = base.Ledger()
    episodes = base.Episodes(dataset, ledger, transform)
    with new_place(out, overwrite=overwrite, storage_options=storage_options) as folder:
        exporter.export(base.Job(episodes, folder, name_of(out), ledger))
        report = ledger.report(format)
        base.write_manifest(
            folder,
            exporter,
            report,
            episodes.summaries,
            selection=selection or {},
            transform="" if transform is None else _name(transform),
        )
    return report


def _check_apart(dataset: Dataset, out: Place) -> None:
    layout = dataset.place.layout
    if layout is None or is_url(out):
        return
    if Path(out).resolve().is_relative_to(layout.root.resolve()):
        raise errors.InvalidInputError(
            f"{str(out)!r} lies in the dataset {dataset.url!r}, which holds nothing but episodes; "
            "name a folder elsewhere."
        )


def _name(transform: base.Transform) -> str:
    of = transform if hasattr(transform, "__qualname__") else type(transform)
    return f"{of.__module__}.{of.__qualname__}"
