"""From nests of any values to columns of one type each, for formats of arrays.

A nest of mappings becomes columns named by paths: `observation/last_action/box`. What a column
holds is found out by going through all values first (`Fit`). Its kinds:

* `number`: numbers and arrays of them, of one dtype; of one shape, or of one number of dimensions.
* `text`: strings; actions in webtraj's dialect.
* `bytes`: encoded pictures and other bytes.
* `json`: all else, and what is of several kinds in turn, as JSON text (see `plain`).

Numbers of several dtypes become one that holds all of them exactly; if there is none they are JSON.
An empty mapping leaves no trace. In names, `/`, `:`, `%` and names of dots are written as `%2F`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from webtraj.datasets.exporters.plain import action_text, to_json
from webtraj.environments.actions import Action

__all__ = ["Column", "Fit", "Kind", "flatten"]

Kind = Literal["number", "text", "bytes", "json"]
_EXACT = 2**53
"""Up to here every integer is a float64."""


def flatten(value: Any, path: str) -> dict[str, Any]:
    """Returns the leaves of a nest by their paths; None is no leaf.

    >>> flatten({"a": {"b": 1, "c": None}, "d/e": 2}, "observation")
    {'observation/a/b': 1, 'observation/d%2Fe': 2}
    """
    return dict(_leaves(value, path))


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """What a column holds."""

    name: str
    kind: Kind
    dtype: np.dtype[Any] | None = None
    """Of numbers."""
    shape: tuple[int, ...] | None = None
    """Of each number or array; None if they differ."""
    optional: bool = False
    """Whether some steps have no value."""
    low: float | None = None
    high: float | None = None
    """The least and the greatest number, both if all are integers without dimensions."""

    def render(self, value: Any) -> Any:
        """Returns a leaf as the column holds it: an array, a text, or bytes."""
        match self.kind:
            case "number":
                return np.asarray(value, self.dtype).reshape(np.shape(value))
            case "text":
                return _text(value)
            case "bytes":
                return bytes(value)
        return to_json(value)


class Fit:
    """Finds out what columns hold what they are shown."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._rows: dict[str, int] = {}

    def see(self, group: str, value: Any) -> None:
        """Shows one step's value of a group of columns, such as `observation`."""
        self._rows[group] = self._rows.get(group, 0) + 1
        for name, leaf in flatten(value, group).items():
            self._seen.setdefault(name, _Seen(group)).see(leaf)

    def columns(self) -> dict[str, Column]:
        """Returns the columns by name, in the order of their names."""
        return {
            name: seen.column(name, self._rows[seen.group])
            for name, seen in sorted(self._seen.items())
        }


class _Seen:
    """What was seen of one column."""

    def __init__(self, group: str) -> None:
        self.group = group
        self._count = 0
        self._kinds: set[Kind] = set()
        self._dtypes: set[np.dtype[Any]] = set()
        self._shapes: set[tuple[int, ...]] = set()
        self._largest = 0
        self._bounds: tuple[int, int] | None = None

    def see(self, leaf: Any) -> None:
        self._count += 1
        kind = _kind(leaf)
        self._kinds.add(kind)
        if kind == "number":
            self._see_number(np.asarray(leaf), neutral=_is_empty_list(leaf))

    def column(self, name: str, rows: int) -> Column:
        optional = self._count < rows
        kind: Kind = next(iter(self._kinds)) if len(self._kinds) == 1 else "json"
        ndims = {len(shape) for shape in self._shapes}
        dtype = self._dtype()
        if kind == "number" and (dtype is None or len(ndims) > 1):
            kind = "json"
        if kind != "number":
            return Column(name, kind, optional=optional)
        low, high = self._bounds or (None, None)
        return Column(
            name,
            kind,
            dtype=dtype,
            shape=next(iter(self._shapes)) if len(self._shapes) == 1 else None,
            optional=optional,
            low=low,
            high=high,
        )

    def _see_number(self, array: NDArray[Any], *, neutral: bool) -> None:
        # Few shapes are enough to know that they differ.
        if len(self._shapes) < 64:
            self._shapes.add(array.shape)
        if neutral:
            return
        self._dtypes.add(array.dtype.newbyteorder("="))
        if array.dtype.kind in "iu" and array.size:
            low, high = int(array.min()), int(array.max())
            self._largest = max(self._largest, abs(low), abs(high))
            if array.shape == ():
                old = self._bounds or (low, high)
                self._bounds = min(low, old[0]), max(high, old[1])

    def _dtype(self) -> np.dtype[Any] | None:
        """Returns the dtype that holds all numbers exactly; None if there is none."""
        if not self._dtypes:
            return np.dtype(np.float64)
        dtype = np.result_type(*self._dtypes)
        kinds = {dtype.kind for dtype in self._dtypes}
        if dtype.kind == "f" and kinds & set("iu") and self._largest > _EXACT:
            return None
        return dtype


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and all(type(key) is str for key in value):
        for key, item in value.items():
            yield from _leaves(item, f"{path}/{_escaped(key)}")
    elif value is not None:
        yield path, value


def _escaped(key: str) -> str:
    for char in "%/:\0":
        key = key.replace(char, f"%{ord(char):02X}")
    key = key.encode("utf-8", "backslashreplace").decode()
    return key.replace(".", "%2E") if not key.strip(".") else key


def _kind(leaf: Any) -> Kind:
    if isinstance(leaf, (str, Action)):
        return "text"
    if isinstance(leaf, (bytes, bytearray, memoryview)):
        return "bytes"
    if isinstance(leaf, (bool, int, float, np.ndarray, np.generic)) or _is_number_list(leaf):
        array = np.asarray(leaf)
        if array.dtype.kind in "biuf" and array.dtype.itemsize <= 8:
            return "number"
    return "json"


def _is_number_list(leaf: Any) -> bool:
    return type(leaf) in (list, tuple) and all(type(item) in (int, float, bool) for item in leaf)


def _is_empty_list(leaf: Any) -> bool:
    return type(leaf) in (list, tuple) and not leaf


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str) else action_text(value) or ""
