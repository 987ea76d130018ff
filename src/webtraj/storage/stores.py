"""From a URL and options to obstore's stores. The only place that knows how each is configured."""

from __future__ import annotations

import dataclasses
import datetime
import re
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

from webtraj import errors
from webtraj.storage.base import check_key

__all__ = ["Place", "make_store", "parse_url"]

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)(?:/([^?#]*))?")
_CLOUDS = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "az": "az",
    "azure": "az",
    "adl": "az",
    "abfs": "az",
    "abfss": "az",
}

_memory_stores: dict[str, Any] = {}
_memory_lock = threading.Lock()


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A URL, taken apart. It holds no credentials."""

    url: str
    """Without a trailing slash."""
    kind: str
    """`s3`, `gs`, `az`, `file` or `memory`."""
    bucket: str
    """The part between `//` and `/`."""
    path: str
    """The rest, without slashes at its ends; for `file`, the folder's path."""


def parse_url(url: str) -> Place:
    """Returns a storage URL's parts.

    Raises:
        InvalidInputError: It is no such URL, or has credentials in it.
    """
    match = _URL.fullmatch(url)
    if match is None:
        # What follows ? or # may be a signature, so none of it is shown.
        raise errors.InvalidInputError(
            f"{re.split('[?#@]', url)[0]!r:.200} is no storage URL; expected s3://bucket/prefix or "
            "the like, without a query or a fragment."
        )
    scheme, bucket, path = match[1].lower(), match[2], match[3] or ""
    kind = _CLOUDS.get(scheme, scheme)
    user, at, _ = bucket.rpartition("@")
    if at and (":" in user or scheme not in ("abfs", "abfss")):
        raise errors.InvalidInputError(
            f"The URL {scheme}://***@... has credentials in it; give them as options, in the "
            "environment or in a credentials file."
        )
    if kind == "file":
        folder = "/" + urllib.parse.unquote(path)
        if bucket not in ("", "localhost") or folder == "/":
            raise errors.InvalidInputError(f"{url!r:.200} names no folder; expected file:///path.")
        return Place(url.rstrip("/"), kind, "", folder)
    if kind == "memory" or kind in _CLOUDS.values():
        if not bucket and kind != "memory":
            raise errors.InvalidInputError(f"{url!r:.200} names no bucket; expected {kind}://name.")
        path = path.strip("/")
        if path:
            check_key(path)
        return Place(url.rstrip("/") if bucket or path else "memory://", kind, bucket, path)
    raise errors.InvalidInputError(
        f"{url!r:.200} names no storage that is known; expected a URL that begins with one of "
        f"{', '.join(f'{known}://' for known in (*_CLOUDS, 'file', 'memory'))}."
    )


def make_store(
    place: Place,
    *,
    config: Mapping[str, Any],
    client_options: Mapping[str, Any],
    retry_for: float,
    credential_provider: Callable[[], Any] | None,
) -> Any:
    """Returns obstore's store for a place.

    Args:
        place: Where.
        config: The configuration, in obstore's words.
        client_options: The HTTP client's, in obstore's words.
        retry_for: For how many seconds obstore itself tries a request again; 0 for never.
        credential_provider: Gives credentials, where they are not to come from obstore's own chain.

    Raises:
        InvalidInputError: obstore does not take the options.
        MissingDependencyError: obstore is not installed.
    """
    try:
        import obstore.exceptions
        import obstore.store
    except ImportError as error:
        raise errors.MissingDependencyError(
            f'{place.kind}:// needs obstore; install it with pip install "webtraj[s3]".'
        ) from error
    if place.kind == "memory":
        with _memory_lock:
            return _memory_stores.setdefault(place.bucket, obstore.store.MemoryStore())
    if place.kind == "file":
        return obstore.store.LocalStore(place.path, mkdir=True)
    options: dict[str, Any] = {
        "client_options": dict(client_options),
        # Time alone is the limit.
        "retry_config": {
            "max_retries": 1_000_000 if retry_for else 0,
            "retry_timeout": datetime.timedelta(seconds=retry_for),
            "backoff": {
                "init_backoff": datetime.timedelta(milliseconds=200),
                "max_backoff": datetime.timedelta(seconds=20),
                "base": 2,
            },
        },
    }
    if credential_provider is not None:
        options["credential_provider"] = credential_provider
    try:
        return obstore.store.from_url(place.url, **dict(config), **options)
    except (obstore.exceptions.BaseError, ValueError, TypeError) as error:
        reason = type(error).__name__
        raise errors.InvalidInputError(
            f"{place.url!r} could not be opened with these options ({reason}): "
            f"{', '.join(sorted({*config, *client_options}))}."
        ) from None
