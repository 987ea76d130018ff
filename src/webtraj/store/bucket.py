"""A bucket of any object store as a `Storage`, using obstore. Needs the extra `s3`.

Verification: S3 receives the SHA-256 of each object or part and rejects other bytes. Not every
S3-compatible server does, so the ETags of writes and reads are compared too, as long as they are
MD5s. Google and Azure are trusted. The length of a read shows whether it is complete.

Retries: calls of one request are repeated here, by `RetryPolicy`. In a multipart upload obstore
repeats the parts, which only it can do; the upload starts over only if a part failed in a way that
obstore does not repeat. Both keep the same deadline. It is short until the store has answered once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import importlib
import os
import secrets as secrets_lib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from webtraj import errors
from webtraj.store import bucket_requests, etags, stores
from webtraj.store.bucket_requests import RetryPolicy
from webtraj.store.storage import Entry, check_key, check_prefix, is_hidden

__all__ = ["BucketStorage"]

_T = TypeVar("_T")

_PART_SIZE = 8 << 20
"""Larger objects are uploaded in parts of this size, in bytes."""
_PARALLEL_PARTS = 4
"""The most parts of an object in flight."""
_PAGE = 1000
_SLOWEST = 128 << 10
"""The lowest acceptable throughput of a request, in bytes per second, before it times out."""
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_CREDENTIAL_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE")
_SHARED_FILES = {"AWS_SHARED_CREDENTIALS_FILE": "credentials", "AWS_CONFIG_FILE": "config"}
"""AWS's shared files in `~/.aws`, by the variable that overrides each path."""
_MARK = "webtrajwrite"
"""The metadata key by which a writer recognises its own object; Azure accepts the name too."""


