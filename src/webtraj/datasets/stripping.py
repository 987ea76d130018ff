"""Strip pictures, page sources, files and credentials from values, keeping the text.

Everything that might be a picture is dropped: encoded images by their first bytes, arrays with the
shape of an image, base64 and SVG in text, and all bytes that are not text, since a document or a
video may contain pictures. The kinds, and what replaces them:

    images        bytes: empty; arrays: an empty one; in text: `<not shared: images>`
    files         bytes that are not text, such as downloads: empty
    html          page sources, found by field name or by their first tag
    credentials   secrets (`settings.credentials`): keys, and values of headers, fields and URLs
    storage       cookies and storage of a browser context
"""

from __future__ import annotations

import base64
import collections
import copy
import dataclasses
import enum
import html
import re
import urllib.parse
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from webtraj import trajectory as trajectory_lib
from webtraj.redaction.searching import with_items
from webtraj.settings import credentials
from webtraj.store.blobs import LazyBlob

__all__ = ["KINDS", "Stripper", "is_image", "is_picture", "picture_in"]

KINDS: Final = ("images", "files", "html", "credentials", "storage")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_HTML_NAMES = _names("""
    html outer_html inner_html page_html raw_html full_html cleaned_html pruned_html html_page
    dom dom_object dom_txt dom_snapshot page_source source_html mhtml root_element
""")
_STORAGE_NAMES = _names("""
    storage_state cookies local_storage localstorage session_storage sessionstorage
""")
_RAW = ("response", "prompt_token_ids", "completion_token_ids", "logprobs")
"""Fields of a model call that repeat its text in another form."""

_IMAGE_STARTS = (
    b"\xff\xd8\xff",  # JPEG
    b"\x89PNG\r\n\x1a\n",
    b"GIF87a",
    b"GIF89a",
    b"II*\0",  # TIFF
    b"MM\0*",
    b"\0\0\0\x0cJXL ",
    b"\0\0\0\x0cjP  ",  # JPEG 2000
    b"\0\0\1\0",  # ICO
)
_BRANDS = rb"avi[fs]|hei[cfmsx]|hev[cmsx]|mif1|msf1|jxl |crx "
_IMAGE_INSIDE = re.compile(
    rb"\xff\xd8\xff[\xc0-\xfe]|\x89PNG\r\n\x1a\n|GIF8[79]a|II\*\0.{2}\0\0|MM\0\*\0\0"
    rb"|\0\0\0\x0c(?:JXL |jP  )|RIFF.{4}WEBP|ftyp(?:"
    + _BRANDS
    + rb")|BM.{4}\0{4}.{2}\0\0[\x0c\x28\x6c\x7c]\0{3}"
    rb"|<svg[\s>]",
    re.DOTALL,
)
"""An image within other bytes, such as decoded text whose start is unknown."""
_LEAST_SIDE = 16
_CHANNELS = (1, 3, 4)

