"""From a URL and options to obstore's stores. The only place that knows how they are configured."""

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
from webtraj.store.places import check_key
from webtraj.store.retrying import RetryPolicy

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
"""The process that obstore's threads live in; 0 as long as there are none."""


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

    >>> parse_url("s3://bucket/runs/demo/").path
    'runs/demo'

    Raises:
        InvalidInputError: It is no such URL, or has credentials in it.
    """
    match = _URL.fullmatch(url)
    scheme = match[1].lower() if match else ""
    kind = _CLOUDS.get(scheme, scheme)
    if match is None or kind not in {*_CLOUDS.values(), "file", "memory"}:
        # What follows ?, # or precedes @ may be secret, so none of it is shown.
        shown = re.sub(r"(?<=://).*@", "***@", re.split("[?#]", url)[0])
        raise errors.InvalidInputError(
            f"No storage for {shown!r:.200}; expected a path, or a URL without a query that starts "
            f"with one of {', '.join(f'{known}://' for known in _CLOUDS)}, file://, memory://."
        )
    bucket, path = match[2], (match[3] or "").strip("/")
    user, at, _ = bucket.rpartition("@")
    if at and (":" in user or scheme not in ("abfs", "abfss")):
        raise errors.InvalidInputError(
            f"{scheme}://***@... has credentials in it; give them as options, in the environment "
            "or in a credentials file."
        )
    if kind == "file":
        if bucket not in ("", "localhost") or not path:
            raise errors.InvalidInputError(f"{url!r:.200} names no folder; expected file:///path.")
        return Place(f"file:///{path}", kind, "", "/" + urllib.parse.unquote(path))
    if not bucket and (path or kind != "memory"):
        raise errors.InvalidInputError(f"{url!r:.200} names no bucket; expected {scheme}://name.")
    if path:
        check_key(path)
    return Place(f"{scheme}://{bucket}{'/' if path else ''}{path}", kind, bucket, path)


class StoreMaker:
    """Makes obstore's stores for one place. It holds credentials, and never shows them."""

    def __init__(
        self,
        place: Place,
        *,
        config: Mapping[str, Any],
        client_options: Mapping[str, Any],
        credential_provider: Callable[[], Any] | None,
    ) -> None:
        """Initializes the maker.

        Args:
            place: Where the stores are.
            config: How the store is configured, in obstore's words.
            client_options: How its HTTP client is, in obstore's words.
            credential_provider: Gives credentials, if they are not to come from obstore's chain.

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
        """Returns a store; the same one for the same arguments.

        Args:
            timeout: Seconds that one request may take.
            retry: How obstore itself repeats a request; None for not at all.

        Raises:
            InvalidInputError: obstore does not take the configuration.
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
        # What obstore says may quote the configuration, credentials included.
        raise errors.InvalidInputError(
            f"{self._place.url!r} could not be opened ({reason}); check the options that were "
            f"given: {', '.join(sorted({*self._config, *self._client_options}))}."
        )

    def __repr__(self) -> str:
        return f"StoreMaker({self._place.url!r})"


def _retry_config(retry: RetryPolicy | None) -> dict[str, Any]:
    if retry is None or not retry.deadline:
        return {"max_retries": 0}
    return {
        "max_retries": 1_000_000,  # Time alone is the limit.
        "retry_timeout": datetime.timedelta(seconds=retry.deadline),
        "backoff": {
            "init_backoff": datetime.timedelta(seconds=retry.first_delay / 2),
            "max_backoff": datetime.timedelta(seconds=retry.longest_delay),
            "base": 2,
        },
    }


def check_process() -> None:
    """Makes sure that obstore can work in this process.

    Raises:
        StorageError: It was in use when this process was forked, and would hang now.
    """
    global _process
    _process = _process or os.getpid()
    if _process != os.getpid():
        raise errors.StorageError(
            "Buckets cannot be used in a process that was forked from one which used them; start "
            "it by the method 'spawn' or 'forkserver', or open no bucket before it is forked."
        )