class BucketStorage:
    """Stores objects in a bucket, or under a prefix of it."""

    is_remote = True

    def __init__(
        self,
        url: str,
        /,
        *,
        profile: str | None = None,
        credential_provider: Callable[[], Any] | None = None,
        conditional_writes: bool | None = None,
        allow_http: bool | None = None,
        timeout: float = 60.0,
        connect_timeout: float = 10.0,
        retry: RetryPolicy | Mapping[str, Any] | None = None,
        client_options: Mapping[str, Any] | None = None,
        **config: Any,
    ) -> None:
        """Initialize the storage. Nothing is requested from the store yet.

        Credentials come from the first of: `credential_provider`; `config`; the environment
        (`AWS_ACCESS_KEY_ID`, ...); a web identity; AWS's shared files, if boto3 is installed; the
        container or the instance. For Google and Azure: wherever obstore finds them.

        Args:
            url: `s3://bucket/prefix`, or with `gs://`, `az://` or `memory://`. Everyone who opens
                the same `memory://name` in this process shares its contents.
            profile: S3: the profile of AWS's shared files to use instead of the environment.
            credential_provider: A function that returns credentials, in obstore's form.
            conditional_writes: Whether the store reliably refuses a write that must not overwrite.
                If not, the object is looked up first and then written without a condition, which
                misses a concurrent writer. By default true for AWS, Google and Azure; for other S3
                endpoints, which may ignore the condition, the object is looked up as well.
            allow_http: Whether requests may be unencrypted; if not, http:// endpoints fail.
            timeout: Seconds for a request, answer included; extended for large bodies.
            connect_timeout: Seconds to connect.
            retry: How failed calls are repeated: a `RetryPolicy`, or its fields.
            client_options: Further options for obstore's `ClientConfig`.
            **config: Options of obstore's `S3Config`, `GCSConfig` or `AzureConfig`: `endpoint`,
                `region`, `access_key_id`, `server_side_encryption`, ...

        Raises:
            InvalidInputError: An option or the URL is wrong.
            MissingDependencyError: obstore is not installed, or boto3 for a profile.
        """
        self._place = place = stores.parse_url(url)
        if place.kind == "file":
            raise errors.InvalidInputError(
                f"{place.url!r} is a folder, not a bucket. Open it with open_storage."
            )
        self._retry = RetryPolicy.of(retry)
        for name, value in (("timeout", timeout), ("connect_timeout", connect_timeout)):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
                raise errors.InvalidInputError(
                    f"Invalid {name}={value!r:.60}: expected a number of seconds above 0."
                )
        self._timeout = timeout
        config = {name: value for name, value in config.items() if value is not None}
        if place.kind == "s3":
            config = {"checksum_algorithm": "SHA256", **_by_name(config)}
            if profile or not (
                credential_provider or config.get("access_key_id") or config.get("skip_signature")
            ):
                credential_provider = _profile_provider(profile, config)
        elif profile:
            raise errors.InvalidInputError(f"{place.url!r} does not accept profile.")
        elif config and place.kind == "memory":
            raise errors.InvalidInputError(
                f"{place.url!r} does not accept {', '.join(sorted(config))}."
            )
        if allow_http is None and os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true"):
            allow_http = True  # obstore ignores the variable if it gets client options.
        client_options = {
            "connect_timeout": datetime.timedelta(seconds=connect_timeout),
            **({} if allow_http is None else {"allow_http": allow_http}),
            **(client_options or {}),
        }
        elsewhere = _endpoint(config) if place.kind == "s3" else None
        if elsewhere and "@" in elsewhere:
            raise errors.InvalidInputError(
                "The endpoint contains credentials. Give them as options or in the environment."
            )
        if elsewhere and elsewhere[:5].lower() == "http:" and not client_options.get("allow_http"):
            raise errors.InvalidInputError(
                f"The endpoint {elsewhere!r:.200} is not encrypted. Use https://, or set "
                "allow_http=true."
            )
        self._maker = stores.StoreMaker(
            place,
            config=config,
            client_options=client_options,
            credential_provider=credential_provider,
        )
        self._secrets = bucket_requests.Secrets(config)
        self._endpoint = elsewhere
        self._reached = place.kind == "memory"
        """Whether the store has ever answered."""
        self._sends_conditions = conditional_writes is not False
        self._looks_first = (
            elsewhere is not None if conditional_writes is None else not conditional_writes
        )
        self._compares_etags = place.kind == "s3"
        self._etags_fit = False
        self._marks = place.kind != "memory"
        self._prefix = f"{place.path}/" if place.kind == "memory" and place.path else ""
        self._bucket_seen = place.kind == "memory"
        self._store()  # Fails early on options that obstore refuses.

    @property
    def url(self) -> str:
        """The URL, without credentials."""
        return self._place.url

    def read(self, key: str) -> bytes:
        """Return an object's bytes.

        Raises:
            StorageMissingError: There is no such object, or no such bucket.
            StorageError: It cannot be read.
        """
        what = f"{self.url}/{check_key(key)} could not be read"
        return self._retry.run(lambda: self._read(what, key))

    def read_appended(self, key: str, offset: int) -> bytes | None:
        """Return an object's bytes. After an offset, return nothing, because objects never grow.

        Raises:
            StorageMissingError: There is no such object.
            StorageError: It cannot be read.
        """
        return b"" if offset else self.read(key)

    def write(self, key: str, data: bytes, *, overwrite: bool | None = True) -> None:
        """Write an object.

        Raises:
            StorageConflictError: It already exists, and `overwrite` is false.
            StorageMissingError: There is no such bucket.
            StorageError: It cannot be written.
        """
        what = f"{self.url}/{check_key(key)} could not be written"
        if overwrite is None:
            overwrite = self._looks_first  # One request instead of two.
        if not overwrite and self._looks_first and self.size(key) is not None:
            raise errors.StorageConflictError(f"{what}: it already exists.")
        if overwrite or not self._sends_conditions:
            self._retry.run(lambda: self._put(what, key, data))
        else:
            self._create(what, key, data)

    def size(self, key: str) -> int | None:
        """Return an object's size in bytes; None if there is no such object.

        Raises:
            StorageMissingError: There is no such bucket.
            StorageError: Its size cannot be read.
        """
        what = f"The size of {self.url}/{check_key(key)} could not be read"
        meta = self._call(what, lambda: self._head(key), absent=None)
        if meta is None:
            self._make_sure_of_bucket(what, key)
        return None if meta is None else int(meta["size"])

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Yield the objects whose keys begin with `prefix`, one page at a time.

        Raises:
            StorageMissingError: There is no such bucket.
            StorageError: They cannot be listed.
        """
        import obstore

        what = f"{self.url}/{check_prefix(prefix)} could not be listed"
        under = (self._prefix + prefix).rstrip("/") or None
        listing = bucket_requests.Listing(
            lambda after: obstore.list(self._store(), under, offset=after, chunk_size=_PAGE)
        )
        while (page := self._call(what, listing.next_page)) is not None:
            for meta in page:
                key = meta["path"][len(self._prefix) :]
                if not is_hidden(key):
                    yield Entry(key, meta["size"])

    def delete(self, key: str) -> None:
        """Delete an object. A missing object is ignored.

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
        """Read an object and check its bytes against its ETag, if that is an MD5."""
        first = self._download(what, key)
        if self._fits(first) is not False:
            return first.data
        # Changed on the way, replaced meanwhile, or the ETag is not an MD5.
        second = self._download(what, key)
        if (second.data, second.e_tag) == (first.data, first.e_tag):
            if "-" not in (first.e_tag or ""):
                self._compares_etags = self._etags_fit
        elif not self._fits(second):
            raise errors.StorageUnavailableError(f"{what}: its bytes do not match its ETag.")
        return second.data

    def _download(self, what: str, key: str) -> bucket_requests.Download:
        download = bucket_requests.Download(
            what, lambda options: self._once(what, lambda: self._get(key, options))
        )
        while not self._call(what, download.advance):
            pass
        return download

    def _fits(self, download: bucket_requests.Download) -> bool | None:
        if not self._compares_etags:
            return None
        fits = etags.matches(download.e_tag, download.data, _PART_SIZE)
        self._etags_fit = self._etags_fit or bool(fits)
        return fits

    def _create(self, what: str, key: str, data: bytes) -> None:
        """Write an object that must not exist yet."""
        mark = secrets_lib.token_hex(16) if self._marks else ""
        ours = False

        def attempt() -> None:
            nonlocal ours
            if ours:  # Ours, but corrupted in transit.
                self._put(what, key, data, mark=mark)
                return
            try:
                self._put(what, key, data, mark=mark, mode="create")
            except errors.StorageConflictError:
                if not mark:
                    raise
                # An earlier attempt may have succeeded, and only its answer was lost.
                found = self._once(what, lambda: self._get(key, {"head": True}), absent=None)
                if found is None:
                    raise errors.StorageUnavailableError(
                        f"{what}: another writer was writing it, and did not finish."
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

        in_parts = len(data) > _PART_SIZE and mode == "overwrite"
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
                chunk_size=_PART_SIZE,
                max_concurrency=_PARALLEL_PARTS,
            ),
        )
        self._verify(what, key, data, result["e_tag"])

    def _verify(self, what: str, key: str, data: bytes, e_tag: str | None) -> None:
        """Check that the store received the bytes that were sent."""
        if not self._compares_etags:
            return
        if etags.matches(e_tag, data, _PART_SIZE):
            self._etags_fit = True
            return
        if self.read(key) != data:
            raise _ChangedError(f"{what}: its bytes were corrupted in transit.")
        self._compares_etags = self._etags_fit

    def _get(self, key: str, options: Any) -> Any:
        import obstore

        return obstore.get(self._store(), self._prefix + key, options=options)

    def _head(self, key: str) -> Any:
        import obstore

        return obstore.head(self._store(), self._prefix + key)

    def _make_sure_of_bucket(self, what: str, key: str) -> None:
        """Raise if the bucket is missing, since this may look like a missing object."""
        import obstore

        if self._bucket_seen:
            return
        with contextlib.suppress(
            errors.StorageDeniedError
        ):  # Not allowed to list: assume it exists.
            self._call(what, lambda: next(iter(obstore.list(self._store(), key)), None))

    def _call(self, what: str, call: Callable[[], _T], **absent: Any) -> _T:
        return self._retry.run(lambda: self._once(what, call, **absent))

    def _once(self, what: str, call: Callable[[], _T], **absent: Any) -> _T:
        """Call obstore.

        Args:
            what: The failure to report, such as "x could not be read".
            call: The call.
            **absent: `absent=...` is the result if the object does not exist.
        """
        from obstore.exceptions import BaseError

        stores.check_process()
        try:
            result = call()
        except errors.StorageError:
            raise
        except (BaseError, OSError, ValueError, NotImplementedError) as error:
            failure = bucket_requests.understand(error, secrets=self._secrets)
        else:
            self._bucket_seen = self._reached = True
            return result
        self._reached = self._reached or failure.answered
        missing = failure.kind is errors.StorageMissingError
        if missing and absent and failure.code not in bucket_requests.NO_BUCKET:
            value: _T = absent["absent"]
            return value
        if not self._reached:
            at = f" at {self._endpoint!r:.200}" if self._endpoint else ""
            raise bucket_requests.UnreachedError(
                f"{what}: cannot reach the store{at}, {failure.reason}. Check the endpoint and the "
                "network."
            )
        raise failure.error(what)

    def _store(self, size: int = 0) -> Any:
        timeout = self._timeout
        while size > timeout * _SLOWEST:
            timeout *= 4
        return self._maker.store(timeout=timeout)

    def _parts_store(self) -> Any:
        retry = self._retry
        if not self._reached:
            deadline = min(retry.deadline, retry.first_contact)
            retry = dataclasses.replace(retry, deadline=deadline)
        return self._maker.store(timeout=self._timeout, retry=retry)


