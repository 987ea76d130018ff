"""From what a person writes, a path or a URL, to the storage that it names."""

from __future__ import annotations

import inspect
import io
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from webtraj import errors
from webtraj.store.storage import Storage

__all__ = ["is_url", "open_file", "open_storage"]

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
        options: For a bucket: what `webtraj.store.bucket.BucketStorage` takes.

    Raises:
        InvalidInputError: The URL is of no kind that is known, or an option is.
        MissingDependencyError: It names a bucket, and `webtraj[s3]` is not installed.
    """
    from webtraj.store import stores
    from webtraj.store.folder import FolderStorage

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
    from webtraj.store.bucket import BucketStorage

    known = inspect.signature(BucketStorage).parameters
    unknown = sorted(set(options or ()) - (set(known) - {"url"}))
    if unknown:
        raise errors.InvalidInputError(
            f"{parsed.url!r} takes no option {', '.join(unknown)}; expected some of "
            f"{', '.join(name for name in known if name != 'url')}."
        )
    return BucketStorage(url, **(options or {}))


def open_file(
    name: str, options: Mapping[str, Any] | None = None, *, what: str, expected: str
) -> BinaryIO:
    """Opens a file to be read, by its path or its URL in a bucket.

    Args:
        name: Where it is.
        options: For a bucket, as `open_storage` takes them.
        what: What it is, for the error: `task file`.
        expected: What to name instead, for the error: `a .jsonl file`.

    Raises:
        InvalidInputError: There is no such file.
        StorageError: The bucket cannot be read.
    """
    try:
        if not is_url(name):
            return Path(name).open("rb")
        folder, _, key = name.rpartition("/")
        return io.BytesIO(open_storage(folder, options).read(key))
    except (FileNotFoundError, IsADirectoryError) as error:
        raise errors.InvalidInputError(
            f"There is no {what} {name!r}: {error}. Name {expected}."
        ) from error
