"""Places: open the storage at a path or URL: a folder, a bucket, or the Hugging Face Hub."""

from __future__ import annotations

import inspect
import io
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from webtraj import errors
from webtraj.store.storage import FolderStorage, Storage

__all__ = ["is_url", "open_file", "open_storage"]

_ONE_SLASH = re.compile(r"(s3a?|gs|az|azure|abfss?|hf|memory):/?([^/].*)", re.DOTALL)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


def is_url(place: str | os.PathLike[str]) -> bool:
    """Return whether a place is a URL, not a path.

    >>> is_url("s3://bucket/prefix"), is_url("runs/demo")
    (True, False)

    Raises:
        InvalidInputError: It is the URL of a bucket or of the Hub with a slash too few.
    """
    if not isinstance(place, str):
        return False
    if found := _ONE_SLASH.match(place):
        meant = f"{found[1]}://{found[2]}"
        raise errors.InvalidInputError(
            f"{place!r:.200} is no URL: a slash is missing. Did you mean {meant!r:.200}?"
        )
    return _SCHEME.match(place) is not None


def open_storage(
    place: str | os.PathLike[str], options: Mapping[str, Any] | None = None
) -> Storage:
    """Return the storage at a path or URL.

    Args:
        place: A folder's path, or a URL: `s3://bucket/prefix`, `gs://`, `az://`, `file://`,
            `memory://`, or `hf://datasets/ORG/NAME`, which is read-only.
        options: For a bucket: the arguments of `webtraj.store.bucket.BucketStorage`; for the
            Hugging Face Hub, those of `webtraj.store.hub.HubStorage`. A folder ignores them.

    Raises:
        InvalidInputError: It is not a path or URL, or the kind of URL or an option is unknown.
        MissingDependencyError: It is a bucket or on the Hub, and `webtraj[s3]` or
            `webtraj[huggingface]` is not installed.
    """
    from webtraj.store import hub, stores  # Later: a folder needs neither.

    if not isinstance(place, (str, os.PathLike)):
        raise errors.InvalidInputError(
            f"{place!r:.200} is not a place; expected the path or URL of a dataset."
        )
    url = os.fspath(place)
    if hub.is_hub_url(place):
        known = [name for name in inspect.signature(hub.HubStorage).parameters if name != "url"]
        if unknown := sorted(set(options or ()).difference(known)):
            raise errors.InvalidInputError(
                f"Unknown storage option {', '.join(unknown)} for {url!r:.200}: expected some of "
                f"{', '.join(known)}."
            )
        return hub.HubStorage(url, **(options or {}))
    parsed = stores.parse_url(url) if is_url(place) else None
    if parsed is None or parsed.kind == "file":
        # Our own folder storage waits for the disk; obstore's does not.
        return FolderStorage(place if parsed is None else parsed.path)
    from webtraj.store.bucket import BucketStorage

    return BucketStorage(url, **(options or {}))


def open_file(
    name: str, options: Mapping[str, Any] | None = None, *, what: str, expected: str
) -> BinaryIO:
    """Open a file for reading, by its path or its URL in a bucket.

    Args:
        name: The path or URL.
        options: Bucket options; see `open_storage`.
        what: The kind of file, for the error: `task file`.
        expected: The expected kind of file, for the error: `a .jsonl file`.

    Raises:
        InvalidInputError: The file does not exist.
        StorageError: The bucket cannot be read.
    """
    try:
        if not is_url(name):
            return Path(name).open("rb")
        folder, _, key = name.rpartition("/")
        return io.BytesIO(open_storage(folder, options).read(key))
    except (FileNotFoundError, IsADirectoryError) as error:
        raise errors.InvalidInputError(
            f"There is no {what} {name!r}: {errors.reason(error)}. Give {expected}."
        ) from error
