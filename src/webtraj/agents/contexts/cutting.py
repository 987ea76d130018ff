"""Cutting text to a budget of tokens, visibly."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

__all__ = ["CountTokens", "Cut", "cut_lines", "estimate_tokens"]

CountTokens = Callable[[str], int]
"""Says how many tokens a text takes. Longer texts must not take fewer."""

_BYTES_PER_TOKEN = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Cut:
    """Something that was left out of a context."""

    what: str
    """What it was cut from: `page`, `round 3`, `earlier steps`, `screenshots`."""
    left_out: int
    """How many lines, steps or pictures of it; characters where one line was too long."""


def estimate_tokens(text: str) -> int:
    """Returns about how many tokens a text takes: one for each three bytes of UTF-8.

    Byte-pair vocabularies take three to four characters of English or of markup for a token, and
    about one character of Chinese or Japanese, which is three bytes. So this rather counts too many
    than too few. Where it matters, give the model's own tokenizer instead.

    >>> estimate_tokens('[12] button "Submit"')
    7
    """
    return -(-len(text.encode(errors="replace")) // _BYTES_PER_TOKEN)


def cut_lines(text: str, budget: int, count: CountTokens) -> tuple[str, int]:
    r"""Cuts a text after as many whole lines as a budget allows, and says so in its last line.

    >>> cut_lines("one\ntwo\nthree\nfour", 11, len)
    ('[... 4 lines cut]', 4)
    >>> cut_lines("one\ntwo\nthree\nfour", 18, len)
    ('one\ntwo\nthree\nfour', 0)
    >>> cut_lines("one\n" * 100, 30, len)
    ('one\none\none\n[... 97 lines cut]', 97)

    Args:
        text: What to cut.
        budget: How many tokens it may take, the last line included where that is possible.
        count: Counts tokens.

    Returns:
        The text, and how many lines were left out; of a text of one line, how many characters.
    """
    if count(text) <= budget:
        return text, 0
    lines = text.splitlines()
    if len(lines) == 1:
        kept = _most(
            len(text), lambda n: count(text[:n] + _cut(len(text) - n, "character")), budget
        )
        return text[:kept] + _cut(len(text) - kept, "character"), len(text) - kept

    def shortened(n: int) -> str:
        return "\n".join([*lines[:n], _cut(len(lines) - n, "line")])

    kept = _most(len(lines) - 1, lambda n: count(shortened(n)), budget)
    return shortened(kept), len(lines) - kept


def _cut(number: int, unit: str) -> str:
    return f"[... {number} {unit}{'s' * (number != 1)} cut]"


def _most(limit: int, cost: Callable[[int], int], budget: int) -> int:
    """Returns the largest number up to `limit` whose cost is within the budget; 0 if none is."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if cost(middle) <= budget:
            low = middle
        else:
            high = middle - 1
    return low
