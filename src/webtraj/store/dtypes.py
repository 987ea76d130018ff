"""Numpy dtypes as plain data, and back.

A simple dtype is its `dtype.str`, byte order included: `"<f4"`, `"|b1"`, `"<M8[ns]"`. A structured
one is `{"names", "formats", "offsets", "itemsize"}`, and `"titles"` if it has any; a field that is
an array itself is `{"base", "shape"}`. Both may hold each other.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

__all__ = ["describe", "parse"]

_DType = np.dtype[Any]
# The grammar of dtype.str. Numpy itself would read far more than it ever writes.
_SIMPLE = re.compile(r"[<>|][biufcSUVMm][0-9]{1,10}(\[[0-9]{0,9}[a-zA-Z]{1,2}\])?")


def describe(dtype: _DType) -> Any:
    """Returns a dtype as plain data; None if numpy could not make the same of that again."""
    try:
        description = _describe(dtype)
        return description if parse(description) == dtype else None
    except (TypeError, ValueError):
        return None


def parse(description: Any) -> _DType:
    """Returns the dtype that `describe` described.

    Raises:
        TypeError, ValueError, KeyError: It did not describe one so.
    """
    if isinstance(description, str):
        if not _SIMPLE.fullmatch(description):
            raise ValueError(f"{description!r:.100} is no simple dtype")
        return np.dtype(description)
    if "base" in description:
        shape = tuple(int(size) for size in description["shape"])
        return np.dtype((parse(description["base"]), shape))
    structure: dict[str, Any] = {
        "names": list(description["names"]),
        "formats": [parse(item) for item in description["formats"]],
        "offsets": [int(offset) for offset in description["offsets"]],
        "itemsize": int(description["itemsize"]),
    }
    if "titles" in description:
        structure["titles"] = list(description["titles"])
    dtype: _DType = np.dtype(structure)  # type: ignore[call-overload]
    return dtype


def _describe(dtype: _DType) -> Any:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return {"base": _describe(base), "shape": list(shape)}
    if dtype.names is None or dtype.fields is None:
        return dtype.str
    fields = [dtype.fields[name] for name in dtype.names]
    description = {
        "names": list(dtype.names),
        "formats": [_describe(field[0]) for field in fields],
        "offsets": [field[1] for field in fields],
        "itemsize": dtype.itemsize,
    }
    titles = [field[2] if len(field) > 2 else None for field in fields]
    return {**description, "titles": titles} if any(titles) else description
