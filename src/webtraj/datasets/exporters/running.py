"""Exporting: from a dataset to a new folder or bucket, in one of the formats."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.datasets.dataset import Dataset
from webtraj.datasets.exporters import base, manifest, target
from webtraj.datasets.exporters.registry import make_exporter
from webtraj.datasets.place import Place
from webtraj.store.places import is_url

__all__ = ["export_dataset"]


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
    with target.new_place(out, overwrite=overwrite, storage_options=storage_options) as folder:
        exporter.export(base.Job(episodes, folder, target.name_of(out), ledger))
        report = ledger.report(format)
        manifest.write_manifest(
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
