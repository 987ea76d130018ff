"""Pictures on the wire: their media type, and their base64, encoded once for each picture."""

from __future__ import annotations

import base64
import collections

import orjson

from webtraj import errors
from webtraj.agents.models.base import Image

__all__ = ["Base64Cache", "media_type"]

_CACHE_BYTES = 64 * 2**20
_WEBP_HEAD = 12


def media_type(data: bytes) -> str:
    r"""Returns the media type of an encoded picture.

    >>> media_type(b"\x89PNG\r\n\x1a\n...")
    'image/png'

    Raises:
        InvalidInputError: It is none that models take.
    """
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith(b"RIFF") and data[8:_WEBP_HEAD] == b"WEBP":
        return "image/webp"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    raise errors.InvalidInputError(
        f"A picture begins with {data[:8]!r}, which is none of PNG, JPEG, WebP and GIF. Encode it "
        "in one of those."
    )


class Base64Cache:
    """Keeps the base64 of the pictures last used, as pieces of JSON that are ready to be sent.

    A conversation shows its last few pictures again at every step. They are known by their `uuid`,
    so that it does not matter whether the same `Image` object comes again.
    """

    def __init__(self, max_bytes: int = _CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._texts: collections.OrderedDict[tuple[str, bool], bytes] = collections.OrderedDict()

    def data_uri(self, image: Image) -> orjson.Fragment:
        """Returns a picture as the JSON string of a `data:` URI."""
        return self._fragment(image, as_uri=True)

    def base64(self, image: Image) -> orjson.Fragment:
        """Returns a picture as the JSON string of its base64."""
        return self._fragment(image, as_uri=False)

    def _fragment(self, image: Image, *, as_uri: bool) -> orjson.Fragment:
        key = (image.uuid, as_uri)
        text = self._texts.get(key)
        if text is not None:
            self._texts.move_to_end(key)
            return orjson.Fragment(text)
        prefix = f"data:{media_type(image.data)};base64," if as_uri else ""
        text = b'"%b%b"' % (prefix.encode(), base64.b64encode(image.data))
        self._texts[key] = text
        self._num_bytes += len(text)
        while self._num_bytes > self._max_bytes:
            _, dropped = self._texts.popitem(last=False)
            self._num_bytes -= len(dropped)
        return orjson.Fragment(text)
