"""Arrays of text or objects, with other items in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["with_items"]


def with_items(array: np.ndarray[Any, Any], items: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Returns an array of the shape of `array`, wide enough for its new items, in C order."""
    if array.dtype.kind in "US":
        return np.array(items).reshape(array.shape)
    made = np.empty(len(items), dtype=object)
    for index, item in enumerate(items):  # At once, items that are sequences would be taken apart.
        made[index] = item
    return made.reshape(array.shape)
