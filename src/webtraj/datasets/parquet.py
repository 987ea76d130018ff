"""Write a dataset's index as a Parquet file, for pandas, DuckDB, `datasets` and the like.

One row per episode, in the dataset's order, as in `webtraj.datasets.tables`. Needs the extra
`parquet`.
"""

from __future__ import annotations

import itertools
import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.datasets.tables import episode_columns, episode_row
from webtraj.store.files import make_folder
from webtraj.store.index import EpisodeSummary
from webtraj.store.places import is_url, open_storage

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["pyarrow", "write_parquet"]

_ROWS_AT_ONCE = 10_000


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
        superseded: The ids of superseded episodes; see `Dataset.superseded`.
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
            made = [episode_row(row, superseded) for row in rows]
            writer.write_table(pa.Table.from_pylist(made, schema=schema))
            count += len(rows)
    return count


def _schema() -> pa.Schema:
    import pyarrow as pa

    types = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    return pa.schema([(name, types.get(of, pa.string())) for name, of in episode_columns().items()])


def _batches(summaries: Iterable[EpisodeSummary]) -> Iterator[list[EpisodeSummary]]:
    waiting = iter(summaries)
    while batch := list(itertools.islice(waiting, _ROWS_AT_ONCE)):
        yield batch
