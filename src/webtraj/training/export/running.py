"""Writing an export: whole or not at all, and read back before it is called written."""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.datasets.exporters.running import new_place
from webtraj.datasets.place import Place
from webtraj.training.export import manifest
from webtraj.training.export.base import ExportReport, LeftOut, Row, SampleFormat, Split, name_of
from webtraj.training.export.pictures import PictureReader, Pictures
from webtraj.training.export.registry import make_format
from webtraj.training.samples import Sample

__all__ = ["export_samples", "write_samples"]

_DIGEST = 16


def export_samples(
    splits: Mapping[str, Iterable[Sample]],
    out: Place,
    *,
    format: str | SampleFormat = "sharegpt",  # noqa: A002  (As in export_dataset.)
    options: Mapping[str, Any] | None = None,
    origin: Mapping[str, Any] | None = None,
    episodes: Mapping[str, str] | None = None,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> ExportReport:
    """Writes samples in the files of a trainer. The same samples and options give the same bytes.

    Every row is read back and compared with the sample that it was made of, pictures included; only
    then the export takes its name.

    Args:
        splits: The samples by split: `train`, and `val` if there is one. Each is gone through once.
        out: A new folder or bucket's URL.
        format: A name of `FORMATS`, or a format.
        options: For a name: the format's options.
        origin: How the samples were chosen, for the manifest: datasets, filters, seed. JSON data.
        episodes: The SHA-256 of episodes' files by their ids, for the manifest.
        overwrite: Whether an earlier export is replaced.
        storage_options: For a bucket, as `webtraj.store.open_storage` takes them.

    Raises:
        InvalidInputError: There is something at `out`; or a split has no row at all, which a
            trainer would take for a file to do nothing with.
        CorruptDataError: A row does not read back as it was written.
        MissingDependencyError: The format needs a package that is not installed.
        StorageError: It cannot be written.
    """
    made = make_format(format, options) if isinstance(format, str) else format
    with new_place(out, overwrite=overwrite, storage_options=storage_options) as folder:
        report = write_samples(splits, folder, made)
        manifest.write(folder, made, report, origin=origin or {}, episodes=episodes or {})
    return report


def write_samples(
    splits: Mapping[str, Iterable[Sample]], folder: Path, made: SampleFormat
) -> ExportReport:
    """Writes samples into an empty folder, and reads them back. See `export_samples`."""
    if not splits:
        raise errors.InvalidInputError("There is no split to export; give train, at least.")
    pictures = Pictures(folder)
    counted = {}
    for name, samples in splits.items():
        split = counted[name] = Split(name)
        digests = array("B")
        made.write(_rows(samples, made, pictures, split, digests), folder, name)
        if not split.rows:
            raise errors.InvalidInputError(_empty(split))
        _check(made, folder, split, digests)
    report = ExportReport(made.name, counted, (), len(pictures))
    made.finish(folder, report)
    files = sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.parent.name != "images"
    )
    return dataclasses.replace(report, files=tuple(files))


def _rows(
    samples: Iterable[Sample],
    made: SampleFormat,
    pictures: Pictures,
    split: Split,
    digests: array[int],
) -> Iterator[Row]:
    for sample in pictures.looked_into(samples):
        row = made.row(sample, pictures)
        split.count(sample, row)
        if isinstance(row, LeftOut):
            continue
        digest = made.digest(row.sample or sample)[:_DIGEST]
        digests.frombytes(digest * row.copies)
        yield row


def _check(made: SampleFormat, folder: Path, split: Split, digests: array[int]) -> None:
    """Reads a split back.

    Raises:
        CorruptDataError: It is not what was written.
    """
    wanted = digests.tobytes()
    reader = PictureReader(folder)
    number = 0
    for row in made.read(folder, split.name):
        sample = made.sample_of(row, reader)
        at = number * _DIGEST
        if made.digest(sample)[:_DIGEST] != wanted[at : at + _DIGEST]:
            raise errors.CorruptDataError(
                f"Row {number} of {split.name!r} ({name_of(sample.key)}) does not read back as it "
                "was written. Nothing was exported; please report this."
            )
        number += 1
    if number != split.rows:
        raise errors.CorruptDataError(
            f"{number} rows of {split.name!r} read back, and {split.rows} were written."
        )


def _empty(split: Split) -> str:
    if not split.left_out:
        return f"There is no sample for {split.name!r}; see what the filters have dropped."
    reasons = ", ".join(f"{why} ({count})" for why, count in split.left_out.most_common(5))
    return f"No sample of {split.name!r} can be exported: {reasons}."
