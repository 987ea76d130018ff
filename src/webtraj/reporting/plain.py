"""Data as every reader of JSON can hold it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["plain"]

_LARGEST = 2**63 - 1


def plain(value: Any) -> Any:
    r"""Returns JSON data in which text is Unicode, and a number that JSON lacks is None.

    >>> plain({"a": ["\ud800b", float("inf")]})
    {'a': ['?b', None]}
    """
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, int) and abs(value) > _LARGEST:
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