_DATA_URI = re.compile(
    r"data:(?:image|video)\\?/[A-Za-z0-9.+-]{1,40}(?:;[\w=.+-]{1,40}){0,5},(?:[^\s\"'<>)\\]|\\/)*+",
    re.IGNORECASE,
)
# JPEG, PNG, GIF, WebP, TIFF, JPEG XL, ISO media (AVIF, HEIC), BMP and SVG in base64, standard or
# URL-safe, with `+`, `/` and line ends escaped or not.
_LETTER = r"(?:[A-Za-z0-9+/_-]|\\+/|\r?\n|\\+[rn]|%(?:25){0,3}(?:2[BbFf]|0[AaDd]))"
# After white space, quotes and the like, more base64 may follow: lines of a program, a mail or a
# quotation. Without this, only the start of a picture would be removed.
_MORE_LETTERS = (
    r"(?:[^A-Za-z0-9]{1,16}(?:(?=[A-Za-z0-9+/_-]{40})"
    r"|(?=[A-Za-z0-9+/_-]{16})(?=[a-z0-9+/_-]{0,40}[A-Z])(?=[A-Z0-9+/_-]{0,40}[a-z])"
    r"(?=[A-Za-z+/_-]{0,40}[0-9]))" + _LETTER + "++)*+"
)
_BASE64_IMAGE = re.compile(
    r"(?:(?:\\{0,7}/|_|%(?:25){0,3}2[Ff])9j(?:\\{0,7}/|_|%(?:25){0,3}2[Ff])|iVBORw0KGgo|R0lGOD[dl]h"
    r"|UklGR|SUkqA|TU0AK|AAAADEpYTCA|AAAADGpQICA"
    r"|AAAA[A-Za-z0-9+/_-]{2}Z0eX|Qk[A-Za-z0-9+/_-]{6}AAAA[A-Za-z0-9+/_-]{4}A|PHN2Zy|PD94bWwg)"
    + _LETTER
    + r"{40,}+"
    + _MORE_LETTERS
    + r"={0,2}"
)
_SVG = re.compile(r"<svg[\s>].*?(?:</svg\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_PAGE = re.compile(r"<!doctype\s+html|<html[\s>]", re.IGNORECASE)
_PAGE_END = re.compile(r"</html\s{0,9}>", re.IGNORECASE)


def placeholder(kind: str) -> str:
    """Return the text that replaces a dropped value.

    >>> placeholder("html")
    '<not shared: html>'
    """
    return f"<not shared: {kind}>"


def is_image(data: bytes) -> bool:
    """Return whether bytes start like an encoded image or film."""
    return (
        data.startswith(_IMAGE_STARTS)
        or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")
        or data[4:8] == b"ftyp"
        or (data[:2] == b"BM" and not _is_text(data))
        or (data[:2] == b"\xff\x0a" and not _is_text(data))  # JPEG XL without a container
    )


def is_picture(array: np.ndarray[Any, Any]) -> bool:
    """Return whether an array has the shape of a picture, or of several."""
    sides = sum(side >= _LEAST_SIDE for side in array.shape)
    if array.dtype.kind not in "buif" or sides < 2:
        return False
    if array.dtype == np.uint8:
        return True
    return array.ndim >= 3 and (array.shape[-1] in _CHANNELS or array.shape[-3] in _CHANNELS)


_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})|\\x([0-9A-Fa-f]{2})|\\+([nrt])|\\+(.)", re.DOTALL)
_RUN = re.compile(r"[A-Za-z0-9+/_-]{32,}+")
_HEX_RUN = re.compile(r"(?:[0-9A-Fa-f]{2}){32,}+")
_LAYERS = 4


def picture_in(text: str) -> bool:
    """Return whether a text contains an encoded image. Fails closed: a possible image counts.

    Shares no code with `Stripper`. Undoes nested escapes of JSON, URLs and HTML, joins lines,
    decodes everything that may be base64 or hexadecimal at every offset, and searches the result
    for the first bytes of images.
    """
    for _ in range(_LAYERS):
        if _shows_picture(text):
            return True
        plain = _unescaped(text)
        if plain == text:
            return False
        text = plain
    return _shows_picture(text)


def _unescaped(text: str) -> str:
    if "\\" in text:
        text = _ESCAPE.sub(_character, text)
    if "%" in text:
        text = urllib.parse.unquote(text)
    if "&" in text:
        text = html.unescape(text)
    return text


def _character(escape: re.Match[str]) -> str:
    if code := escape[1] or escape[2]:
        return chr(int(code, 16))
    return "\n" if escape[3] else escape[4]


def _shows_picture(text: str) -> bool:
    lowered = text.lower()
    if "<svg" in lowered or "data:image" in lowered or "data:video" in lowered:
        return True
    return any(map(_run_shows_picture, _RUN.findall("".join(map(str.strip, text.splitlines())))))


