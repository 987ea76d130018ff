"""A bucket of any object store as a storage, on obstore. Needs the extra `s3`.

What is verified: S3 is sent the SHA-256 of each object or part, and refuses other bytes. Not every
server that speaks S3 does, so the ETags that it answers writes and reads with are compared too, as
long as they turn out to be MD5s. Google and Azure are believed. A read is complete by its length.

Who tries again: calls of one request are repeated here, by `RetryPolicy`. Of an upload in parts,
obstore repeats the parts, which nobody else can; such an upload begins anew only if a part failed
in a way that obstore does not repeat. Both keep to the same deadline.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import secrets as secrets_lib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from webtraj import errors
from webtraj.store import credentials, etags, retrying, stores
from webtraj.store.places import Entry, check_key, check_prefix, is_hidden
from webtraj.store.retrying import RetryPolicy

__all__ = ["BucketStorage"]

_T = TypeVar("_T")

_MIB = 1 << 20
_PAGE = 1000
_SLOWEST = 128 << 10
"""Bytes a second that a request must carry, or its time is up."""
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_MARK = "webtrajwrite"
"""The metadata by which a writer knows an object as its own; a name that Azure takes too."""


class BucketStorage:
    """Keeps objects in a bucket, or in a part of it."""

    def __init__(
        self,
        url: str,
        *,
        endpoint: str | None = None,
        allow_http: bool | None = None,
        region: str | None = None,
        virtual_hosted_style: bool | None = None,
        access_key_id: str | None = None,
        secret_access_key: str | None = None,
        session_token: str | None = None,
        profile: str | None = None,
        anonymous: bool | None = None,
        credential_provider: Callable[[], Any] | None = None,
        sse: str | None = None,
        sse_kms_key_id: str | None = None,
        conditional_writes: bool | None = None,
        part_size: int = 8 * _MIB,
        parallel_parts: int = 4,
        timeout: float = 60.0,
        connect_timeout: float = 10.0,
        retry: RetryPolicy | Mapping[str, Any] | None = None,
        client_options: Mapping[str, Any] | None = None,
        store_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Initializes the storage. Nothing is asked of the store yet.

        Credentials come from the first of: `credential_provider`; the options; the environment
        (`AWS_ACCESS_KEY_ID`, ...); a web identity; AWS's shared files (`AWS_PROFILE`); what the
        container or the instance is given. Google and Azure: as obstore finds them.

        Args:
            url: `s3://bucket/prefix`, or with `gs://`, `az://` or `memory://`. What is in memory
                is shared by all who open the same `memory://name` in this process.
            endpoint: S3: the server's URL, if it is not AWS.
            allow_http: Whether requests may go unencrypted; without, such an endpoint fails.
            region: S3: the bucket's region.
            virtual_hosted_style: S3: whether the bucket is part of the host's name, not of the
                path; the endpoint must have it then.
            access_key_id: S3: credentials, part one,
            secret_access_key: part two,
            session_token: and part three, if they are temporary.
            profile: S3: the profile of AWS's shared files to take instead of the environment.
            anonymous: S3: whether requests go unsigned.
            credential_provider: A function that gives credentials, as obstore describes it.
            sse: S3: how the server shall encrypt: `AES256`, `aws:kms` or `aws:kms:dsse`.
            sse_kms_key_id: S3: the key for `aws:kms`.
            conditional_writes: Whether the store can be relied on to refuse a write that must not
                overwrite. If not, it is looked first whether the object is there, which cannot see
                a writer at the same moment. By default AWS, Google and Azure are relied on, and an
                S3 endpoint is not.
            part_size: Larger objects are uploaded in parts of this size, in bytes.
            parallel_parts: How many parts of an object are on their way at once, at most.
            timeout: Seconds that a request may take, answer included; more for many bytes.
            connect_timeout: Seconds that a connection may take.
            retry: How failed calls are repeated: a `RetryPolicy`, or its fields.
            client_options: More for obstore's `ClientConfig`.
            store_options: More for obstore's `S3Config`, `GCSConfig` or `AzureConfig`.

        Raises:
            InvalidInputError: An option or the URL is wrong.
            MissingDependencyError: obstore is not installed.
        """
        self._place = place = stores.parse_url(url)
        if place.kind == "file":
            raise errors.InvalidInputError(
                f"{place.url!r} names a folder, not a bucket; open it with open_storage."
            )
        self._retry = RetryPolicy.of(retry)
        if part_size < 5 * _MIB or parallel_parts < 1 or timeout <= 0 or connect_timeout <= 0:
            raise errors.InvalidInputError(
                "Expected part_size of at least 5 MiB, and parallel_parts, timeout and "
                f"connect_timeout above 0; got part_size={part_size!r}, "
                f"parallel_parts={parallel_parts!r}, timeout={timeout!r}, "
                f"connect_timeout={connect_timeout!r}."
            )
        self._part_size = part_size
        self._parallel_parts = parallel_parts
        self._timeout = timeout
        s3_options = {
            "endpoint": endpoint,
            "region": region,
            "virtual_hosted_style_request": virtual_hosted_style,
            "access_key_id": access_key_id,
            "secret_access_key": secret_access_key,
            "session_token": session_token,
            "skip_signature": anonymous,
            "server_side_encryption": sse,
            "sse_kms_key_id": sse_kms_key_id,
        }
        config = {name: value for name, value in s3_options.items() if value is not None}
        if place.kind == "s3":
            config = {"checksum_algorithm": "SHA256", **config}
            if profile or not (credential_provider or access_key_id or anonymous):
                credential_provider = credentials.take_profile(config, profile)
        elif config or profile:
            raise errors.InvalidInputError(
                f"{place.url!r} takes none of {', '.join(sorted(config) or ['profile'])}, which "
                "are for s3://; give its own settings by store_options."
            )
        config.update(store_options or {})
        if allow_http is None and os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true"):
            allow_http = True  # obstore heeds the variable only if it is given no client options.
        client_options = {
            "connect_timeout": datetime.timedelta(seconds=connect_timeout),
            **({} if allow_http is None else {"allow_http": allow_http}),
            **(client_options or {}),
        }
        elsewhere = _endpoint(config) if place.kind == "s3" else None
        if elsewhere and "@" in elsewhere:
            raise errors.InvalidInputError(
                "The endpoint has credentials in it; give them as options or in the environment."
            )
        if elsewhere and elsewhere[:5].lower() == "http:" and not client_options.get("allow_http"):
            raise errors.InvalidInputError(
                f"The endpoint {elsewhere!r:.200} is not encrypted; expected https://, or "
                "allow_http=True."
            )
        self._maker = stores.StoreMaker(
            place,
            config=config,
            client_options=client_options,
            credential_provider=credential_provider,
        )
        self._secrets = retrying.Secrets(config)
        self._looks_first = (
            elsewhere is not None if conditional_writes is None else not conditional_writes
        )
        self._compares_etags = place.kind == "s3"
        self._etags_fit = False
        self._marks = place.kind != "memory"
        self._prefix = f"{place.path}/" if place.kind == "memory" and place.path else ""
        self._bucket_seen = place.kind == "memory"
        self._store()  # So that options which obstore does not take are refused at once.

    @property
    def url(self) -> str:
        """The URL, without credentials."""
        return self._place.url

    def read(self, key: str) -> bytes:
        """Returns all of an object.

        Raises:
            StorageMissingError: There is no such object, or no such bucket.
            StorageError: It cannot be read.
        """
        what = f"{self.url}/{check_key(key)} could not be read"
        return self._retry.run(lambda: self._read(what, key))

    def write(self, key: str, data: bytes, *, overwrite: bool | None = True) -> None:
        """Writes an object.

        Raises:
            StorageConflictError: It is there already, and was not to be overwritten.
            StorageMissingError: There is no such bucket.
            StorageError: It cannot be written.
        """
        what = f"{self.url}/{check_key(key)} could not be written"
        if overwrite is None:
            overwrite = self._looks_first  # One request instead of two.
        if overwrite:
            self._retry.run(lambda: self._put(what, key, data))
            return
        if self._looks_first and self.size(key) is not None:
            raise errors.StorageConflictError(f"{what}: it is there already.")
        self._create(what, key, data)

    def size(self, key: str) -> int | None:
        """Returns an object's size in bytes; None if there is no such object.

        Raises:
            StorageMissingError: There is no such bucket.
            StorageError: It cannot be looked at.
        """
        what = f"{self.url}/{check_key(key)} could not be looked at"
        meta = self._call(what, lambda: self._head(key), absent=None)
        if meta is None:
            self._make_sure_of_bucket(what, key)
        return None if meta is None else int(meta["size"])

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Yields the objects whose keys begin with `prefix`, page by page.

        Raises:
            StorageMissingError: There is no such bucket.
            StorageError: They cannot be listed.
        """
        import obstore

        what = f"{self.url}/{check_prefix(prefix)} could not be listed"
        under = (self._prefix + prefix).rstrip("/") or None
        listing = retrying.Listing(
            lambda after: obstore.list(self._store(), under, offset=after, chunk_size=_PAGE)
        )
        while (page := self._call(what, listing.next_page)) is not None:
            for meta in page:
                key = meta["path"][len(self._prefix) :]
                if not is_hidden(key):
                    yield Entry(key, meta["size"])

    def delete(self, key: str) -> None:
        """Deletes an object. It is no error if there is none.

        Raises:
            StorageMissingError: There is no such bucket.
            StorageError: It cannot be deleted.
        """
        import obstore

        what = f"{self.url}/{check_key(key)} could not be deleted"
        self._call(what, lambda: obstore.delete(self._store(), self._prefix + key), absent=None)

    def __repr__(self) -> str:
        return f"BucketStorage({self.url!r})"

    def _read(self, what: str, key: str) -> bytes:
        """Reads an object whose bytes fit its ETag, if that is an MD5."""
        first = self._download(what, key)
        if self._fits(first) is not False:
            return first.data
        # They were changed on the way, or replaced meanwhile; or else it is no MD5.
        second = self._download(what, key)
        if (second.data, second.e_tag) == (first.data, first.e_tag):
            if "-" not in (first.e_tag or ""):
                self._compares_etags = self._etags_fit
        elif not self._fits(second):
            raise errors.StorageUnavailableError(f"{what}: its bytes do not fit its ETag.")
        return second.data

    def _download(self, what: str, key: str) -> retrying.Download:
        download = retrying.Download(
            what, lambda options: self._once(what, lambda: self._get(key, options))
        )
        while not self._call(what, download.advance):
            pass
        return download

    def _fits(self, download: retrying.Download) -> bool | None:
        if not self._compares_etags:
            return None
        fits = etags.matches(download.e_tag, download.data, self._part_size)
        self._etags_fit = self._etags_fit or bool(fits)
        return fits

    def _create(self, what: str, key: str, data: bytes) -> None:
        """Writes an object that must not be there yet."""
        mark = secrets_lib.token_hex(16) if self._marks else ""
        ours = False

        def attempt() -> None:
            nonlocal ours
            if ours:  # But it arrived changed.
                self._put(what, key, data, mark=mark)
                return
            try:
                self._put(what, key, data, mark=mark, mode="create")
            except errors.StorageConflictError:
                if not mark:
                    raise
                # An earlier attempt may have arrived, and only its answer was lost.
                found = self._once(what, lambda: self._get(key, {"head": True}), absent=None)
                if found is None:
                    raise errors.StorageUnavailableError(
                        f"{what}: someone else was writing it, and did not."
                    ) from None
                if found.attributes.get(_MARK) != mark:
                    raise
                ours = True
                self._verify(what, key, data, found.meta["e_tag"])
            except _ChangedError:
                ours = True
                raise

        self._retry.run(attempt)

    def _put(
        self, what: str, key: str, data: bytes, *, mark: str = "", mode: Any = "overwrite"
    ) -> None:
        import obstore

        in_parts = len(data) > self._part_size and mode == "overwrite"
        store = self._parts_store() if in_parts else self._store(len(data))
        result = self._once(
            what,
            lambda: obstore.put(
                store,
                self._prefix + key,
                data,
                attributes={_MARK: mark} if mark else None,
                mode=mode,
                use_multipart=in_parts,
                chunk_size=self._part_size,
                max_concurrency=self._parallel_parts,
            ),
        )
        self._verify(what, key, data, result["e_tag"])

    def _verify(self, what: str, key: str, data: bytes, e_tag: str | None) -> None:
        """Makes sure that what a store has is what it was sent."""
        if not self._compares_etags:
            return
        if etags.matches(e_tag, data, self._part_size):
            self._etags_fit = True
            return
        if self.read(key) != data:
            raise _ChangedError(f"{what}: its bytes were changed on the way.")
        self._compares_etags = self._etags_fit

    def _get(self, key: str, options: Any) -> Any:
        import obstore

        return obstore.get(self._store(), self._prefix + key, options=options)

    def _head(self, key: str) -> Any:
        import obstore

        return obstore.head(self._store(), self._prefix + key)

    def _make_sure_of_bucket(self, what: str, key: str) -> None:
        """Tells a missing bucket from a missing object, which look the same without a body."""
        import obstore

        if self._bucket_seen:
            return
        with contextlib.suppress(errors.StorageDeniedError):  # Who may not list has to believe it.
            self._call(what, lambda: next(iter(obstore.list(self._store(), key)), None))

    def _call(self, what: str, call: Callable[[], _T], **absent: Any) -> _T:
        return self._retry.run(lambda: self._once(what, call, **absent))

    def _once(self, what: str, call: Callable[[], _T], **absent: Any) -> _T:
        """Calls obstore.

        Args:
            what: What could not be done if it fails.
            call: The call.
            **absent: `absent=...` is returned if there is no such object.
        """
        from obstore.exceptions import BaseError

        stores.check_process()
        try:
            result = call()
        except errors.StorageError:
            raise
        except (BaseError, OSError, ValueError) as error:
            failure = retrying.understand(error, secrets=self._secrets)
        else:
            self._bucket_seen = True
            return result
        missing = failure.kind is errors.StorageMissingError
        if missing and absent and failure.code not in retrying.NO_BUCKET:
            value: _T = absent["absent"]
            return value
        raise failure.error(what)

    def _store(self, size: int = 0) -> Any:
        timeout = self._timeout
        while size > timeout * _SLOWEST:
            timeout *= 4
        return self._maker.store(timeout=timeout)

    def _parts_store(self) -> Any:
        return self._maker.store(timeout=self._timeout, retry=self._retry)


class _ChangedError(errors.StorageUnavailableError):
    """The bytes that arrived are not those that were sent."""


def _endpoint(config: Mapping[str, Any]) -> str | None:
    """Returns the S3 endpoint that is not AWS's own, if there is one."""
    given = (config.get(name) for name in ("aws_endpoint_url_s3", "endpoint"))
    return next(filter(None, (*given, *map(os.environ.get, _ENDPOINTS))), None)
