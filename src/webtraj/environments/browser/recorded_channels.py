r"""Recorded observations of any environment, read without trust.

A record may come from another tool, or be damaged, so a channel may hold any value, and a tree any
text. All readers of recorded observations use this module, so no value stops a command: a channel
of the wrong type counts as not recorded, and text that is not a JSON string is taken literally.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from webtraj.store.blobs import LazyBlob
from webtraj.store.foreign import valid_text

__all__ = [
    "as_number",
    "channel_of",
    "last_action_of",
    "number_of",
    "numbers_of",
    "read_string",
    "refs_of",
    "text_of",
    "texts_of",
    "without_refs",
]

_REF: Final = re.compile(r"^( *)\[(?P<a>[^\]]+)\] | \[ref=(?P<b>[^\]]+)\]", re.MULTILINE)


def refs_of(tree: str) -> list[str]:
    """Return the refs in a tree, in the order of the page."""
    return [found["a"] or found["b"] for found in _REF.finditer(tree)]


def without_refs(tree: str) -> str:
    """Return a tree without its refs, so that pages with the same content are equal."""
    return _REF.sub(r"\1", tree)


def read_string(quoted: str) -> str:
    r"""Return the text of a string in a tree. If it is not JSON, only the quotes are removed.

    >>> read_string('"a\\tb"'), read_string(r'"\q"')
    ('a\tb', '\\q')
    """
    try:
        return valid_text(str(json.loads(quoted)))
    except ValueError:
        return valid_text(quoted.removeprefix('"').removesuffix('"'))


def channel_of(observation: Any, name: str) -> Any:
    """Return a channel of an observation, loaded if it is lazy; None if it has none."""
    value = observation.get(name) if isinstance(observation, Mapping) else None
    return value.load() if isinstance(value, LazyBlob) else value


def text_of(observation: Any, name: str) -> str:
    """Return a channel of text; empty if it is not text."""
    value = channel_of(observation, name)
    return valid_text(value) if isinstance(value, str) else ""


def texts_of(observation: Any, name: str) -> list[str] | None:
    """Return a channel of several texts; None if it is not one."""
    value = channel_of(observation, name)
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = value.tolist()
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
        return None
    return [valid_text(each) for each in value]


def as_number(value: Any) -> float | None:
    """Return a recorded value as a finite number; None if it is not one."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def number_of(observation: Any, name: str) -> float | None:
    """Return a channel that is a finite number; None if it is not one."""
    return as_number(channel_of(observation, name))


def numbers_of(observation: Any, name: str, count: int) -> tuple[float, ...] | None:
    """Return a channel of `count` finite numbers; None if it is not one."""
    value = channel_of(observation, name)
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = value.tolist()
    if not isinstance(value, (list, tuple)) or len(value) != count:
        return None
    numbers = [number for each in value if (number := as_number(each)) is not None]
    return tuple(numbers) if len(numbers) == count else None


def last_action_of(observation: Any) -> Mapping[str, Any]:
    """Return the fields of `LastAction` that an observation has for the action before it.

    Fields that were not recorded, or have a value of another type, are missing.
    """
    last = channel_of(observation, "last_action")
    if not isinstance(last, Mapping):
        return {}
    told: dict[str, Any] = {
        name: text_of(last, name)
        for name, value in last.items()
        if isinstance(name, str) and name != "box" and isinstance(value, (str, LazyBlob))
    }
    if (box := numbers_of(last, "box", 4)) is not None:
        told["box"] = box
    return told
