"""Writing of exports: atomic, and verified by reading them back.

The manifest `webtraj-export.jsonl` has one JSON object per line. The first line describes the whole
export: the format and its options, what was left out and why, and `origin`: the datasets, filters
and seeds of the samples. Then comes a line for each episode::

    {"episode_id": "...", "sha256": "<of its file>", "samples": {"train": 7}}

It contains no times and no paths: the same samples and options give the same bytes.
"""

from __future__ import annotations

import dataclasses
import operator
import os
from array import array
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

import webtraj
from webtraj import errors
from webtraj.datasets import progress
from webtraj.datasets.exporters import base as exporters_lib
from webtraj.datasets.exporters.base import (
    MANIFEST,
    VERSION,
    describe_file,
    new_place,
    read_manifest,
)
from webtraj.datasets.place import Place
from webtraj.settings.named import find_offered, make_of, nearest
from webtraj.training.export.base import (
    ExportReport,
    LeftOut,
    Row,
    SampleFormat,
    Split,
    fault_of_reply,
)
from webtraj.training.export.pictures import PictureReader, Pictures
from webtraj.training.samples import Sample, name_of

__all__ = [
    "ENTRY_POINT_GROUP", "FORMATS", "all_formats", "export_samples", "make_format", "read_export",
    "write", "write_samples",
]  # fmt: skip

# The formats of training data by name; each module is imported on first use. Installed packages add
# more through the entry-point group `webtraj.training_formats`.

ENTRY_POINT_GROUP = "webtraj.training_formats"

_HERE = "webtraj.training.export"

FORMATS: Mapping[str, tuple[str, str]] = {
    "sharegpt": (f"{_HERE}.sharegpt:ShareGptFormat", "ShareGPT, for LLaMA-Factory"),
    "openai": (f"{_HERE}.openai:OpenAIFormat", "OpenAI's messages, a conversation a line"),
    "trl": (f"{_HERE}.trl:TrlFormat", "prompt and completion with images in Parquet, for TRL"),
    "preferences": (f"{_HERE}.sharegpt:RankingFormat", "pairs of replies, for LLaMA-Factory's DPO"),
    "trl-preferences": (f"{_HERE}.trl:TrlPreferencesFormat", "pairs in Parquet, for TRL's DPO"),
    "tokens": (f"{_HERE}.tokens:TokensFormat", "exact token ids with log-probabilities, for RL"),
}
"""The class of each format as `module:Class`, with a one-line description."""


def all_formats() -> dict[str, tuple[str, str]]:
    """Return the built-in formats and those of installed packages, as in `FORMATS`."""
    others = find_offered(ENTRY_POINT_GROUP, FORMATS)
    return {**{name: (home, "from another package") for name, home in others.items()}, **FORMATS}


def make_format(name: str, options: Mapping[str, Any] | None = None) -> SampleFormat:
    """Create a format by name.

    Args:
        name: A key of `FORMATS`, or a format of an installed package.
        options: Values of its fields. Text is converted, as on a command line.

    Raises:
        InvalidInputError: There is no such format or option, or a value is invalid.
    """
    known = all_formats()
    if name not in known:
        raise errors.InvalidInputError(
            f"Unknown format of training data: {name!r:.60}. "
            f"{nearest(name, known, cutoff=0.5)}The formats are {', '.join(known)}."
        )
    made: SampleFormat = make_of(known[name][0], name, options)
    return made


# The manifest.


def write(
    folder: Path,
    made: SampleFormat,
    report: ExportReport,
    *,
    origin: Mapping[str, Any],
    episodes: Mapping[str, str],
) -> None:
    """Write the manifest of a folder."""
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
        "files": {name: describe_file(folder / name) for name in report.files},
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


# Reading exports of samples in any format.


