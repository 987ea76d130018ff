"""`Walker`: the one walk over the values of a record.

A subclass replaces texts, bytes, numbers and named values. The walk finds them in nested mappings
(keys included), sequences, sets, arrays, dataclasses and named tuples, and in the recorded form of
any other object. An unchanged value is returned as is, not as a copy.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import logging
import operator
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from webtraj import trajectory as trajectory_lib
from webtraj.store import foreign, values
from webtraj.store.blobs import LazyBlob

__all__ = ["Visit", "Walker"]

_LOGGER = logging.getLogger(__name__)

_ATOMS = (type(None), bool, int, float, complex, enum.Enum, np.number, np.bool_)
_PLAIN_NESTS = (list, tuple, set, frozenset, collections.deque)
_CYCLE = "<not recorded: contains itself>"
_LONG = 1000
"""The length from which a repeated text is visited only once per value."""
_CHUNK_DEPTH = 40
"""Nesting levels per stack."""
_FOREIGN_ITEMS = 16
"""The item count of an unknown object, which may generate new ones endlessly."""
_TELLTALE: Final[Mapping[str, Any]] = {
    "response": None,
    "prompt_token_ids": (),
    "completion_token_ids": (),
    "logprobs": (),
}
"""Fields of a model call that repeat its text."""


class Visit:
    """The state of a walk through one value: what is done, and the remaining budget."""

    def __init__(self) -> None:
        self.inside: set[int] = set()
        # Containers that hold each other are visited once. Keeps the values alive, so ids stay
        # valid.
        self.done: dict[int, tuple[Any, Any]] = {}
        self.left = values.MOST_ITEMS
        self.thread = threading.current_thread()
        self._warned = False

    def leave_out(self, value: Any, reason: str) -> foreign.ReprOnly:
        """Return the replacement for a value that cannot be visited; warn of the first one."""
        left = foreign.repr_only(value, reason, look=False)
        if not self._warned:
            self._warned = True
            _LOGGER.warning("Left out of the record: %s, %s.", left.repr, reason)
        return left


class Walker:
    """The walk. It fails closed: a value that cannot be visited is left out, not kept."""

    fatal: tuple[type[Exception], ...] = ()
    """Errors that end the walk."""

    def walk(self, value: Any) -> Any:
        """Return the value with everything in it visited.

        A value that is too deep or too large, or that raises an error, is replaced by a `ReprOnly`
        with only its class and the reason. Only the errors in `fatal` are raised.
        """
        try:
            return self._walk(value, Visit())
        except RecursionError:  # The caller's stack is almost full.
            return values.call_on_fresh_stack(self._walk, value, Visit())

    # For subclasses to override. Returning an equal value changes nothing.

    def visit_text(self, text: str) -> str:
        """Return the replacement for a text."""
        return text

    def visit_bytes(self, data: bytes) -> bytes:
        """Return the replacement for bytes."""
        return data

    def visit_number(self, number: Any) -> Any:
        """Return the replacement for a number, an enum member, True, False or None."""
        return number

    def visit_blob(self, blob: LazyBlob, visit: Visit) -> Any:
        """Return the replacement for lazy bytes or text."""
        loaded = blob.load()
        walked = self._walk(loaded, visit)
        return blob if walked is loaded else walked

    def visit_mapping(self, value: Mapping[Any, Any], visit: Visit) -> Mapping[Any, Any]:
        """Return the replacement for a mapping."""
        return {self._walk(k, visit): self._walk(v, visit) for k, v in value.items()}

    def visit_items(self, items: Sequence[Any], visit: Visit) -> list[Any]:
        """Return the replacements for the items of a sequence or set."""
        return [self._walk(item, visit) for item in items]

    def visit_field(self, record: Any, name: str, value: Any, visit: Visit) -> Any:
        """Return the replacement for the value of a dataclass's field."""
        return self._walk(value, visit)

    def visit_array(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
        """Return the replacement for an array; None to visit its items."""
        kind = array.dtype.kind
        return array if kind not in "OUSV" or (kind == "V" and not array.dtype.fields) else None

    def tokens_reveal(self, changes: Mapping[str, Any]) -> bool:
        """Return whether a model call's tokens reveal the content that was replaced in it.

        Args:
            changes: The call's changed fields.
        """
        return bool(changes)

    # The walk itself.

    def _walk(self, value: Any, visit: Visit) -> Any:
        if issubclass(type(value), str):
            if str.__len__(value) < _LONG:
                return self._text(value)
        elif issubclass(type(value), _ATOMS):
            return self.visit_number(value)
        known = visit.done.get(id(value))
        if known is not None:
            return known[1]
        if id(value) in visit.inside:
            return _CYCLE
        if visit.left < 0:
            return visit.leave_out(value, "too large")
        if len(visit.inside) >= values.MAX_DEPTH:
            return visit.leave_out(value, f"nested more than {values.MAX_DEPTH} levels deep")
        visit.inside.add(id(value))
        try:
            if len(visit.inside) % _CHUNK_DEPTH == 0:
                walked = values.call_on_fresh_stack(self._nest, value, visit)
            else:
                walked = self._nest(value, visit)
        except RecursionError:
            if threading.current_thread() is visit.thread:
                raise
            walked = visit.leave_out(value, "RecursionError while it was redacted")
        except self.fatal:
            raise
        except Exception as error:  # Inspecting a foreign object may run any code.
            walked = visit.leave_out(value, f"{type(error).__name__} while it was redacted")
        finally:
            visit.inside.discard(id(value))
        visit.done[id(value)] = (value, walked)
        return walked

    def _text(self, value: str) -> Any:
        text = str.__str__(value)  # A subclass may override `__str__`.
        visited = self.visit_text(text)
        return value if visited == text else visited

    def _nest(self, value: Any, visit: Visit) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if type(value) is LazyBlob:
            return self.visit_blob(value, visit)
        if isinstance(value, bytes | bytearray | memoryview):
            data = bytes(value)
            visited = self.visit_bytes(data)
            return value if visited == data else visited
        if type(value) is dict:
            visit.left -= len(value)
            made = self.visit_mapping(value, visit)
            same = len(made) == len(value) and all(
                k is old_k and v is old_v
                for (k, v), (old_k, old_v) in zip(made.items(), value.items(), strict=True)
            )
            return value if same else made
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            items = self._items(value, visit)
            return value if items is None else type(value)(*items)
        if type(value) in _PLAIN_NESTS:
            items = self._items(value, visit)
            return value if items is None else type(value)(items)
        if type(value) is np.ndarray:
            array = self.visit_array(value)
            if array is not None:
                return array
            items = self._items(value.ravel().tolist(), visit)
            return value if items is None else _with_items(value, items)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._record(value, visit)
        if isinstance(value, np.generic | type):
            return value
        visit.left -= _FOREIGN_ITEMS
        plain = foreign.to_plain(value)  # Its recorded form may hold more than its repr.
        if isinstance(plain, (foreign.ReprOnly, *foreign.SCALARS)):
            text = plain.repr if isinstance(plain, foreign.ReprOnly) else str(plain)
            shown = self.visit_text(text)
            return value if shown == text else shown
        walked = self._walk(plain, visit)
        return value if walked is plain else walked

    def _items(self, items: Any, visit: Visit) -> list[Any] | None:
        """Return the new items; None if they are unchanged."""
        visit.left -= len(items)
        made = self.visit_items(items, visit)
        same = len(made) == len(items) and all(map(operator.is_, made, items))
        return None if same else made

    def _record(self, value: Any, visit: Visit) -> Any:
        changes = {}
        for field in dataclasses.fields(value):
            old = getattr(value, field.name)
            new = self.visit_field(value, field.name, old, visit)
            if new is not old:
                changes[field.name] = new
        if isinstance(value, trajectory_lib.ModelCall) and self.tokens_reveal(changes):
            changes |= _TELLTALE
        if not changes:
            return value
        # Bypass the constructor, whose checks (a URL, a key) a placeholder may fail.
        made = copy.copy(value)
        for name, new in trajectory_lib.fit_fields(value, changes).items():
            object.__setattr__(made, name, new)
        return made


def _with_items(array: np.ndarray[Any, Any], items: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Return an array in the shape of `array`, with a dtype wide enough for its new items."""
    if array.dtype.kind in "US":
        return np.array(items).reshape(array.shape)
    made = np.empty(len(items), dtype=object)
    for index, item in enumerate(items):  # One by one, which keeps sequences whole.
        made[index] = item
    return made.reshape(array.shape)
