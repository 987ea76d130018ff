"""Regexes that somebody else wrote, run so that none can hang a recording.

Python's own `re` may take exponential time and cannot be stopped. The `regex` package reads the
same syntax, and stops when its time is over.
"""

from __future__ import annotations

import functools
import time
from typing import Any

from webtraj import errors

__all__ = ["compiled", "find_all"]

_BAD = "The regex {source!r:.200} is not understood: {error}. Write it in Python's syntax."


@functools.lru_cache(maxsize=256)
def compiled(source: str) -> Any:
    """Return a regex, compiled.

    Raises:
        InvalidInputError: It is not a regex.
    """
    import regex

    try:
        return regex.compile(source, regex.VERSION0)
    except (regex.error, RecursionError, OverflowError) as error:
        raise errors.InvalidInputError(_BAD.format(source=source, error=error)) from error


def find_all(source: str, text: str, *, until: float) -> list[tuple[int, int]]:
    """Return the start and end of everything that a regex finds in a text.

    Args:
        source: The regex.
        text: The text.
        until: When to give up, by `time.monotonic`.

    Raises:
        InvalidInputError: `source` is not a regex.
        TimeoutError: It takes longer.
    """
    seconds = max(until - time.monotonic(), 1e-3)
    try:
        matches = compiled(source).finditer(text, timeout=seconds, concurrent=True)
        return [match.span() for match in matches]
    except TimeoutError:
        raise TimeoutError(
            f"The regex {source!r:.200} took more than its time for a text of {len(text)} "
            "characters."
        ) from None
