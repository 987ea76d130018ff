"""From what a person writes, a path or a URL, to the storage that it names."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Mapping
from typing import Any

from webtraj import errors
from webtraj.storage.base import Storage

__all__ = ["is_url", "open_storage"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


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
        InvalidInputError: The URL is of no kind that is known, or an option is.
        MissingDependencyError: It names a bucket, and `webtraj[s3]` is not installed.
    """
    from webtraj.storage import stores
    from webtraj.storage.folder import FolderStorage

    url = os.fspath(place)
    parsed = stores.parse_url(url) if is_url(place) else None
    if parsed is None or parsed.kind == "file":
        if options:
            raise errors.InvalidInputError(
                f"A folder takes no storage options; got {', '.join(sorted(options))} "
                f"for {url!r:.200}."
            )
        # A folder of our own waits for the disk, which obstore's does not.
        return FolderStorage(place if parsed is None else parsed.path)
    from webtraj.storage.bucket import BucketStorage

    known = inspect.signature(BucketStorage).parameters
    unknown = sorted(set(options or ()) - (set(known) - {"url"}))
    if unknown:
        raise errors.InvalidInputError(
            f"{parsed.url!r} takes no option {', '.join(unknown)}; expected some of "
            f"{', '.join(name for name in known if name != 'url')}."
        )
    return BucketStorage(url, **(options or {}))
