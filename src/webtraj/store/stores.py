"""Configuration of obstore's stores from a URL and options, in one place."""

from __future__ import annotations

import dataclasses
import datetime
import os
import re
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

from webtraj import errors
from webtraj.store.bucket_requests import RetryPolicy
from webtraj.store.storage import check_key

__all__ = ["Place", "StoreMaker", "check_process", "parse_url"]

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)(?:/([^?#]*))?")
_CLOUDS = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "az": "az",
    "azure": "az",
    "abfs": "az",
    "abfss": "az",
}

_memory_stores: dict[str, Any] = {}
_lock = threading.Lock()
_process = 0
"""The process of obstore's threads; 0 while there are none."""


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A parsed storage URL, without credentials."""

    url: str
    """Without a trailing slash."""
    kind: str
    """`s3`, `gs`, `az`, `file` or `memory`."""
    bucket: str
    """The part between `//` and `/`."""
    path: str
    """The rest, without slashes at its ends; for `file`, the folder's path."""


def parse_url(url: str) -> Place:
    """Return a storage URL's parts.

    >>> parse_url("s3://bucket/runs/demo/").path
    'runs/demo'

    Raises:
        InvalidInputError: It is not a storage URL, or it contains credentials.
    """
    match = _URL.fullmatch(url)
    scheme = match[1].lower() if match else ""
    kind = _CLOUDS.get(scheme, scheme)
    if match is None or kind not in {*_CLOUDS.values(), "file", "memory"}:
        # The parts after ? or # and before @ may be secret, so they are not shown.
        shown = re.sub(r"(?<=://).*@", "***@", re.split("[?#]", url)[0])
        raise errors.InvalidInputError(
            f"No storage for {shown!r:.200}; expected a path, or a URL without a query that starts "
            f"with one of {', '.join(f'{known}://' for known in _CLOUDS)}, file://, memory://, "
            "hf://datasets/."
        )
    bucket, path = match[2], (match[3] or "").strip("/")
    user, at, _ = bucket.rpartition("@")
    if at and (":" in user or scheme not in ("abfs", "abfss")):
        raise errors.InvalidInputError(
            f"{scheme}://***@... contains credentials. Give them as options, in the environment "
            "or in a credentials file."
        )
    if kind == "file":
        if bucket not in ("", "localhost") or not path:
            why = "has no folder" if not path else "names a folder on another machine"
            raise errors.InvalidInputError(f"{url!r:.200} {why}; expected file:///path.")
        return Place(f"file:///{path}", kind, "", "/" + urllib.parse.unquote(path))
    if not bucket and (path or kind != "memory"):
        raise errors.InvalidInputError(f"{url!r:.200} has no bucket: expected {scheme}://name.")
    if path:
        check_key(path)
    return Place(f"{scheme}://{bucket}{'/' if path else ''}{path}", kind, bucket, path)


class StoreMaker:
    """Makes obstore's stores for one place. It holds credentials, but its repr never shows them."""

    def __init__(
        self,
        place: Place,
        *,
        config: Mapping[str, Any],
        client_options: Mapping[str, Any],
        credential_provider: Callable[[], Any] | None,
    ) -> None:
        """Initialize the maker.

        Args:
            place: The parsed URL of the stores.
            config: The store's configuration, in obstore's terms.
            client_options: The HTTP client's options, in obstore's terms.
            credential_provider: Returns credentials, if they do not come from obstore's chain.

        Raises:
            MissingDependencyError: obstore is not installed.
        """
        try:
            import obstore  # noqa: F401
        except ImportError as error:
            raise errors.missing_dependency(f"{place.kind}:// needs obstore", "s3") from error
        self._place = place
        self._config = dict(config)
        self._client_options = dict(client_options)
        self._provider = credential_provider
        self._stores: dict[tuple[float, RetryPolicy | None], Any] = {}

    def store(self, *, timeout: float, retry: RetryPolicy | None = None) -> Any:
        """Return a store. The same arguments give the same store.

        Args:
            timeout: Seconds for one request.
            retry: How obstore itself retries a request; None for no retries.

        Raises:
            InvalidInputError: obstore refuses the configuration.
        """
        store = self._stores.get((timeout, retry))
        if store is None:
            with _lock:
                store = self._stores.setdefault((timeout, retry), self._make(timeout, retry))
        return store

    def _make(self, timeout: float, retry: RetryPolicy | None) -> Any:
        from obstore import exceptions
        from obstore import store as store_lib

        if self._place.kind == "memory":
            return _memory_stores.setdefault(self._place.bucket, store_lib.MemoryStore())
        try:
            options: dict[str, Any] = {
                **self._config,
                "credential_provider": self._provider,
                "client_options": {
                    "timeout": datetime.timedelta(seconds=timeout),
                    **self._client_options,
                },
                "retry_config": _retry_config(retry),
            }
            return store_lib.from_url(self._place.url, **options)
        except (exceptions.BaseError, OSError, ValueError, TypeError) as error:
            reason = type(error).__name__
        # obstore's message may quote the configuration, credentials included.
        raise errors.InvalidInputError(
            f"Could not open {self._place.url!r} ({reason}). Check the options given: "
            f"{', '.join(sorted({*self._config, *self._client_options}))}."
        )

    def __repr__(self) -> str:
        return f"StoreMaker({self._place.url!r})"


def _retry_config(retry: RetryPolicy | None) -> dict[str, Any]:
    if retry is None or not retry.deadline:
        return {"max_retries": 0}
    return {
        "max_retries": 1_000_000,  # Only time limits retries.
        "retry_timeout": datetime.timedelta(seconds=retry.deadline),
        "backoff": {
            "init_backoff": datetime.timedelta(seconds=retry.first_delay / 2),
            "max_backoff": datetime.timedelta(seconds=retry.longest_delay),
            "base": 2,
        },
    }


def check_process() -> None:
    """Check that obstore can work in this process.

    Raises:
        StorageError: It was in use before this process was forked, and would hang.
    """
    global _process
    _process = _process or os.getpid()
    if _process != os.getpid():
        raise errors.StorageError(
            "Buckets cannot be used in a process forked from one that used them. Start the process "
            "with 'spawn' or 'forkserver', or open no bucket before the fork."
        )
