"""From what a person writes, a path or a URL, to the storage that it names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from webtraj import errors
from webtraj.storage.base import Storage

__all__ = ["is_url", "open_storage"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "file", "memory")


def is_url(place: str | os.PathLike[str]) -> bool:
    """Returns whether a place is a URL, not a path.

    >>> is_url("s3://bucket/prefix"), is_url("runs/demo")
    (True, False)
    """
    return isinstance(place, str) and _SCHEME.match(place) is not None


def open_storage(
    place: str | os.PathLike[str], options: Mapping[str, Any] | None = None
) -> Storage:
    """Returns the storage that a path or URL names.

    Args:
        place: A folder's path, or a URL: `s3://bucket/prefix`, `gs://`, `az://`, `file://`,
            `memory://`.
        options: For a bucket: what `webtraj.storage.bucket.BucketStorage` takes.

    Raises:
        InvalidInputError: The URL is of no kind that is known.
        MissingDependencyError: It names a bucket, and `webtraj[s3]` is not installed.
    """
    from webtraj.storage.folder import FolderStorage

    if not is_url(place):
        if options:
            raise errors.InvalidInputError(
                f"A folder takes no storage options; got {', '.join(sorted(options))} "
                f"for {os.fspath(place)!r}."
            )
        return FolderStorage(place)
    url = os.fspath(place)
    match = _SCHEME.match(url)
    if match is None or match[1].lower() not in _SCHEMES:
        raise errors.InvalidInputError(
            f"{url!r:.200} names no storage that is known; expected a path or a URL that begins "
            f"with one of {', '.join(f'{scheme}://' for scheme in _SCHEMES)}."
        )
    from webtraj.storage.bucket import BucketStorage

    return BucketStorage(url, **(options or {}))
