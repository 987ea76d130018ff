"""Nests of values beside nests of specs: dicts, lists and tuples with arrays or specs as leaves.

The spec decides what a leaf is, so that a spec may stand for a whole structure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from webtraj.testing import messages

__all__ = ["equal", "generate", "leaves", "validate"]


def generate(spec: Any) -> Any:
    """Returns a value that conforms to a nest of specs."""
    if isinstance(spec, Mapping):
        return {key: generate(item) for key, item in spec.items()}
    if isinstance(spec, (list, tuple)):
        return type(spec)(generate(item) for item in spec)
    return spec.generate_value()


def validate(value: Any, spec: Any, path: str = "") -> None:
    """Checks that a value conforms to a nest of specs.

    Raises:
        AssertionError: Their structures differ.
        ValueError: A leaf does not conform to its spec.
    """
    if isinstance(spec, Mapping):
        if not isinstance(value, Mapping) or value.keys() != spec.keys():
            raise AssertionError(_mismatch(path, spec, value))
        for key in spec:
            validate(value[key], spec[key], f"{path}/{key}")
    elif isinstance(spec, (list, tuple)):
        if not isinstance(value, (list, tuple)) or len(value) != len(spec):
            raise AssertionError(_mismatch(path, spec, value))
        for position, (item, item_spec) in enumerate(zip(value, spec, strict=True)):
            validate(item, item_spec, f"{path}/{position}")
    else:
        try:
            spec.validate(value)
        except ValueError as error:
            raise ValueError(f"Value at path {path!r} failed validation: {error}.") from error


def leaves(value: Any) -> Iterator[Any]:
    """Yields the leaves of a nest, as arrays."""
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)
    else:
        yield np.asarray(value)


def equal(one: Any, other: Any) -> bool:
    """Returns whether two nests are equal, arrays by their elements, with NaN equal to NaN."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        one, other = np.asarray(one), np.asarray(other)
        has_nan = one.dtype.kind in "fc" and other.dtype.kind in "fc"
        return bool(np.array_equal(one, other, equal_nan=has_nan))
    return bool(one == other) or (one != one and other != other)


def _mismatch(path: str, spec: Any, value: Any) -> str:
    return messages.STRUCTURES_MUST_MATCH.format(path=path or "/", spec=spec, value=value)
