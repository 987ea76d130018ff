"""A bucket of any object store as a storage, on obstore. Needs the extra `s3`.

What is verified: S3 is sent the SHA-256 of each object or part (`x-amz-checksum-sha256`, and again
in the signature) and refuses other bytes; a read is complete by its length. Bytes that were changed
on the way are sent again.

Who tries again: calls of one request are retried here, by `RetryPolicy`. Of an upload in parts,
obstore repeats the parts, which nobody else can; such an upload begins anew only where a part's
failure is of a kind that obstore does not repeat. Both keep to the same deadline.
"""

from __future__ import annotations

import datetime
import secrets as secrets_lib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from webtraj import errors
from webtraj.storage import failures, stores
from webtraj.storage.base import Entry, check_key
from webtraj.storage.retrying import RetryPolicy

__all__ = ["BucketStorage"]

_T = TypeVar("_T")

_PAGE = 1000
_MARK = "webtraj-write"
_MIB = 1 << 20
_SLOWEST = 128 << 10
"""Bytes a second at which an upload in one piece must go at least, or its time is up."""


class BucketStorage:
    """Keeps objects in a bucket, or in a part of it."""

    def __init__(
        self,
        url: str,
        *,
        endpoint: str | None = None,
        allow_http: bool | None = None,
        region: str | None = None,
        virtual_hosted_style: bool = False,
        access_key_id: str | None = None,
        secret_access_key: str | None = None,
        session_token: str | None = None,
        profile: str | None = None,
        anonymous: bool = False,
        credential_provider: Callable[[], Any] | None = None,
        sse: str | None = None,
        sse_kms_key_id: str | None = None,
        checksum: str | None = "SHA256",
        part_size: int = 8 * _MIB,
        parallel_parts: int = 4,
        timeout: float = 60.0,
        connect_timeout: float = 10.0,
        retry: RetryPolicy | Mapping[str, Any] | None = None,
        client_options: Mapping[str, Any] | None = None,
        store_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Initializes the storage; nothing is asked of the store yet."""
        self._place = stores.parse_url(url)
        self._retry = retry if isinstance(retry, RetryPolicy) else RetryPolicy(**dict(retry or {}))
        self._part_size = part_size
        self._parallel_parts = parallel_parts
        self._timeout = timeout
        self._config: dict[str, Any] = dict(store_options or {})
        if self._place.kind == "s3":
            given = {
                "endpoint": endpoint,
                "region": region,
                "virtual_hosted_style_request": virtual_hosted_style or None,
                "access_key_id": access_key_id,
                "secret_access_key": secret_access_key,
                "session_token": session_token,
                "skip_signature": anonymous or None,
                "server_side_encryption": sse,
                "sse_kms_key_id": sse_kms_key_id,
                "checksum_algorithm": checksum,
            }
            self._config.update({k: v for k, v in given.items() if v is not None})
        self._client = {
            "connect_timeout": datetime.timedelta(seconds=connect_timeout),
            **({} if allow_http is None else {"allow_http": allow_http}),
            **(client_options or {}),
        }
        self._provider = credential_provider
        self._secrets = tuple(s for s in (secret_access_key, session_token) if s)
        self._prefix = f"{self._place.path}/" if self._is_memory and self._place.path else ""
        self._stores: dict[tuple[float, bool], Any] = {}
        self._lock = threading.Lock()
        self._store()

    @property
    def url(self) -> str:
        """The bucket's URL, without credentials."""
        return self._place.url

    @property
    def _is_memory(self) -> bool:
        return self._place.kind == "memory"

    def read(self, key: str) -> bytes:
        """Returns all of an object.

        Raises:
            StorageMissingError: There is no such object.
            StorageError: It cannot be read.
        """
        import obstore

        path = self._path(key)

        def attempt() -> bytes:
            result = obstore.get(self._store(), path)
            data = bytes(result.bytes())
            if len(data) != result.meta["size"]:
                raise errors.StorageUnavailableError(
                    f"{self.url}/{key} came cut off: {len(data)} of {result.meta['size']} bytes."
                )
            return data

        return self._call(f"{self.url}/{key} could not be read", attempt)

    def write(self, key: str, data: bytes, *, overwrite: bool = True) -> None:
        """Writes an object.

        Raises:
            StorageConflictError: It is there already, and was not to be overwritten.
            StorageError: It cannot be written.
        """
        import obstore

        path = self._path(key)
        what = f"{self.url}/{key} could not be written"
        if overwrite and len(data) > self._part_size:
            store = self._store(parts=True)
            self._call(
                what,
                lambda: obstore.put(
                    store,
                    path,
                    data,
                    use_multipart=True,
                    chunk_size=self._part_size,
                    max_concurrency=self._parallel_parts,
                ),
            )
            return
        store = self._store(len(data))
        if overwrite:
            self._call(what, lambda: obstore.put(store, path, data, use_multipart=False))
            return
        mark = secrets_lib.token_hex(16)
        attributes = {} if self._place.kind in ("file", "memory") else {_MARK: mark}

        def create() -> None:
            try:
                self._once(
                    what,
                    lambda: obstore.put(store, path, data, mode="create", attributes=attributes),
                )
            except errors.StorageConflictError:
                # Perhaps an earlier attempt of ours did arrive, and only its answer was lost.
                found = self._mark(path)
                if found is None:
                    raise errors.StorageUnavailableError(
                        f"{what}: another writer was there at the same time, and failed."
                    ) from None
                if not attributes or found != mark:
                    raise

        self._retry.run(create)

    def size(self, key: str) -> int | None:
        """Returns an object's size in bytes; None if there is no such object."""
        import obstore

        path = self._path(key)
        try:
            meta = self._call(
                f"{self.url}/{key} could not be looked at",
                lambda: obstore.head(self._store(), path),
            )
        except errors.StorageMissingError:
            return None
        return meta["size"]

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Yields the objects whose keys begin with `prefix`."""
        import obstore

        if prefix:
            check_key(prefix.rstrip("/"))
        what = f"{self.url}/{prefix} could not be listed"
        under = (self._prefix + prefix).rstrip("/") or None
        listing = _Listing(
            lambda after: obstore.list(self._store(), under, offset=after, chunk_size=_PAGE)
        )
        while (page := self._call(what, listing.next_page)) is not None:
            for meta in page:
                yield Entry(meta["path"][len(self._prefix) :], meta["size"])

    def delete(self, key: str) -> None:
        """Deletes an object. It is no error if there is none."""
        import obstore

        path = self._path(key)
        try:
            self._call(
                f"{self.url}/{key} could not be deleted",
                lambda: obstore.delete(self._store(), path),
            )
        except errors.StorageMissingError:
            return

    def __repr__(self) -> str:
        return f"BucketStorage({self.url!r})"

    def _path(self, key: str) -> str:
        return self._prefix + check_key(key)

    def _mark(self, path: str) -> str | None:
        import obstore

        try:
            result = self._once(
                f"{self.url}/{path} could not be looked at",
                lambda: obstore.get(self._store(), path, options={"head": True}),
            )
        except errors.StorageMissingError:
            return None
        return result.attributes.get(_MARK, "")

    def _call(self, what: str, call: Callable[[], _T]) -> _T:
        return self._retry.run(lambda: self._once(what, call))

    def _once(self, what: str, call: Callable[[], _T]) -> _T:
        from obstore.exceptions import BaseError

        try:
            return call()
        except errors.StorageError:
            raise
        except (BaseError, OSError, ValueError) as error:
            failure = failures.understand(error, secrets=self._secrets)
        raise failure.error(what)

    def _store(self, size: int = 0, *, parts: bool = False) -> Any:
        timeout = self._timeout
        while size > timeout * _SLOWEST:
            timeout *= 4
        with self._lock:
            store = self._stores.get((timeout, parts))
            if store is None:
                store = self._stores[timeout, parts] = stores.make_store(
                    self._place,
                    config=self._config,
                    client_options={
                        "timeout": datetime.timedelta(seconds=timeout),
                        **self._client,
                    },
                    retry_for=self._retry.deadline if parts else 0,
                    credential_provider=self._provider,
                )
            return store


class _Listing:
    """A listing that goes on after a failure where it was: stores list in the order of the keys."""

    def __init__(self, start: Callable[[str | None], Iterator[Sequence[Any]]]) -> None:
        self._start = start
        self._pages: Iterator[Sequence[Any]] | None = None
        self._last: str | None = None

    def next_page(self) -> Sequence[Any] | None:
        """Returns the next objects; None at the end."""
        if self._pages is None:
            self._pages = iter(self._start(self._last))
        try:
            page = next(self._pages, None)
        except BaseException:
            self._pages = None
            raise
        if page:
            self._last = page[-1]["path"]
        return page
