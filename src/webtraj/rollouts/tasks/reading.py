"""Reading task files: JSON lines or Parquet, a row at a time, in a folder or a bucket.

A file with bad rows is refused as a whole, since a rollout that leaves out some of its tasks would
be taken for one that played them all; the error names the first bad rows by number.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO

import orjson

from webtraj import errors
from webtraj.rollouts.tasks.rows import spec_of_row
from webtraj.rollouts.tasks.spec import TaskSpec
from webtraj.store.places import open_file

__all__ = ["read_tasks"]

_MAX_PROBLEMS = 10
_MAX_LINE = 16 * 2**20
_BATCH = 1024


def read_tasks(
    place: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> Iterator[TaskSpec]:
    """Yields the tasks of a file, in order; only a few are in memory at a time.

    Args:
        place: A `.jsonl` or `.parquet` file: its path, or its URL in a bucket. What a row may be
            stands in `webtraj.rollouts.tasks.rows`.
        storage_options: For a bucket, as `webtraj.store.open_storage` takes them.

    Raises:
        InvalidInputError: The file is missing or of another kind; or rows of it are wrong, which
            is known when the first of them has been come to.
        StorageError: The bucket cannot be read.
    """
    name = os.fspath(place)
    if not name.endswith((".jsonl", ".parquet")):
        raise errors.InvalidInputError(
            f"{name!r} is no task file; expected one that ends in .jsonl or .parquet."
        )
    return _read(name, storage_options)


def _read(name: str, storage_options: Mapping[str, Any] | None) -> Iterator[TaskSpec]:
    expected = "a .jsonl or .parquet file"
    with open_file(name, storage_options, what="task file", expected=expected) as file:
        rows = _rows_of_parquet(file, name) if name.endswith(".parquet") else _rows_of_lines(file)
        yield from _checked(rows, name)


def _checked(rows: Iterable[tuple[int, Any]], name: str) -> Iterator[TaskSpec]:
    problems: list[str] = []
    for number, row in rows:
        try:
            spec = spec_of_row(row() if callable(row) else row)
        except errors.InvalidInputError as error:
            problems.append(f"row {number}: {error}")
            if len(problems) == _MAX_PROBLEMS:
                break
            continue
        if not problems:
            yield spec
    if problems:
        more = " (there may be more)" if len(problems) == _MAX_PROBLEMS else ""
        raise errors.InvalidInputError(
            f"{name!r} has bad rows{more}:\n  " + "\n  ".join(problems) + "\nMend or remove them."
        )


def _rows_of_lines(file: BinaryIO) -> Iterator[tuple[int, Any]]:
    number = 0
    while line := file.readline(_MAX_LINE):
        number += 1
        if len(line) == _MAX_LINE:
            yield number, _raiser(f"longer than {_MAX_LINE} bytes")
            return
        if line.strip():
            yield number, _parser(line)


def _parser(line: bytes) -> Any:
    def parse() -> Any:
        try:
            return orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise errors.InvalidInputError(f"no JSON: {error}") from error

    return parse


def _raiser(problem: str) -> Any:
    def fail() -> Any:
        raise errors.InvalidInputError(problem)

    return fail


def _rows_of_parquet(file: BinaryIO, name: str) -> Iterator[tuple[int, Any]]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise errors.missing_dependency(f"Reading {name!r} needs pyarrow", "parquet") from error
    try:
        batches = parquet.ParquetFile(file).iter_batches(_BATCH)
        rows = (row for batch in batches for row in batch.to_pylist())
        yield from enumerate(rows, start=1)
    except pa.ArrowException as error:
        raise errors.InvalidInputError(f"{name!r} is no readable Parquet file: {error}.") from error
