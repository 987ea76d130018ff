"""Goals that are worded in one way or in several: who trains on them should learn no one phrase."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from webtraj import errors
from webtraj.processing.steps import options

__all__ = ["checked", "dealt"]


def checked(step: str, option: str, value: Any, blanks: Iterable[str]) -> tuple[str, ...]:
    """Returns an option that is a text with blanks to be filled in, or several of them.

    Raises:
        InvalidInputError: It is none, or one of them lacks one of the blanks.
    """
    blanks = tuple(blanks)
    texts = options.words(step, option, value)
    if not texts:
        raise errors.InvalidInputError(
            f"{step}: {option} is {value!r:.200}; expected a text or some, with "
            f"{' and '.join(blanks)} in each."
        )
    for text in texts:
        options.check_wording(step, option, text, blanks)
    return texts


def dealt(texts: Sequence[str], key: str) -> str:
    """Returns one of some texts, the same each time for the same key.

    >>> {dealt(["one", "two"], str(key)) for key in range(9)} == {"one", "two"}
    True
    """
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
    return texts[int.from_bytes(digest[:8], "big") % len(texts)]
