"""Finding secrets in a text: by rules, and by all spellings of a known value."""

from __future__ import annotations

import base64
import bisect
import dataclasses
import html
import json
import logging
import re
import time
import unicodedata
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from webtraj.redaction.rules import PATTERNS, RedactionRules, find_all

__all__ = [
    "INVISIBLE",
    "LEFT_OUT",
    "MAX_TEXT",
    "Plain",
    "Searcher",
    "UNSEARCHED",
    "plain",
    "spellings",
]

# Spellings of a string in pages, URLs, JSON and model replies.

_MIN_BASE64 = 8
"""The shortest piece of base64 to search for; shorter ones occur in unrelated text."""

INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff"
)
"""Invisible characters, as a regex character set."""

_SAFE_IN_URLS = (
    "",  # urllib's quote of everything
    "/",  # urllib's default
    "!~*'()",  # encodeURIComponent
    "!~*'();/?:@&=+$,#",  # encodeURI
    "*",  # URLSearchParams
)


def spellings(secret: str) -> frozenset[str]:
    r"""Return the spellings of a secret, including the secret itself; case does not matter.

    They are: Unicode's composed and decomposed forms; original and collapsed white space; JSON and
    Python literals, also JSON within JSON; HTML and URL escapes; base64 and hex, alone and inside a
    longer value.

    >>> sorted(spellings("a&b"))
    ['612662', '\\x61\\x26\\x62', 'a%26b', 'a&amp;b', 'a&b']
    """
    found = set(_plain(secret))
    for plain in tuple(found):
        found.update(_escape_all(plain))
        found.update(_binary(plain.encode("utf-8", "surrogatepass")))
    return frozenset({spelling.lower(): spelling for spelling in sorted(found)}.values())


def _plain(secret: str) -> Iterator[str]:
    for text in (secret, " ".join(secret.split())):
        for form in ("NFC", "NFD"):
            yield unicodedata.normalize(form, text)
        yield text


def _escape_all(text: str) -> Iterator[str]:
    for ascii_only in (True, False):
        once = _json(text, ascii_only)
        yield once
        yield once.replace("/", "\\/")
        yield _json(once, ascii_only)
    yield from _python(text)
    for quote in (True, False):
        escaped = html.escape(text, quote=quote)
        yield escaped
        yield escaped.replace("&#x27;", "&#39;")
    if text.isascii() or not _has_surrogates(text):
        for safe in _SAFE_IN_URLS:
            quoted = urllib.parse.quote(text, safe=safe)
            yield quoted
            yield quoted.replace("%20", "+")


def _json(text: str, ascii_only: bool) -> str:
    return json.dumps(text, ensure_ascii=ascii_only)[1:-1]


def _python(text: str) -> Iterator[str]:
    literals: tuple[Callable[[str], str], ...] = (repr, ascii, _bytes_literal)
    for literal in literals:
        inner = literal(text)[1:-1]
        yield inner
        # Python picks the quotes that need no escape; models escape either kind.
        yield inner.replace("'", "\\'")
        yield inner.replace('"', '\\"')


