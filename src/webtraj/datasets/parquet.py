"""Write a dataset's index as a Parquet file, for pandas, DuckDB, `datasets` and the like.

One row per episode, in the dataset's order, with the fields of
`webtraj.store.index.EpisodeSummary` as columns, and `superseded`: whether another try of its row
counts. Times are seconds since the epoch (UTC), as in the index; outcomes and end reasons are names
in lower case. A seed beyond 64 bits becomes null, and lone surrogates become question marks; the
episode itself keeps both. Needs the extra `parquet`.
"""

from __future__ import annotations

import enum
import functools
import itertools
import os
import secrets
import tempfile
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.store.files import make_folder
from webtraj.store.foreign import valid_text
from webtraj.store.index import EpisodeSummary
from webtraj.store.places import is_url, open_storage

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["pyarrow", "write_parquet"]

_ROWS_AT_ONCE = 10_000
_SUPERSEDED = "superseded"


def write_parquet(
    summaries: Iterable[EpisodeSummary],
    target: str | os.PathLike[str],
    *,
    superseded: frozenset[str] = frozenset(),
    storage_options: Mapping[str, Any] | None = None,
) -> int:
    """Write summaries as a Parquet file, completely or not at all.

    Args:
        summaries: The summaries, consumed as a stream.
        target: The file's path or URL.
        superseded: The ids of the episodes that do not count, because another try of their row
            does.
        storage_options: Bucket options; see `webtraj.store.bucket.BucketStorage`.

    Returns:
        The number of rows.

    Raises:
        MissingDependencyError: pyarrow is not installed.
        StorageError: The file cannot be written.
    """
    if is_url(target):
        url, _, name = os.fspath(target).rpartition("/")
        with tempfile.TemporaryDirectory(prefix="webtraj-") as folder:
            path = Path(folder) / "index.parquet"
            count = _write(summaries, superseded, path)
            open_storage(url, storage_options).write(name, path.read_bytes())
        return count
    path = Path(target)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        make_folder(path.parent)
        try:
            count = _write(summaries, superseded, temporary)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        if isinstance(error, errors.WebtrajError):
            raise
        raise errors.StorageError(
            f"{str(path)!r} cannot be written: {errors.reason(error)}."
        ) from error
    return count


def pyarrow() -> tuple[Any, Any]:
    """Return the modules `pyarrow` and `pyarrow.parquet`.

    Raises:
        MissingDependencyError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise errors.missing_dependency(
            f"Parquet files need pyarrow ({error})", "parquet"
        ) from error
    return pa, pq


def _write(summaries: Iterable[EpisodeSummary], superseded: frozenset[str], path: Path) -> int:
    pa, pq = pyarrow()
    schema = _schema()
    count = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for rows in _batches(summaries):
            made = [{**_row(row), _SUPERSEDED: row.episode_id in superseded} for row in rows]
            writer.write_table(pa.Table.from_pylist(made, schema=schema))
            count += len(rows)
    return count


def _schema() -> pa.Schema:
    import pyarrow as pa

    types = {int: pa.int64(), float: pa.float64()}
    columns = [(name, types.get(of, pa.string())) for name, of in _columns().items()]
    return pa.schema([*columns, (_SUPERSEDED, pa.bool_())])


@functools.cache
def _columns() -> dict[str, type]:
    """Return the type of each field of a summary, without None and bounds."""
    return {name: _bare(hint) for name, hint in typing.get_type_hints(EpisodeSummary).items()}


def _bare(hint: Any) -> Any:
    return next((of for of in typing.get_args(hint) if of is not type(None)), hint)


def _batches(summaries: Iterable[EpisodeSummary]) -> Iterator[list[EpisodeSummary]]:
    waiting = iter(summaries)
    while batch := list(itertools.islice(waiting, _ROWS_AT_ONCE)):
        yield batch


def _row(summary: EpisodeSummary) -> dict[str, Any]:
    return {name: _cell(getattr(summary, name), of) for name, of in _columns().items()}


def _cell(value: Any, of: type[Any]) -> Any:
    if value is None:
        return None
    if of is str:
        return valid_text(value)
    if issubclass(of, enum.Enum):
        return value.name.lower()
    if of is int and not -(2**63) <= value < 2**63:
        return None
    return of(value)
