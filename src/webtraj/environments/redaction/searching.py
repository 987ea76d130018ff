"""Finding what rules describe in texts, and putting placeholders there."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from webtraj.environments.redaction.guarded_regexes import find_all
from webtraj.environments.redaction.patterns import PATTERNS
from webtraj.environments.redaction.rules import RedactionRules

__all__ = ["LEFT_OUT", "MAX_TEXT", "UNSEARCHED", "Searcher"]

_LOGGER = logging.getLogger(__name__)

MAX_TEXT: Final = 16_000_000
"""The longest text that is searched, in characters; a longer one is not recorded."""

LEFT_OUT: Final = "<not recorded: it could not be searched>"
"""What stands for a text that is too long, or for which the own regexes took too long."""

UNSEARCHED: Final = "texts_left_out"
"""What those are counted as."""

_PLACEHOLDER = re.compile(r"<secret:([A-Za-z0-9][A-Za-z0-9_.-]{0,63})>")

Found = tuple[int, int, str]


class Searcher:
    """Finds what rules describe in texts.

    Args:
        rules: The rules.
    """

    def __init__(self, rules: RedactionRules) -> None:
        self._finders = [(name, PATTERNS[name]) for name in rules.patterns]
        self._regexes = dict(rules.regexes)
        self._seconds = rules.seconds
        self.active = bool(rules.patterns or rules.regexes)
        """Whether there is anything to look for."""

    def pieces(self, text: str) -> Iterator[str]:
        """Yields what of a text the rules describe.

        Raises:
            TimeoutError: The own regexes take too long.
        """
        for start, end, _ in self._find(text):
            yield text[start:end]

    def replaced(
        self,
        text: str,
        placeholder_of: Callable[[str], str],
        *,
        also: Iterable[Found] = (),
        known: Iterable[str],
    ) -> str:
        """Returns a text with placeholders for what the rules describe.

        Args:
            text: The text.
            placeholder_of: Returns, and counts, the placeholder for what is of a name.
            also: What else to replace: start, end and name.
            known: Names whose placeholders are left as they are.
        """
        if len(text) > MAX_TEXT:
            placeholder_of(UNSEARCHED)
            return LEFT_OUT
        try:
            found = sorted([*also, *self._find(text)], key=lambda piece: (piece[0], -piece[1]))
        except TimeoutError as error:
            _LOGGER.warning("%s It is not recorded.", error)
            placeholder_of(UNSEARCHED)
            return LEFT_OUT
        if not found:
            return text
        parts: list[str] = []
        at = 0
        for start, end, name in _apart(found, _placeholders(text, frozenset(known))):
            parts += (text[at:start], placeholder_of(name))
            at = end
        return "".join((*parts, text[at:]))

    def _find(self, text: str) -> list[Found]:
        found = [(*span, name) for name, find in self._finders for span in find(text)]
        until = time.monotonic() + self._seconds
        for name, regex in self._regexes.items():
            found += [(*span, name) for span in find_all(regex, text, until=until)]
        return found


def _placeholders(text: str, known: frozenset[str]) -> list[tuple[int, int]]:
    if "<secret:" not in text:
        return []
    return [match.span() for match in _PLACEHOLDER.finditer(text) if match[1] in known]


def _apart(found: Iterable[Found], placeholders: list[tuple[int, int]]) -> Iterator[Found]:
    """Yields what was found, ordered: what overlaps as one, none of it within a placeholder."""
    last: Found | None = None
    for start, end, name in found:
        if any(begin <= start and end <= stop for begin, stop in placeholders):
            continue
        if last is not None and start < last[1]:
            last = (last[0], max(end, last[1]), last[2])
            continue
        if last is not None:
            yield last
        last = (start, end, name)
    if last is not None:
        yield last