def _run_shows_picture(run: str, *, again: bool = True) -> bool:
    data = run.replace("-", "+").replace("_", "/")
    for offset in range(4):
        shifted = data[offset:]
        decoded = base64.b64decode(shifted[: len(shifted) // 4 * 4])
        if _IMAGE_INSIDE.search(decoded):
            return True
        if again and decoded.isascii():  # It may be base64 of base64.
            runs = _RUN.findall(decoded.decode())
            if any(_run_shows_picture(inner, again=False) for inner in runs):
                return True
    return any(
        _IMAGE_INSIDE.search(
            bytes.fromhex(digits[offset : (len(digits) - offset) // 2 * 2 + offset])
        )
        for digits in _HEX_RUN.findall(run)
        for offset in (0, 1)
    )


class Stripper:
    """Returns values without what must not be shared, and counts it. Changes no value in place.

    Args:
        keep: Kinds to keep.
    """

    def __init__(self, keep: frozenset[str] = frozenset()) -> None:
        self._drops = frozenset(KINDS) - keep
        self.counts: collections.Counter[str] = collections.Counter()
        """Dropped values by kind."""

    def strip(self, value: Any) -> Any:
        """Return the shareable part of a value; the value itself if nothing was dropped."""
        return self._strip(value, set())

    def _dropped(self, kind: str) -> str:
        self.counts[kind] += 1
        return placeholder(kind)

    def _strip(self, value: Any, inside: set[int]) -> Any:
        if isinstance(value, LazyBlob):
            if value.blob.ext in ("jpg", "png", "gif") and not value.text:
                self._dropped("images")
                return b""
            value = value.load()
        if isinstance(value, str):
            stripped = self._text(str(value))
            return value if stripped == value else stripped
        if isinstance(value, bytes | bytearray | memoryview):
            return self._bytes(value)
        if value is None or isinstance(value, bool | int | float | complex | enum.Enum | type):
            return value
        if id(value) in inside:
            return value  # A cycle; the encoder decides what to do with it.
        inside.add(id(value))
        try:
            return self._nest(value, inside)
        finally:
            inside.discard(id(value))

    def _bytes(self, value: bytes | bytearray | memoryview) -> Any:
        data = bytes(value)
        if is_image(data):
            self._dropped("images")
            return b""
        if not _is_text(data):
            if "files" not in self._drops:
                return value
            self._dropped("files")
            return b""
        stripped = self._text(data.decode()).encode()
        return value if stripped == data else stripped

    def _text(self, text: str) -> str:
        if "data:" in text.lower():
            text = _DATA_URI.sub(lambda _: self._dropped("images"), text)
        if len(text) > 40:
            text = _BASE64_IMAGE.sub(lambda _: self._dropped("images"), text)
        if "html" in self._drops:
            text = self._without_pages(text)
        if "<svg" in text.lower():
            text = _SVG.sub(lambda _: self._dropped("images"), text)
        if "credentials" in self._drops:
            text = self._without_credentials(text)
        # If a picture remains in some unforeseen form, drop the whole text.
        return self._dropped("images") if picture_in(text) else text

    def _without_credentials(self, text: str) -> str:
        parts, at = [], 0
        for start, end in credentials.find_secrets(text):
            parts += [text[at:start], self._dropped("credentials")]
            at = end
        return "".join((*parts, text[at:])) if parts else text

    def _without_pages(self, text: str) -> str:
        parts, at = [], 0
        while (begins := _PAGE.search(text, at)) is not None:
            ends = _PAGE_END.search(text, begins.end())
            parts += [text[at : begins.start()], self._dropped("html")]
            # A page without an end tag runs to the end of the text.
            at = len(text) if ends is None else ends.end()
        return "".join((*parts, text[at:])) if parts else text

    def _nest(self, value: Any, inside: set[int]) -> Any:
        if isinstance(value, Mapping):
            return self._mapping(value, inside)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            items, changed = self._items(value, inside)
            return type(value)(*items) if changed else value
        if isinstance(value, list | tuple | set | frozenset | collections.deque):
            if pair := self._header_pair(value):
                return pair
            items, changed = self._items(value, inside)
            return type(value)(items) if changed else value
        if isinstance(value, np.ndarray):
            return self._array(value, inside)
        if dataclasses.is_dataclass(value):
            return self._record(value, inside)
        return value

    def _mapping(self, value: Mapping[Any, Any], inside: set[int]) -> Any:
        # {"name": "Cookie", "value": ...}, as network recorders write headers.
        name = value.get("name")
        telltale = isinstance(name, str) and credentials.is_secret_name(name)
        stripped, changed = {}, False
        for key, old in value.items():
            new_key = self._strip(key, inside)
            if telltale and key == "value" and old and "credentials" in self._drops:
                new: Any = self._dropped("credentials")
            else:
                new = self._field(key, old, inside)
            stripped[new_key] = new
            changed |= new is not old or new_key is not key
        return stripped if changed else value

    def _field(self, key: Any, value: Any, inside: set[int]) -> Any:
        """Return the shareable part of a named value."""
        name = _plain(key) if isinstance(key, str) else ""
        if "credentials" in self._drops and isinstance(key, str) and _logs_in(key, value):
            return self._dropped("credentials")
        for kind, names in (("storage", _STORAGE_NAMES), ("html", _HTML_NAMES)):
            if name in names and kind in self._drops and _says_something(value, kind):
                return self._dropped(kind)
        return self._strip(value, inside)

    def _header_pair(self, value: Any) -> Any:
        """Return a secret header, given as a pair, without its value; None for anything else."""
        if "credentials" not in self._drops:
            return None
        if not isinstance(value, list | tuple) or len(value) != 2:
            return None
        name, content = value
        name = name.decode("latin-1") if isinstance(name, bytes) else name
        if not isinstance(name, str) or not isinstance(content, str | bytes) or not content:
            return None
        if not _logs_in(name, content):
            return None
        pair = (value[0], self._dropped("credentials"))
        return pair if isinstance(value, tuple) else list(pair)

    def _items(self, values: Any, inside: set[int]) -> tuple[list[Any], bool]:
        items = [self._strip(item, inside) for item in values]
        return items, any(new is not old for new, old in zip(items, values, strict=True))

    def _array(self, value: np.ndarray[Any, Any], inside: set[int]) -> Any:
        if is_picture(value):
            self._dropped("images")
            return value[:0]
        if value.dtype.kind not in "OUS":
            return value
        items, changed = self._items(value.ravel().tolist(), inside)
        if not changed:
            return value
        return with_items(value, items)

    def _record(self, value: Any, inside: set[int]) -> Any:
        before = self.counts.total() - self.counts["images"]
        changes = {}
        for field in dataclasses.fields(value):
            old = getattr(value, field.name)
            new = self._field(field.name, old, inside)
            if new is not old:
                changes[field.name] = new
        # Token ids encode no pictures, but they do encode the rest of the text.
        if isinstance(value, trajectory_lib.ModelCall) and before < (
            self.counts.total() - self.counts["images"]
        ):
            empty = trajectory_lib.ModelCall()
            changes |= {name: getattr(empty, name) for name in _RAW}
        if not changes:
            return value
        stripped = copy.copy(value)
        for name, new in changes.items():
            object.__setattr__(stripped, name, new)
        return stripped


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", "_")


def _logs_in(name: str, value: Any) -> bool:
    """Return whether a named value is a credential."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        return credentials.is_secret(name, value)
    return (
        isinstance(value, Mapping | list | tuple)
        and bool(value)
        and credentials.is_secret_name(name)
    )


def _says_something(value: Any, kind: str) -> bool:
    """Return whether a value is not empty, and has the meaning that its name suggests."""
    if isinstance(value, LazyBlob):
        return True
    if kind == "html" and isinstance(value, str):
        return "<" in value
    if kind == "html" and isinstance(value, bytes):
        return b"<" in value
    return isinstance(value, np.ndarray) or (value is not None and bool(value))


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data
