"""Leave parts out of recorded episodes: screenshots, page sources, files, credentials, storage.

    screenshots  encoded images and videos, image-shaped arrays; data URIs, base64 and SVG in text
    html         page sources: whole documents in any text, and fields such as `html`, `dom_object`
    files        bytes that are neither text nor an image, such as downloads
    credentials  secrets (`settings.credentials`): keys, and values of headers, fields and URLs
    storage      cookies and storage of a browser context

Bytes and arrays become empty, and text becomes `<left out: html>`. An image that is encrypted,
nested in another file, written as numbers, or split over several texts is not found.
"""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.redaction.walker import Visit, Walker
from webtraj.settings import credentials
from webtraj.store.blobs import LazyBlob

__all__ = ["LEFT_OUT", "PARTS", "Stripper", "check_parts", "without"]

PARTS: Final = ("screenshots", "html", "files", "credentials", "storage")
"""The parts that can be left out."""
LEFT_OUT: Final = "left_out"
"""Key in `EpisodeInfo.metadata` of the number of values left out, by part."""

_HTML_NAMES = {
    "html", "outer_html", "inner_html", "page_html", "raw_html", "full_html", "cleaned_html",
    "pruned_html", "html_page", "dom", "dom_object", "dom_txt", "dom_snapshot", "page_source",
    "source_html", "mhtml", "root_element",
}  # fmt: skip
_STORAGE_NAMES = {
    "storage_state", "cookies", "local_storage", "localstorage", "session_storage",
    "sessionstorage",
}  # fmt: skip
_IMAGE_EXTENSIONS = ("jpg", "png", "gif", "webp")
_IMAGE_STARTS = (
    b"\xff\xd8\xff",  # JPEG
    b"\x89PNG\r\n\x1a\n",
    b"GIF87a",
    b"GIF89a",
    b"II*\0",  # TIFF
    b"MM\0*",
    b"\0\0\0\x0cJXL ",
    b"\xff\x0a",  # JPEG XL without a container
    b"\0\0\0\x0cjP  ",  # JPEG 2000
    b"\0\0\1\0",  # ICO
)
_NAMED = (str, bytes, Mapping, list, tuple, LazyBlob)
"""Types of values that can belong to a part by their name."""
_LEAST_SIDE = 16
_CHANNELS = (1, 3, 4)
_DATA_URI = re.compile(
    r"data:(?:image|video)\\?/[A-Za-z0-9.+-]{1,40}(?:;[\w=.+-]{1,40}){0,5},(?:[^\s\"'<>)\\]|\\/)*+",
    re.IGNORECASE,
)
# Images in base64, standard or URL-safe, with slashes and line ends escaped or not.
_BASE64_IMAGE = re.compile(
    r"(?:(?:\\{0,7}/|_)9j(?:\\{0,7}/|_)|iVBORw0KGgo|R0lGOD[dl]h|UklGR|SUkqA|TU0AK"
    r"|AAAADEpYTCA|AAAADGpQICA|AAAA[A-Za-z0-9+/_-]{2}Z0eX)"
    r"(?:[A-Za-z0-9+/_-]|\\+/|\s|\\+[rn]){40,}+={0,2}"
)
_SVG = re.compile(r"<svg[\s>].*?(?:</svg\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_PAGE = re.compile(
    r"(?:<!doctype\s+html|<html[\s>]).*?(?:</html\s{0,9}>|\Z)", re.IGNORECASE | re.DOTALL
)


def check_parts(parts: Iterable[str]) -> frozenset[str]:
    """Return the names of parts as a set.

    Raises:
        InvalidInputError: One is unknown.
    """
    wanted = frozenset(parts)
    if unknown := sorted(wanted.difference(PARTS)):
        raise errors.InvalidInputError(
            f"Unknown part {', '.join(map(repr, unknown))}; expected some of {', '.join(PARTS)}."
        )
    return wanted


def without(
    trajectory: trajectory_lib.EpisodeTrajectory, parts: Collection[str]
) -> trajectory_lib.EpisodeTrajectory:
    """Return an episode without some parts. The original is not changed.

    >>> from webtraj.trajectory import EpisodeInfo, StepRecord, StepType
    >>> picture = bytes([0xFF, 0xD8, 0xFF]) + b" and so on"
    >>> step = StepRecord(0, StepType.FIRST, {"axtree": "text", "screenshot": picture})
    >>> given = trajectory_lib.EpisodeTrajectory(EpisodeInfo(), (step,))
    >>> made = without(given, ["screenshots"])
    >>> made.steps[0].observation, made.info.metadata
    ({'axtree': 'text', 'screenshot': b''}, {'left_out': {'screenshots': 1}})

    Args:
        trajectory: The episode.
        parts: Names of `PARTS`.

    Raises:
        InvalidInputError: A part is unknown.
        CorruptDataError: A blob of the episode is missing or damaged.
    """
    stripper = Stripper(check_parts(parts))
    known = trajectory.info.metadata.get(LEFT_OUT)
    if isinstance(known, Mapping):  # Left out by an earlier call.
        stripper.counts.update({k: n for k, n in known.items() if k in PARTS and type(n) is int})
    steps = tuple(map(stripper.walk, trajectory.steps))
    end, info = stripper.walk(trajectory.end), stripper.walk(trajectory.info)
    if stripper.counts:
        counts = {part: stripper.counts[part] for part in PARTS if stripper.counts[part]}
        info = dataclasses.replace(info, metadata={**info.metadata, LEFT_OUT: counts})
    return dataclasses.replace(trajectory, steps=steps, end=end, info=info)


