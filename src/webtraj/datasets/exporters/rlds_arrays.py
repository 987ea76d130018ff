"""Columns as arrays, and arrays as .npz files that are the same whenever they are written."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from webtraj.datasets.exporters.base import unequal
from webtraj.datasets.exporters.columns import Column

__all__ = ["ColumnBuffer", "is_fixed", "layout_of", "write_npz"]

_SHORT = 256
"""Characters of the longest text that is kept in numpy's fixed strings, four bytes each."""
_BEGINNING = (1980, 1, 1, 0, 0, 0)
"""The first time that a zip file can tell; it stands for none."""

_Array = NDArray[Any]


def is_fixed(column: Column) -> bool:
    """Returns whether each row of a column takes as much room as any other."""
    if column.kind == "number":
        return column.shape is not None
    return column.kind == "text" and column.length <= _SHORT and not column.ends_with_zero


def layout_of(column: Column) -> dict[str, Any]:
    """Returns what the index says of a column."""
    layout: dict[str, Any] = {
        "kind": column.kind,
        "layout": "fixed" if is_fixed(column) else "ragged",
        "optional": column.optional,
    }
    if column.kind == "number":
        assert column.dtype is not None
        layout["dtype"] = column.dtype.name
        layout["shape"] = None if column.shape is None else list(column.shape)
    return layout


class ColumnBuffer:
    """The rows of a column that go to one file."""

    def __init__(self, column: Column) -> None:
        self._column = column
        self._fixed = is_fixed(column)
        self._rows: list[Any] = []
        self._present: list[bool] = []
        self.size = 0
        """Bytes so far, about."""

    def add(self, value: Any) -> None:
        """Adds a row; None for a step that has no value."""
        row = self._dummy() if value is None else self._column.render(value)
        if not self._fixed and isinstance(row, str):
            row = row.encode("utf-8", "surrogatepass")
        self._rows.append(row)
        self._present.append(value is not None)
        self.size += row.nbytes if isinstance(row, np.ndarray) else 4 * len(row)

    def arrays(self) -> dict[str, _Array]:
        """Returns the arrays of all rows, by their names in the file."""
        name, column = self._column.name, self._column
        arrays = self._fixed_arrays() if self._fixed else self._ragged_arrays()
        found = {name + end: array for end, array in arrays.items()}
        if column.optional:
            found[f"{name}:present"] = np.array(self._present, bool)
        return found

    def _fixed_arrays(self) -> dict[str, _Array]:
        column = self._column
        if column.kind == "text":
            return {"": np.array(self._rows, dtype=f"<U{max(column.length, 1)}")}
        assert column.shape is not None
        array = np.array(self._rows, dtype=column.dtype)
        return {"": array.reshape(len(self._rows), *column.shape)}

    def _ragged_arrays(self) -> dict[str, _Array]:
        column = self._column
        if column.kind == "number":
            flat = [row.ravel() for row in self._rows]
            values = np.concatenate(flat) if flat else np.empty(0, column.dtype)
            shapes = np.array([row.shape for row in self._rows], np.int64)
            return {
                "": values.astype(column.dtype, copy=False),
                ":offsets": _offsets([row.size for row in self._rows]),
                ":shape": shapes.reshape(len(self._rows), column.ndim),
            }
        return {
            "": np.frombuffer(b"".join(self._rows), np.uint8),
            ":offsets": _offsets([len(row) for row in self._rows]),
        }

    def _dummy(self) -> Any:
        column = self._column
        if column.kind == "number":
            shape = (0,) * column.ndim if column.shape is None else column.shape
            return np.zeros(shape, column.dtype)
        return "" if self._fixed else b""


def write_npz(path: Path, arrays: dict[str, _Array]) -> None:
    """Writes arrays as `numpy.savez_compressed` would, and reads them back.

    The file tells no time. Encoded bytes, which do not get smaller, are not compressed.

    Raises:
        StorageError: They are not the same.
    """
    with zipfile.ZipFile(path, "w") as file:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", _BEGINNING)
            stored = array.dtype == np.uint8 and array.ndim == 1
            entry.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
            with file.open(entry, "w", force_zip64=True) as member:
                member.write(content.getbuffer())
    with np.load(path, allow_pickle=False) as found:
        for name, array in arrays.items():
            again = found[name]
            same = again.dtype == array.dtype and again.shape == array.shape
            if not same or again.tobytes() != array.tobytes():
                raise unequal(path.name, f"an array {name!r}")


def _offsets(sizes: list[int]) -> _Array:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
