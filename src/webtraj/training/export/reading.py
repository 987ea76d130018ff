"""Reading exports of samples back, whatever their format."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.datasets.exporters.base import read_manifest
from webtraj.training.export.base import SampleFormat
from webtraj.training.export.pictures import PictureReader
from webtraj.training.export.registry import FORMATS, make_format
from webtraj.training.samples import Sample

__all__ = ["read_export"]


def read_export(folder: str | os.PathLike[str], split: str = "train") -> Iterator[Sample]:
    """Yields the samples of an export, as its rows have them.

    Raises:
        InvalidInputError: It is no export of samples, or has no such split.
        CorruptDataError: A row does not follow the format.
    """
    folder = Path(folder)
    header, _ = read_manifest(folder)
    if header["format"] not in FORMATS:
        raise errors.InvalidInputError(
            f"{str(folder)!r} is an export of the format {header['format']!r:.60}, which holds "
            f"episodes; expected one of samples: {', '.join(FORMATS)}."
        )
    if split not in header["splits"]:
        raise errors.InvalidInputError(
            f"{str(folder)!r} has no split {split!r:.60}; it has {', '.join(header['splits'])}."
        )
    made: SampleFormat = make_format(header["format"], header["options"])
    pictures = PictureReader(folder)
    return _samples(made, made.read(folder, split), pictures)


def _samples(
    made: SampleFormat, rows: Iterable[Mapping[str, Any]], pictures: PictureReader
) -> Iterator[Sample]:
    for number, row in enumerate(rows):
        try:
            yield made.sample_of(row, pictures)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            if isinstance(error, errors.WebtrajError):
                raise
            raise errors.CorruptDataError(
                f"Row {number} does not follow the format {made.name!r}: {error!r:.200}."
            ) from error
