"""The ways in which one string is written in pages, URLs, JSON and model replies."""

from __future__ import annotations

import base64
import html
import json
import unicodedata
import urllib.parse
from collections.abc import Callable, Iterator

__all__ = ["spellings"]

_MIN_BASE64 = 8
"""The shortest piece of base64 that is looked for; shorter ones stand in many an innocent text."""

_SAFE_IN_URLS = (
    "",  # urllib's quote of everything
    "/",  # urllib's default
    "!~*'()",  # encodeURIComponent
    "!~*'();/?:@&=+$,#",  # encodeURI
    "*",  # URLSearchParams
)


def spellings(secret: str) -> frozenset[str]:
    """Returns the spellings of a secret, itself among them; those that differ in case count once.

    They are: Unicode's composed and decomposed forms; white space as it is and squeezed; as JSON
    and Python literals write it, also JSON within JSON; as HTML and URLs escape it; base64 and hex,
    alone and inside of something longer.

    >>> sorted(spellings("a&b c"))
    ['6126622063', 'a%26b%20c', 'a%26b+c', 'a&amp;b c', 'a&b c', 'a&b%20c', 'a&b+c']
    """
    found = set(_plain(secret))
    for plain in tuple(found):
        found.update(_escaped(plain))
        found.update(_binary(plain.encode("utf-8", "surrogatepass")))
    return frozenset({spelling.lower(): spelling for spelling in sorted(found)}.values())


def _plain(secret: str) -> Iterator[str]:
    for text in (secret, " ".join(secret.split())):
        for form in ("NFC", "NFD"):
            yield unicodedata.normalize(form, text)
        yield text


def _escaped(text: str) -> Iterator[str]:
    for ascii_only in (True, False):
        once = _json(text, ascii_only)
        yield once
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
    literals: tuple[Callable[[str], str], ...] = (repr, ascii)
    for literal in literals:
        inner = literal(text)[1:-1]
        yield inner
        # Python picks the quotes that need no escape; models escape either kind.
        yield inner.replace("'", "\\'")
        yield inner.replace('"', '\\"')


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _binary(data: bytes) -> Iterator[str]:
    yield data.hex()
    for encode in (base64.standard_b64encode, base64.urlsafe_b64encode):
        whole = encode(data).decode().rstrip("=")
        if len(whole) >= _MIN_BASE64:
            yield whole
        # Inside of something longer it starts at one of three offsets, and what its first and last
        # characters are depends on its neighbours.
        for offset in range(3):
            padded = encode(b"\0" * offset + data + b"\0" * (-(offset + len(data)) % 3)).decode()
            first = -(-offset * 8 // 6)
            last = (offset + len(data)) * 8 // 6
            if last - first >= _MIN_BASE64:
                yield padded[first:last]
