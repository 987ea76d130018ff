"""Read untrusted pickles as data. Nothing in them is imported, called or executed.

`inert_unpickler` reads a pickle in a process of its own, which has limits on memory and time and
can call nothing that the file names. This module starts that process, and makes plain data of its
answer: numpy arrays from their bytes, after every part has been checked, and an `OpaqueRecord`, its
class's name and its fields, for each object. The answer is a pickle too; reading it can call only
what this module lists.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import math
import pickle
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from webtraj import errors
from webtraj.datasets.importers import Limits
from webtraj.store.decoding import Budget, check_text
from webtraj.store.values import OpaqueRecord
from webtraj_formats.importers import inert_unpickler

__all__ = ["Answer", "NotPlainError", "ask", "read_pickle"]


class NotPlainError(ValueError):
    """A value cannot become plain data; the message says why."""


# Numpy arrays, scalars and dtypes are built from their bytes after every part has been checked.

_DTYPE = re.compile(r"([<>|=]?)([biufcSU])([0-9]{0,9})")
_MAX_DIMENSIONS = 32
_OBJECT = "object"


def _dtype(code: Any, *_: Any, state: Any = None) -> str:
    """Return the name of a dtype, as `np.dtype` has it."""
    if code in ("O", "O8", "|O", _OBJECT):
        return _OBJECT
    match = _DTYPE.fullmatch(code) if isinstance(code, str) else None
    has_order = isinstance(state, tuple) and len(state) > 1
    order: Any = state[1] if has_order else match and match[1]
    if match is None or order not in ("<", ">", "|", "=", ""):
        raise NotPlainError(f"the numpy dtype {code!r:.60} is not supported")
    try:
        dtype = np.dtype(match[2] + match[3])
    except (TypeError, ValueError, OverflowError) as error:
        raise NotPlainError(f"a numpy dtype is invalid: {error}") from None
    if not dtype.itemsize:
        raise NotPlainError("a numpy dtype has no size")
    return (dtype.newbyteorder(order) if order in ("<", ">") else dtype).str


def _array(
    dtype: Any, shape: Any, data: Any, budget: Budget, *, fortran: bool = False
) -> np.ndarray[Any, Any]:
    """Return an array of a dtype by name, made from bytes, or a list for Python objects."""
    sound = isinstance(shape, tuple) and len(shape) <= _MAX_DIMENSIONS
    if not sound or not all(type(size) is int and 0 <= size < 2**62 for size in shape):
        raise NotPlainError(f"a numpy array has the invalid shape {shape!r:.60}")
    count = math.prod(shape)
    if not count:  # Each row of an empty array may become an object for the reader.
        budget.take(math.prod(max(size, 1) for size in shape) * 64)
    name = _dtype(dtype)
    if name == _OBJECT:
        if not isinstance(data, list) or len(data) != count:
            raise NotPlainError(f"a numpy array of {count} objects holds another number of them")
        flat = np.empty(count, object)
        for i, item in enumerate(data):
            flat[i] = item
    else:
        size = np.dtype(name).itemsize
        if not isinstance(data, bytes):
            raise NotPlainError("a numpy array's data is not bytes")
        if len(data) != count * size:
            raise NotPlainError(f"a numpy array of {count} times {size} bytes has {len(data)}")
        budget.take(len(data))
        flat = np.frombuffer(data, name) if count else np.empty(0, name)
        check_text(flat)
        flat = flat.copy()
    return flat.reshape(shape, order="F" if fortran else "C")


def _reconstruct(
    budget: Budget, kind: Any, shape: Any, typecode: Any, state: Any = None
) -> np.ndarray[Any, Any]:
    """Return the array that numpy's `_reconstruct` and its state would make."""
    if kind != OpaqueRecord("name", {"name": "numpy.ndarray"}):
        raise NotPlainError("a numpy array has its own class")
    if not isinstance(state, tuple) or len(state) not in (4, 5):
        raise NotPlainError("a numpy array has an unknown kind of state")
    shape, dtype, fortran, data = state[-4:]
    return _array(dtype, shape, data, budget, fortran=bool(fortran))


def _scalar(budget: Budget, dtype: Any, data: Any, state: Any = None) -> Any:
    if _dtype(dtype) == _OBJECT:
        raise NotPlainError("a numpy scalar is an object")
    return _array(dtype, (), data, budget)[()]


def _from_buffer(budget: Budget, data: Any, dtype: Any, shape: Any, order: Any) -> Any:
    return _array(dtype, shape, data, budget, fortran=order == "F")


def _bare(*arguments: Any, **state: Any) -> Any:
    raise NotPlainError("a numpy array is made in an unsupported way")


_NUMPY: dict[str, Callable[..., Any]] = {
    "numpy.dtype": lambda budget, *parts, state=None: _dtype(*parts, state=state),
    "numpy.ndarray": _bare,
    "numpy._core.multiarray._reconstruct": _reconstruct,
    "numpy._core.multiarray.scalar": _scalar,
    "numpy._core.numeric._frombuffer": _from_buffer,
}
"""What becomes of calls by full name: functions of the budget, the arguments, and `state`."""


