"""Rows in JSON files, written and read as they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from webtraj import errors
from webtraj.training.export.base import Row

__all__ = ["read_array", "read_lines", "write_array", "write_lines"]


def write_array(path: Path, rows: Iterable[Row]) -> None:
    """Writes rows as one array, a row a line."""
    with path.open("wb") as file:
        before = b"[\n"
        for row in rows:
            line = orjson.dumps(row.data)
            for _ in range(row.copies):
                file.write(before + line)
                before = b",\n"
        file.write(b"[]\n" if before == b"[\n" else b"\n]\n")


def write_lines(path: Path, rows: Iterable[Row]) -> None:
    """Writes rows as lines."""
    with path.open("wb") as file:
        for row in rows:
            line = orjson.dumps(row.data) + b"\n"
            for _ in range(row.copies):
                file.write(line)


def read_array(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yields the rows that `write_array` wrote, without reading all of them at once.

    Raises:
        CorruptDataError: They are not as it writes them.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip() in (b"[", b"]", b"[]"):
                continue
            yield _row(path, number, line.rstrip().removesuffix(b","))


def read_lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yields the rows that `write_lines` wrote.

    Raises:
        CorruptDataError: They are not as it writes them.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            yield _row(path, number, line)


def _row(path: Path, number: int, line: bytes) -> Mapping[str, Any]:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise errors.CorruptDataError(f"{path.name}, line {number}: no JSON: {error}.") from error
    if not isinstance(row, dict):
        raise errors.CorruptDataError(f"{path.name}, line {number}: no object.")
    return row
