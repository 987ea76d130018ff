"""Check an object's bytes against its ETag.

Most S3 servers use the MD5 of an object as its ETag, and for a multipart upload the MD5 of the
parts' MD5s. Some (with KMS encryption, or of other vendors) use values that only look like MD5s.
"""

from __future__ import annotations

import hashlib
import re

__all__ = ["matches"]

_WHOLE = re.compile(r"[0-9a-f]{32}")
_PARTS = re.compile(r"([0-9a-f]{32})-([0-9]{1,5})")


def matches(e_tag: str | None, data: bytes, part_size: int) -> bool | None:
    """Return whether an ETag matches `data`; None if it is no MD5, or of parts of another size.

    Args:
        e_tag: The ETag that the store returned, with or without quotes.
        data: The bytes that were sent.
        part_size: The size of all parts but the last, if sent in parts.

    >>> matches('"5d41402abc4b2a76b9719d911017c592"', b"hello", 5)
    True
    """
    text = (e_tag or "").strip('"').lower()
    if _WHOLE.fullmatch(text):
        return _md5(data).hexdigest() == text
    match = _PARTS.fullmatch(text)
    if match is None:
        return None
    view = memoryview(data)
    if int(match[2]) != max(1, -(-len(data) // part_size)):
        return None
    parts = [_md5(view[at : at + part_size]) for at in range(0, len(data), part_size)]
    return _md5(b"".join(part.digest() for part in parts)).hexdigest() == match[1]


def _md5(data: bytes | memoryview) -> hashlib._Hash:
    return hashlib.md5(data, usedforsecurity=False)