def read_export(folder: str | os.PathLike[str], split: str = "train") -> Iterator[Sample]:
    """Yield the samples of an export, with the parts that its format holds.

    Raises:
        InvalidInputError: The folder is not an export of samples, or has no such split.
        CorruptDataError: A row does not follow the format.
    """
    folder = Path(folder)
    header, _ = read_manifest(folder)
    if header["format"] not in (known := all_formats()):
        episodes = header["format"] in exporters_lib.all_formats()
        raise errors.InvalidInputError(
            f"{str(folder)!r} is an export in the format {header['format']!r:.60}, which "
            f"{'holds episodes' if episodes else 'is not known here'}. "
            f"{nearest(header['format'], known)}Expected a format of samples: {', '.join(known)}."
        )
    if split not in header["splits"]:
        raise errors.InvalidInputError(
            f"{str(folder)!r} has no split {split!r:.60}; it has {', '.join(header['splits'])}."
        )
    return _samples(make_format(header["format"], header["options"]), folder, split)


def _samples(made: SampleFormat, folder: Path, split: str) -> Iterator[Sample]:
    pictures = PictureReader(folder)
    number = 0
    try:
        for row in made.read(folder, split):
            yield made.sample_of(row, pictures)
            number += 1
    except errors.CorruptDataError:
        raise
    except (LookupError, TypeError, ValueError) as error:
        said = str(error) if isinstance(error, errors.WebtrajError) else f"{error!r:.100}."
        raise errors.CorruptDataError(
            f"Row {number} does not follow the format {made.name!r}: {said}"
        ) from error


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
    """Export samples for a trainer. The same samples and options give the same bytes.

    Every row is read back and compared with its sample, pictures included, before the export
    appears at `out`.

    Args:
        splits: The samples by split: `train`, and optionally `val`. Each is iterated once.
        out: A new folder or bucket URL.
        format: A format, or the name of one.
        options: Options of a named format.
        origin: The datasets, filters and seed of the samples, as JSON data for the manifest.
        episodes: The SHA-256 of the episodes' files by id, for the manifest.
        overwrite: Whether to replace an earlier export.
        storage_options: Options for a bucket: see `webtraj.store.open_storage`.

    Raises:
        InvalidInputError: `out` exists, or a split would have no rows.
        CorruptDataError: A row does not read back as it was written.
        MissingDependencyError: The format needs a package that is not installed.
        StorageError: `out` cannot be written.
    """
    made = make_format(format, options) if isinstance(format, str) else format
    with new_place(out, overwrite=overwrite, storage_options=storage_options) as folder:
        report = write_samples(splits, folder, made)
        write(folder, made, report, origin=origin or {}, episodes=episodes or {})
    return report


def write_samples(
    splits: Mapping[str, Iterable[Sample]], folder: Path, made: SampleFormat
) -> ExportReport:
    """Write samples into an empty folder, and read them back. See `export_samples`."""
    if not splits:
        raise errors.InvalidInputError("No split to export. Pass at least train.")
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
    total = operator.length_hint(samples)
    looked = pictures.check_ahead(samples)
    for sample in progress.count_items(looked, "Writing samples", total):
        fault = fault_of_reply(sample.finish_reason, ends=made.is_text)
        row = fault or made.row(sample, pictures)
        if isinstance(row, Row) and made.is_text and sample.left_out:
            row = dataclasses.replace(row, changes={**sample.left_out, **row.changes})
        split.count(sample, row)
        if isinstance(row, LeftOut):
            continue
        digest = made.digest(row.sample or sample)[:_DIGEST]
        digests.frombytes(digest * row.copies)
        yield row


def _check(made: SampleFormat, folder: Path, split: Split, digests: array[int]) -> None:
    """Read a split back.

    Raises:
        CorruptDataError: The split differs from what was written.
    """
    wanted = digests.tobytes()
    reader = PictureReader(folder)
    number = 0
    rows = made.read(folder, split.name)
    for row in progress.count_items(rows, "Checking samples", split.rows):
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
        return f"No samples for {split.name!r}. See what the filters dropped."
    reasons = ", ".join(f"{why} ({count})" for why, count in split.left_out.most_common(5))
    return f"No sample of {split.name!r} can be exported: {reasons}."