class _ChangedError(errors.StorageUnavailableError):
    """The bytes that arrived differ from those that were sent."""


def _endpoint(config: Mapping[str, Any]) -> str | None:
    """Return the S3 endpoint if it is not AWS's own; else None."""
    return next(filter(None, (config.get("endpoint"), *map(os.environ.get, _ENDPOINTS))), None)


def _by_name(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return S3 options under obstore's shortest names: `AWS_ENDPOINT_URL` becomes `endpoint`.

    Raises:
        InvalidInputError: An option is given twice.
    """
    named: dict[str, Any] = {}
    for name, value in config.items():
        short = name.lower().removeprefix("aws_")
        short = "endpoint" if short in ("endpoint_url", "endpoint_url_s3") else short
        if short in named:
            raise errors.InvalidInputError(
                f"The option {short!r} is given twice, once as {name!r}."
            )
        named[short] = value
    return named


def _profile_provider(name: str | None, config: dict[str, Any]) -> Any:
    """Return obstore's provider of the credentials in AWS's shared files; None if there are none.

    Args:
        name: The profile. None: the one that AWS's own tools would choose.
        config: The S3 configuration, which gets the profile's region and endpoint.

    Raises:
        InvalidInputError: The profile does not exist, or has no credentials.
        MissingDependencyError: A profile is chosen, and boto3 is not installed.
    """
    if name is None and any(map(os.environ.get, _CREDENTIAL_VARIABLES)):
        return None
    wanted = name or os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE")
    found = any(
        Path(os.environ.get(variable) or f"~/.aws/{file}").expanduser().exists()
        for variable, file in _SHARED_FILES.items()
    )
    if not (wanted or found):
        return None
    try:
        boto3 = importlib.import_module("boto3")
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        if wanted is None:
            return None
        raise errors.MissingDependencyError(
            f"The AWS profile {wanted!r} needs boto3. Install it with: pip install boto3"
        ) from error
    botocore = importlib.import_module("botocore")
    try:
        session = boto3.Session(profile_name=wanted)
        settings = session._session.get_scoped_config()
        provider = None
        if session.get_credentials() is not None:
            provider = Boto3CredentialProvider(session)
        elif wanted is not None:
            raise ValueError("no credentials")
    except (botocore.exceptions.BotoCoreError, ValueError) as error:
        if wanted is None and isinstance(error, ValueError):
            return None
        # The parser's message would quote the line, which may hold a secret.
        raise errors.InvalidInputError(
            f"Cannot use the AWS profile {wanted or 'default'!r} ({type(error).__name__}). Check "
            "AWS's shared files, or unset AWS_PROFILE."
        ) from None
    if "endpoint_url" in settings and not any(map(os.environ.get, _ENDPOINTS)):
        config.setdefault("endpoint", settings["endpoint_url"])
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region or "region" in settings:
        config.setdefault("region", region or settings["region"])
    return provider