def _bytes_literal(text: str) -> str:
    return repr(text.encode("utf-8", "surrogatepass"))[1:]


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _binary(data: bytes) -> Iterator[str]:
    yield data.hex()
    yield "".join(f"\\x{byte:02x}" for byte in data)
    for encode in (base64.standard_b64encode, base64.urlsafe_b64encode):
        whole = encode(data).decode().rstrip("=")
        if len(whole) >= _MIN_BASE64:
            yield whole
        # Inside a longer value it starts at one of three offsets, and its first and last characters
        # depend on its neighbours.
        for offset in range(3):
            padded = encode(b"\0" * offset + data + b"\0" * (-(offset + len(data)) % 3)).decode()
            first = -(-offset * 8 // 6)
            last = (offset + len(data)) * 8 // 6
            if last - first >= _MIN_BASE64:
                yield padded[first:last]
                yield urllib.parse.quote(padded[first:last], safe="")


# Undoing escapes, which no list of spellings can cover: any character may be escaped.

# The first character stands alone, so that the regex skips other text quickly.
_ESCAPE = re.compile(
    "[\\\\&%\r\n" + INVISIBLE + "](?:"
    r"(?<=\\)\\*u([0-9A-Fa-f]{4})|(?<=\\)\\*x([0-9A-Fa-f]{2})"
    r"|(?<=&)#(\d{1,7});|(?<=&)#[xX]([0-9A-Fa-f]{1,6});"
    r"|(?<=%)([0-9A-Fa-f]{2}(?:%[0-9A-Fa-f]{2})*)"
    r"|(?<=\\)\\*([/\"'\\])|(?<=&)(amp|lt|gt|quot|apos);"
    r"|(?<=[" + INVISIBLE + "])[" + INVISIBLE + "]*"
    r"|(?:(?<=[A-Za-z0-9+/_-]\r)\n|(?<=[A-Za-z0-9+/_-]\n)"
    r"|(?<=[A-Za-z0-9+/_-]\\)\\*(?:r\\+)?n)[ \t]*(?=[A-Za-z0-9+/_-]))"
)
# The end of a line that may be base64, and its escape.
_WRAPPED = re.compile(
    r"\n(?:(?<=[A-Za-z0-9+/_-]{30}\n)|(?<=[A-Za-z0-9+/_-]{30}\r\n))[ \t]*[A-Za-z0-9+/_-]"
)
# An escape that begins with a backslash, including that of such a line end.
_BACKSLASHED = re.compile(
    r"\\(?:[ux]|n(?:(?<=[A-Za-z0-9+/_-]{30}\\n)|(?<=[A-Za-z0-9+/_-]{30}\\r\\n)"
    r"|(?<=[A-Za-z0-9+/_-]{30}\\\\n)))"
)
# An escape of a URL that no encoder writes: of a percent sign, or of what needs none.
_NEEDLESS = re.compile(r"%(?:25|2[DdEe]|3\d|[46][1-9A-Fa-f]|[57][\dAa]|5[Ff]|7[Ee])")
_UNSEEN = re.compile(f"[{INVISIBLE}]")
_LAYERS = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Plain:
    """A text with its escapes undone, and a map to positions in the original."""

    text: str
    _starts: tuple[int, ...]
    """The start of each piece in the text."""
    _origins: tuple[tuple[int, int], ...]
    """The start and end of each piece in the source, in the same order. A piece of the same length
    there was not escaped."""
    _before: Plain | None = None
    """The source, if it is not the original."""

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """Return the place of a piece of the text in the original."""
        first, last = self._place(start)[0], self._place(end - 1)[1]
        return (first, last) if self._before is None else self._before.origin(first, last)

    def _place(self, at: int) -> tuple[int, int]:
        index = bisect.bisect_right(self._starts, at) - 1
        first, last = self._origins[index]
        begin = self._starts[index]
        end = self._starts[index + 1] if index + 1 < len(self._starts) else len(self.text)
        if end - begin != last - first:
            return first, last
        return first + at - begin, first + at - begin + 1


def plain(text: str) -> Plain | None:
    r"""Undo nested escapes of JSON, HTML and URLs in a text; return None if it has none.

    Invisible characters are removed too, and so are line ends within possible base64.

    >>> found = plain("see a\\u0026b there")
    >>> found.text, found.origin(4, 7)
    ('see a&b there', (4, 12))
    """
    if not _may_be_escaped(text):
        return None
    whole: Plain | None = None
    for _ in range(_LAYERS):
        layer = _layer(text if whole is None else whole.text, whole)
        if layer is None:
            break
        whole = layer
    return whole


def _may_be_escaped(text: str) -> bool:
    """Return whether a text may have escapes. Fast, since every recorded text is checked."""
    return (
        ("\\" in text and _BACKSLASHED.search(text) is not None)
        or ("&" in text and "&#" in text)
        or ("%" in text and _NEEDLESS.search(text) is not None)
        or _WRAPPED.search(text) is not None
        or (not text.isascii() and _UNSEEN.search(text) is not None)
    )


def _layer(text: str, before: Plain | None) -> Plain | None:
    parts: list[str] = []
    starts: list[int] = []
    origins: list[tuple[int, int]] = []
    at = length = 0

    def add(part: str, first: int, last: int) -> None:
        nonlocal length
        if part:
            starts.append(length)
            origins.append((first, last))
            parts.append(part)
            length += len(part)

    for match in _ESCAPE.finditer(text):
        add(text[at : match.start()], at, match.start())
        add(_unescape(match), *match.span())
        at = match.end()
    if not at:
        return None
    add(text[at:], at, len(text))
    return Plain("".join(parts), tuple(starts), tuple(origins), before)


def _unescape(escape: re.Match[str]) -> str:
    if code := escape[1] or escape[2] or escape[4]:
        return chr(number) if (number := int(code, 16)) < 0x110000 else ""
    if escape[3]:
        return chr(number) if (number := int(escape[3])) < 0x110000 else ""
    if escape[5]:
        return urllib.parse.unquote(f"%{escape[5]}")
    return escape[6] or html.unescape(f"&{escape[7]};" if escape[7] else "")


# Finding the matches of rules in texts, and inserting placeholders.

_LOGGER = logging.getLogger(__name__)

MAX_TEXT: Final = 16_000_000
"""The longest text that is searched, in characters; longer ones are not recorded."""

LEFT_OUT: Final = "<not recorded: it could not be searched>"
"""The replacement for a text that is too long, or on which the user's regexes timed out."""

UNSEARCHED: Final = "texts_left_out"
"""The count name of such texts."""

_PLACEHOLDER = re.compile(r"<secret:([A-Za-z0-9][A-Za-z0-9_.-]{0,63})>")

Found = tuple[int, int, str]


class Searcher:
    """A finder of the matches of rules in texts.

    Args:
        rules: The rules.
    """

    def __init__(self, rules: RedactionRules) -> None:
        self._finders = [(name, PATTERNS[name]) for name in rules.patterns]
        self._regexes = dict(rules.regexes)
        self._seconds = rules.seconds
        self.active = bool(rules.patterns or rules.regexes)
        """Whether there is anything to search for."""

    def pieces(self, text: str) -> Iterator[str]:
        """Yield the parts of a text that rules match.

        Raises:
            TimeoutError: The user's regexes take too long.
        """
        for start, end, _ in self._find(text):
            yield text[start:end]

    def search(self, text: str) -> list[Found]:
        """Return the places that match a rule, with names; none if the search takes too long."""
        try:
            return self._find(text)
        except TimeoutError:
            return []

    def replace_matches(
        self,
        text: str,
        placeholder_of: Callable[[str], str],
        *,
        also: Iterable[Found] = (),
        known: Iterable[str],
    ) -> str:
        """Return a text with matches of rules replaced by placeholders.

        Args:
            text: The text.
            placeholder_of: Returns the placeholder of a name, and counts it.
            also: Further places to replace: start, end and name.
            known: Names whose placeholders are kept.
        """
        if len(text) > MAX_TEXT:
            placeholder_of(UNSEARCHED)
            return LEFT_OUT
        try:
            found = sorted([*also, *self._find(text)], key=lambda piece: (piece[0], -piece[1]))
        except TimeoutError as error:
            _LOGGER.warning("%s The text is not recorded.", error)
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
    """Yield matches in order. Overlapping ones are merged; those in placeholders are left out."""
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
