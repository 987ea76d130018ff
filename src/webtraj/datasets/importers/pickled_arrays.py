"""Numpy's arrays, scalars and dtypes in pickles, built from their bytes after all was checked."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from webtraj.datasets.importers.pickled_objects import Name, NotPlainError
from webtraj.store.budget import Budget
from webtraj.store.decoding import check_text

__all__ = ["BUILDERS", "PendingArray", "PendingDtype"]

_DTYPE = re.compile(r"[<>|=]?([biufcSU])([0-9]{0,9})")
_MAX_DIMENSIONS = 32


@dataclasses.dataclass(slots=True)
class PendingDtype:
    """A numpy dtype whose state may still come."""

    code: Any
    state: Any = None

    def set_state(self, state: Any) -> None:
        """Notes the state."""
        self.state = state

    def resolve(self) -> np.dtype[Any] | None:
        """Returns the dtype; None for Python objects."""
        if self.code in ("O", "O8", "|O"):
            return None
        match = _DTYPE.fullmatch(self.code) if isinstance(self.code, str) else None
        order: Any = "|"
        if isinstance(self.state, tuple) and len(self.state) > 1:
            order = self.state[1]
        if match is None or order not in ("<", ">", "|", "="):
            raise NotPlainError(f"a numpy dtype is {self.code!r:.60}, which is not taken")
        try:
            dtype = np.dtype(match[1] + match[2])
        except (TypeError, ValueError, OverflowError) as error:
            raise NotPlainError(f"a numpy dtype is wrong: {error}") from None
        if not dtype.itemsize:
            raise NotPlainError("a numpy dtype has no size")
        return dtype.newbyteorder(order) if order in "<>" else dtype


@dataclasses.dataclass(slots=True)
class PendingArray:
    """A numpy array or scalar whose parts may still come."""

    dtype: Any = None
    shape: Any = ()
    data: Any = None
    fortran: bool = False
    scalar: bool = False

    def set_state(self, state: Any) -> None:
        """Takes the state of `ndarray.__reduce__`."""
        if not isinstance(state, tuple) or len(state) not in (4, 5):
            raise NotPlainError("a numpy array has a state of another kind")
        self.shape, self.dtype, self.fortran, self.data = state[-4:]

    def resolve(self, plain: Callable[[Any], Any], budget: Budget) -> Any:
        """Returns the array."""
        if not isinstance(self.dtype, PendingDtype):
            raise NotPlainError("a numpy array has no dtype")
        shape = self.shape
        sound = isinstance(shape, tuple) and len(shape) <= _MAX_DIMENSIONS
        if not sound or not all(type(size) is int and 0 <= size < 2**62 for size in shape):
            raise NotPlainError(f"a numpy array has the shape {shape!r:.60}")
        count = math.prod(shape)
        dtype = self.dtype.resolve()
        if not count:  # Even an empty row becomes an object for whoever goes through it.
            budget.take(math.prod(max(size, 1) for size in shape) * 64)
        numbers = self._numbers
        flat = self._objects(count, plain) if dtype is None else numbers(count, dtype, budget)
        if self.scalar:
            return flat[0]
        return flat.reshape(shape, order="F" if self.fortran else "C")

    def _numbers(self, count: int, dtype: np.dtype[Any], budget: Budget) -> np.ndarray[Any, Any]:
        if not isinstance(self.data, (bytes, bytearray)):
            raise NotPlainError("a numpy array's data are no bytes")
        if len(self.data) != count * dtype.itemsize:
            raise NotPlainError(
                f"a numpy array of {count} times {dtype.itemsize} bytes has {len(self.data)}"
            )
        if not count:
            return np.empty(0, dtype)
        budget.take(len(self.data))
        found = np.frombuffer(self.data, dtype)
        check_text(found)
        return found.copy()

    def _objects(self, count: int, plain: Callable[[Any], Any]) -> np.ndarray[Any, Any]:
        if not isinstance(self.data, list) or len(self.data) != count or self.scalar:
            raise NotPlainError(f"a numpy array of {count} objects does not hold as many")
        flat = np.empty(count, object)
        for i, item in enumerate(self.data):
            flat[i] = plain(item)
        return flat


def _array(kind: Any, shape: Any, typecode: Any) -> PendingArray:
    """Stands for numpy's `_reconstruct`: an array whose state comes later."""
    if kind != Name("numpy.ndarray"):
        raise NotPlainError("a numpy array is of a class of its own")
    return PendingArray(PendingDtype("b"), (0,), b"")


def _array_from_buffer(data: Any, dtype: Any, shape: Any, order: Any) -> PendingArray:
    """Stands for numpy's `_frombuffer`."""
    return PendingArray(dtype, shape, data, fortran=order == "F")


def _scalar(dtype: Any, data: Any) -> PendingArray:
    """Stands for numpy's `scalar`."""
    return PendingArray(dtype, (), data, scalar=True)


def _bare(*arguments: Any) -> PendingArray:
    raise NotPlainError("a numpy array is made in a way that is not taken")


def _dtype(code: Any, align: Any = False, copy: Any = True) -> PendingDtype:
    """Stands for `numpy.dtype`."""
    return PendingDtype(code)


BUILDERS: dict[str, Callable[..., Any]] = {
    "numpy.dtype": _dtype,
    "numpy.ndarray": _bare,
    "numpy._core.multiarray._reconstruct": _array,
    "numpy._core.multiarray.scalar": _scalar,
    "numpy._core.numeric._frombuffer": _array_from_buffer,
}
"""What stands for the functions that pickles of arrays call, by their full names."""