def _record(name: str, arguments: Any, keywords: Any, items: Any, elements: Any, state: Any) -> Any:
    """Return an object as a record of its fields."""
    fields: dict[str, Any] = {}
    # An object with slots has two states, and either may be missing.
    states = state if isinstance(state, tuple) and len(state) == 2 else (state,)
    if all(part is None or type(part) is dict for part in states):
        for part in states:
            fields.update(part or {})
    else:
        fields["state"] = state
    if not all(type(field) is str for field in fields):
        raise NotPlainError("an object's field name is not text")
    if items and not fields:
        return items  # A dict subclass.
    parts = {"items": items, "elements": elements, "arguments": arguments, "keywords": keywords}
    return OpaqueRecord(name, fields | {name: part for name, part in parts.items() if part})


class _Loader(pickle.Unpickler):
    """Makes plain data of the process's answer."""

    def __init__(self, file: Any, calls: Mapping[str, Callable[..., Any]], budget: Budget) -> None:
        super().__init__(file)
        self._calls = calls
        self._budget = budget

    def find_class(self, module: str, name: str) -> Any:
        """Return a function for one of the names that an answer has."""
        known = {
            "__main__.stand_in": self._load_call,
            "builtins.complex": complex,
            "builtins.bytearray": bytes,
            "datetime.datetime": datetime.datetime,
        }
        return known[f"{module}.{name}"]

    def _load_call(self, kind: str, name: str, *parts: Any) -> Any:
        if kind == "name":
            return OpaqueRecord("name", {"name": name})
        make = self._calls.get(name)
        if make is None:
            return _record(name, *parts)
        arguments, keywords, items, elements, state = parts
        if keywords or items or elements:
            raise NotPlainError(f"{name} takes nothing but arguments here")
        return make(self._budget, *arguments, **({} if state is None else {"state": state}))


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """The content of a file's pickles, as the process tells it."""

    where: str
    content: bytes
    budget: Budget

    @property
    def position(self) -> int:
        """The bytes of the pickles in the file."""
        return int.from_bytes(self.content[:8], "little")

    def values(self, calls: Mapping[str, Callable[..., Any]]) -> list[Any]:
        """Return the pickles' values as plain data.

        Args:
            calls: More functions as in `_NUMPY`. "persistent" gets the persistent ids.

        Raises:
            CorruptDataError: A value cannot be made.
        """
        file, values = io.BytesIO(self.content[8:]), []
        try:
            while file.tell() < len(self.content) - 8:
                values.append(_Loader(file, {**_NUMPY, **calls}, self.budget).load())
        except errors.CorruptDataError:
            raise
        except (ValueError, TypeError, LookupError, OverflowError) as error:
            kind = "" if isinstance(error, NotPlainError) else f"{type(error).__name__}: "
            raise errors.CorruptDataError(
                f"{self.where!r} is not a readable pickle: {kind}{error!s:.300}. The file is "
                "damaged, or not a pickle of data."
            ) from None
        return values


def ask(
    content: bytes,
    where: str,
    *,
    names: Collection[str],
    any_name: bool = False,
    limits: Limits | None = None,
    budget: Budget | None = None,
    count: int = 1,
    persistent: bool = False,
) -> Answer:
    """Read the pickles at the start of a file in a process of its own.

    Args:
        content: The file.
        where: Its name in error messages.
        names: Full names (`module.Class`) of the classes allowed in it.
        any_name: Whether to allow any class. Its objects are inert too.
        limits: Limits on what the file may ask for.
        budget: The memory that the file may take. Default: in proportion to its size.
        count: The number of consecutive pickles.
        persistent: Whether the pickles may have persistent ids.

    Raises:
        CorruptDataError: It is not a pickle, or asks for something that is not allowed.
    """
    limits = limits or Limits()
    # Pickles have more bytes per value than other files: a quarter of the usual is enough.
    budget = budget or Budget(where, len(content) // 4)
    if len(content) > limits.file_bytes:
        raise errors.CorruptDataError(
            f"{where!r} has {len(content):,} bytes, over the limit of {limits.file_bytes:,}. It "
            "was refused before anything was built from it."
        )
    seconds = limits.seconds + (len(content) >> 20)
    asked = {
        "names": [*names, *_NUMPY], "any_name": any_name, "count": count, "persistent": persistent,
        "expanded": limits.expanded, "depth": limits.depth, "memory": budget.limit,
        "address_space": budget.limit + 2 * len(content) + _PYTHON, "seconds": seconds,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-I", "-S", inert_unpickler.__file__],
        input=pickle.dumps(asked) + content,
        capture_output=True,
        check=False,
    )
    if done.returncode == inert_unpickler.NO_MEMORY:
        budget.take(budget.limit + 1)
    if done.returncode == 0:
        return Answer(where, done.stdout, budget)
    why = done.stderr.decode(errors="replace")
    if done.returncode != inert_unpickler.REFUSED:
        crash = f"ended the process that read it: status {done.returncode} {why[-200:]!r}"
        slow = done.returncode == -getattr(signal, "SIGXCPU", 0)
        why = f"needs more than {seconds} seconds of processor time" if slow else crash
        why += ". It was refused: the file is damaged, or was made to do so."
    raise errors.CorruptDataError(f"{where!r} {why}")


_PYTHON = 128 << 20
"""Bytes of address space for Python itself."""


def read_pickle(
    content: bytes,
    where: str,
    *,
    names: Collection[str] = (),
    any_name: bool = False,
    limits: Limits | None = None,
) -> Any:
    """Return a pickle's content as plain data; the arguments are those of `ask`.

    Raises:
        CorruptDataError: It is not a pickle, or asks for something that is not allowed.
    """
    (value,) = ask(content, where, names=names, any_name=any_name, limits=limits).values({})
    return value
