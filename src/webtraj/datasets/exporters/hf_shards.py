"""Parquet files of limited size: `train-00000-of-00003.parquet`, with `datasets`' own metadata.

Rows are written in groups of a few dozen megabytes, so that no more is ever in memory. A file that
has reached its size is closed, and the next one begun; what they are called is known at the end,
when they are counted.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from webtraj.datasets.exporters.base import unequal
from webtraj.datasets.exporters.hf_tables import Column
from webtraj.datasets.parquet import pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ShardWriter"]

_GROUP_BYTES = 32 << 20
_GROUP_ROWS = 5_000
_ROW_BYTES = 500
"""What a row takes beside its texts and pictures, about."""


class ShardWriter:
    """Writes the rows of one table."""

    def __init__(
        self, folder: Path, name: str, columns: dict[str, Column], shard_bytes: int
    ) -> None:
        """Initializes the writer.

        Args:
            folder: Where the files go.
            name: How their names begin.
            columns: The table's columns.
            shard_bytes: The size from which another file is begun.

        Raises:
            MissingDependencyError: pyarrow is not installed.
        """
        self._pa, self._pq = pyarrow()
        folder.mkdir(exist_ok=True)
        self._folder, self._name, self._shard_bytes = folder, name, shard_bytes
        self._schema = _schema(columns)
        self._rows: list[dict[str, Any]] = []
        self._row_bytes = 0
        self._paths: list[Path] = []
        self._digests: list[str] = []
        self._writer: Any = None
        self._digest: Any = None
        self._written = 0
        self.num_rows = 0
        """Rows so far."""

    def add(self, row: dict[str, Any]) -> None:
        """Adds a row: a value for each column."""
        size = _size(row)
        if self._written + self._row_bytes + size > self._shard_bytes:
            self._end_shard()
        self._rows.append(row)
        self._row_bytes += size
        self.num_rows += 1
        if self._row_bytes >= _GROUP_BYTES or len(self._rows) >= _GROUP_ROWS:
            self._end_group()

    def close(self, *, failed: bool = False) -> None:
        """Completes the files and gives them their names; if it has `failed`, only closes them."""
        if failed:
            if self._writer is not None:
                self._writer.close()
            return
        if self._rows or self._writer is not None or not self._paths:
            self._end_shard()
        for i, path in enumerate(self._paths):
            name = f"{self._name}-{i:05}-of-{len(self._paths):05}.parquet"
            self._paths[i] = path.rename(self._folder / name)

    def check(self) -> None:
        """Reads all files, and compares them with what was written.

        Raises:
            StorageError: They are not the same.
        """
        for path, expected in zip(self._paths, self._digests, strict=True):
            digest = hashlib.sha256()
            with self._pq.ParquetFile(path) as file:
                found = file.schema_arrow
                if not found.equals(self._schema) or found.metadata != self._schema.metadata:
                    raise unequal(path.name, "a schema")
                for i in range(file.num_row_groups):
                    for row in file.read_row_group(i).to_pylist():
                        _count(row, digest)
            if digest.hexdigest() != expected:
                raise unequal(path.name, "a row")

    def _end_shard(self) -> None:
        if self.num_rows and not self._rows and self._writer is None:
            return
        self._end_group()
        self._writer.close()
        self._digests.append(self._digest.hexdigest())
        self._writer, self._written = None, 0

    def _end_group(self) -> None:
        if self._writer is None:
            path = self._folder / f"{self._name}.{len(self._paths)}.tmp"
            self._writer = self._pq.ParquetWriter(path, self._schema, compression="zstd")
            self._digest = hashlib.sha256()
            self._paths.append(path)
        table = self._pa.Table.from_pylist(self._rows, schema=self._schema)
        if self._rows:
            self._writer.write_table(table)
        for row in self._rows:
            _count({column: row[column] for column in self._schema.names}, self._digest)
        # Pictures do not get smaller; counted are the bytes that a file may have at most.
        self._written += self._row_bytes
        self._rows, self._row_bytes = [], 0


def _schema(columns: dict[str, Column]) -> pa.Schema:
    import pyarrow as pa

    features = {name: _feature(column.kind) for name, column in columns.items()}
    metadata = {"huggingface": orjson.dumps({"info": {"features": features}})}
    fields = [(name, _arrow_type(column.kind)) for name, column in columns.items()]
    return pa.schema(fields, metadata=metadata)


def _arrow_type(kind: str) -> pa.DataType:
    import pyarrow as pa

    if kind.startswith("["):
        return pa.list_(pa.field("element", _arrow_type(kind[1:-1])))  # As Parquet calls it.
    if kind == "image":
        return pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    if kind.startswith("{"):
        return pa.struct([(name, _arrow_type(inner)) for name, inner in _fields(kind)])
    return {
        "string": pa.string(),
        "int64": pa.int64(),
        "float64": pa.float64(),
        "bool": pa.bool_(),
    }[kind]


def _feature(kind: str) -> dict[str, Any] | list[Any]:
    """Returns a type as `datasets` writes it: in the way that old and new versions read."""
    if kind.startswith("[{"):  # A sequence of records would be read as a record of sequences.
        return [_feature(kind[1:-1])]
    if kind.startswith("["):
        return {"feature": _feature(kind[1:-1]), "_type": "Sequence"}
    if kind.startswith("{"):
        return {name: _feature(inner) for name, inner in _fields(kind)}
    if kind == "image":
        return {"_type": "Image"}
    return {"dtype": kind, "_type": "Value"}


def _fields(kind: str) -> list[tuple[str, str]]:
    """Returns names and kinds of a record's fields.

    >>> _fields("{role: string, content: [{type: string, text: string}]}")
    [('role', 'string'), ('content', '[{type: string, text: string}]')]
    """
    parts, depth = [""], 0
    for char in kind[1:-1]:
        depth += (char in "[{") - (char in "]}")
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    pairs = (part.partition(":") for part in parts)
    return [(name.strip(), inner.strip()) for name, _, inner in pairs]


def _size(row: dict[str, Any]) -> int:
    return _ROW_BYTES + sum(map(_size_of, row.values()))


def _size_of(value: Any) -> int:
    match value:
        case bytes():
            return len(value)
        case str():
            return len(value) * 4 if not value.isascii() else len(value)
        case list():
            return sum(map(_size_of, value))
        case dict():
            return sum(map(_size_of, value.values()))
    return 8


def _count(row: dict[str, Any], digest: Any) -> None:
    digest.update(orjson.dumps(row, default=lambda data: hashlib.sha256(data).hexdigest()))