class Stripper(Walker):
    """A walk that leaves parts out and counts them.

    Attributes:
        counts: The number of values left out, by part.
    """

    fatal = (errors.CorruptDataError, errors.StorageError)
    """The errors of a blob that cannot be read: the episode is damaged."""

    def __init__(self, parts: frozenset[str]) -> None:
        """Initialize the walk.

        Args:
            parts: See `check_parts`.
        """
        self._parts = parts
        self._texts_before = 0
        self.counts: collections.Counter[str] = collections.Counter()

    def _drop(self, part: str) -> str:
        self.counts[part] += 1
        return f"<left out: {part}>"

    def visit_blob(self, blob: LazyBlob, visit: Visit) -> Any:
        """See `Walker.visit_blob`."""
        if "screenshots" in self._parts and not blob.text and blob.blob.ext in _IMAGE_EXTENSIONS:
            self._drop("screenshots")
            return b""  # Without reading it.
        return self._walk(blob.load(), visit)

    def visit_bytes(self, data: bytes) -> bytes:
        """See `Walker.visit_bytes`."""
        if _is_text(data):
            return self.visit_text(data.decode()).encode()
        part = "screenshots" if _is_image(data) else "files"
        if part not in self._parts:
            return data
        self._drop(part)
        return b""

    def visit_text(self, text: str) -> str:
        """See `Walker.visit_text`."""
        if "screenshots" in self._parts:
            for pattern in (_DATA_URI, _BASE64_IMAGE, _SVG):
                text = pattern.sub(lambda _: self._drop("screenshots"), text)
        if "html" in self._parts:
            text = _PAGE.sub(lambda _: self._drop("html"), text)
        if "credentials" in self._parts:
            for start, end in reversed(list(credentials.find_secrets(text))):
                text = text[:start] + self._drop("credentials") + text[end:]
        return text

    def visit_array(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
        """See `Walker.visit_array`."""
        if "screenshots" in self._parts and _is_picture(array):
            self._drop("screenshots")
            return array[:0]
        return super().visit_array(array)

    def visit_mapping(self, value: Mapping[Any, Any], visit: Visit) -> Mapping[Any, Any]:
        """See `Walker.visit_mapping`."""
        # {"name": "Cookie", "value": ...}, as network recorders write headers.
        name = value.get("name")
        made = {}
        for key, old in value.items():
            known_as = name if key == "value" and isinstance(name, str) else key
            made[self._walk(key, visit)] = self._strip_named(known_as, old, visit)
        return made

    def visit_items(self, items: Sequence[Any], visit: Visit) -> list[Any]:
        """See `Walker.visit_items`."""
        if isinstance(items, list | tuple) and len(items) == 2:  # Perhaps a header.
            name = items[0].decode("latin-1") if isinstance(items[0], bytes) else items[0]
            if isinstance(items[1], str | bytes) and self._part_of(name, items[1]) == "credentials":
                return [self._walk(items[0], visit), self._drop("credentials")]
        return super().visit_items(items, visit)

    def visit_field(self, record: Any, name: str, value: Any, visit: Visit) -> Any:
        """See `Walker.visit_field`."""
        return self._strip_named(name, value, visit)

    def _strip_named(self, name: Any, value: Any, visit: Visit) -> Any:
        part = self._part_of(name, value)
        return self._walk(value, visit) if part is None else self._drop(part)

    def _part_of(self, name: Any, value: Any) -> str | None:
        """Return the left-out part that a value belongs to by its name; None if it is kept."""
        if not isinstance(name, str) or not isinstance(value, _NAMED) or not value:
            return None
        plain = name.strip().lower().replace("-", "_")
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        if isinstance(text, str):
            is_secret = credentials.is_secret(name, text)
        else:
            is_secret = credentials.is_secret_name(name)
        if is_secret and "credentials" in self._parts:
            return "credentials"
        if plain in _STORAGE_NAMES and "storage" in self._parts:
            return "storage"
        is_page = plain in _HTML_NAMES and (not isinstance(text, str) or "<" in text)
        return "html" if is_page and "html" in self._parts else None

    # Token ids reveal text but not pictures: a call that lost only pictures keeps them.

    def _record(self, value: Any, visit: Visit) -> Any:
        if isinstance(value, trajectory_lib.ModelCall):  # Shared messages count for each call.
            whole, visit = visit, Visit()
            visit.inside, visit.left, visit.thread = whole.inside, whole.left, whole.thread
        outer, self._texts_before = self._texts_before, self._texts()
        try:
            return super()._record(value, visit)
        finally:
            self._texts_before = outer

    def tokens_reveal(self, changes: Mapping[str, Any]) -> bool:
        """See `Walker.tokens_reveal`."""
        return self._texts() > self._texts_before

    def _texts(self) -> int:
        return self.counts.total() - self.counts["screenshots"]


def _is_image(data: bytes) -> bool:
    return (
        data.startswith((*_IMAGE_STARTS, b"BM"))
        or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")
        or data[4:8] == b"ftyp"
    )


def _is_picture(array: np.ndarray[Any, Any]) -> bool:
    sides = sum(side >= _LEAST_SIDE for side in array.shape)
    if array.dtype.kind not in "buif" or sides < 2:
        return False
    if array.dtype == np.uint8:
        return True
    return array.ndim >= 3 and (array.shape[-1] in _CHANNELS or array.shape[-3] in _CHANNELS)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data
