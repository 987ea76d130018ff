"""Requests to an object store: classifying failures, retrying, and resuming long transfers."""

from __future__ import annotations

import dataclasses
import logging
import os
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from webtraj import errors
from webtraj.settings import credentials

__all__ = [
    "Download",
    "Failure",
    "Listing",
    "NO_BUCKET",
    "RetryPolicy",
    "Secrets",
    "UnreachedError",
    "understand",
]

# Failed calls to an object store: their error class, and when to retry.
#
# obstore has types for some failures: not found, already exists, denied. All others are one
# `GenericError` with the HTTP status or the connection error only in its text. That text is parsed
# here and nowhere else; unknown failures are not retried.

_logger = logging.getLogger(__name__)

_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Retries after `StorageUnavailableError`, with full jitter, until a deadline.

    The delay before the n-th retry is uniform from 0 to `first_delay` · 2ⁿ⁻¹ seconds, at most
    `longest_delay`, so that many writers that were turned away do not return together.
    """

    deadline: float = 120.0
    """Seconds from the first attempt after which no retry begins; 0 for a single attempt."""
    first_contact: float = 10.0
    """The same for a store that has never answered: its address may well be wrong."""
    first_delay: float = 0.2
    """Longest delay, in seconds, before the first retry."""
    longest_delay: float = 20.0
    """Longest delay, in seconds, before any retry."""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        seconds = (self.deadline, self.first_contact)
        if min(seconds) < 0 or not 0 < self.first_delay <= self.longest_delay:
            raise errors.InvalidInputError(
                "Invalid retry policy: expected deadline >= 0, first_contact >= 0, "
                "0 < first_delay <= longest_delay; "
                f"got deadline={self.deadline!r}, first_contact={self.first_contact!r}, "
                f"first_delay={self.first_delay!r}, longest_delay={self.longest_delay!r}."
            )

    @classmethod
    def of(cls, retry: RetryPolicy | Mapping[str, Any] | None) -> RetryPolicy:
        """Return a policy, given as a `RetryPolicy`, by its fields, or as None for the default.

        Raises:
            InvalidInputError: A field is unknown or wrong.
        """
        if isinstance(retry, RetryPolicy):
            return retry
        try:
            return cls(**(retry or {}))
        except TypeError:
            raise errors.InvalidInputError(
                "Invalid retry policy: expected deadline, first_contact, first_delay and "
                f"longest_delay, in seconds; got {retry!r:.200}."
            ) from None

    def run(self, attempt: Callable[[], _T]) -> _T:
        """Call `attempt` until it succeeds, and return its result.

        Raises:
            StorageUnavailableError: It still failed at the deadline; the last error, with a note.
            Exception: Any other error of `attempt`, at once.
        """
        start = self.clock()
        attempts = 0
        while True:
            attempts += 1
            try:
                return attempt()
            except errors.StorageUnavailableError as error:
                elapsed = self.clock() - start
                deadline = self.deadline
                if isinstance(error, UnreachedError):
                    deadline = min(deadline, self.first_contact)
                if elapsed >= deadline:
                    if not hasattr(error, "__notes__"):  # From an inner loop of the same call.
                        error.add_note(f"Given up after {attempts} attempts in {elapsed:.1f} s.")
                    raise
                longest = min(self.longest_delay, self.first_delay * 2.0 ** min(attempts - 1, 60))
                delay = min(self.random() * longest, deadline - elapsed)
                _logger.info("Retrying in %.1f s: %s", delay, error)
            self.sleep(delay)


class UnreachedError(errors.StorageUnavailableError):
    """No request has reached the store since it was opened."""


_STATUS = re.compile(r"^\s*status: (\d{3}),$", re.MULTILINE)
_METADATA = re.compile(r"^\s*http://\S+/latest/(?:api/token|meta-data)", re.MULTILINE)
_TRANSPORT = re.compile(
    r"^\s*kind: (Connect|Request|Timeout|Interrupted|Unknown|Decode),$", re.MULTILINE
)
_SYSTEM = re.compile(r'^\s*message: "([^"\n]{1,200})",$', re.MULTILINE)
_QUERY = re.compile(r"\?\S+")
_CODE = re.compile(r"<Code>(\w{1,80})</Code>")
_MESSAGE = re.compile(r"<Message>([^<]{1,300})</Message>")
_KEYS = ("key", "sas_token", "signature")
"""Endings of option names that hold secrets, beside those of `webtraj.settings.credentials`."""
_DEBUG = "\n\nDebug source:\n"

NO_BUCKET = frozenset({"ContainerNotFound", "NoSuchBucket"})
"""The stores' codes for a missing bucket."""

_PASSING_CODES = frozenset(
    {
        "BadDigest",  # The bytes were corrupted in transit.
        "ConditionalRequestConflict",
        "IncompleteBody",
        "InternalError",
        "NoSuchUpload",  # The upload was completed, and the answer was lost.
        "OperationAborted",
        "RequestTimeout",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "XAmzContentSHA256Mismatch",  # The bytes were corrupted in transit.
    }
)
_DENIED_CODES = frozenset(
    {
        "AccessDenied",
        "ExpiredToken",
        "InvalidAccessKeyId",
        "InvalidToken",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
    }
)
_REASONS = {
    "Connect": "no connection",
    "Request": "the request could not be sent",
    "Timeout": "no answer in time",
    "Interrupted": "the connection was cut",
    "Unknown": "the connection failed",
    "Decode": "the answer was cut off",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """A classified failure of a call."""

    kind: type[errors.StorageError]
    """The error's class; `StorageUnavailableError` is worth a retry."""
    reason: str
    """The reason, in words, without credentials."""
    code: str = ""
    """The store's own code: `NoSuchBucket`, `SlowDown`, ..."""
    answered: bool = True
    """Whether the store answered at all."""

    def error(self, what: str) -> errors.StorageError:
        """Return the error; `what` says which operation failed, on which object."""
        return self.kind(f"{what}: {self.reason}.")


class Secrets:
    """Credentials, from options and the environment, that no message may contain."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Initialize the secrets from a store's configuration."""
        self._given = [
            value
            for name, value in config.items()
            if isinstance(value, str)
            and (credentials.is_secret_name(name, hints=True) or name.lower().endswith(_KEYS))
        ]

    def hide(self, text: str) -> str:
        """Return a text without secrets."""
        of_environment = map(os.environ.get, ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"))
        for secret in filter(None, (*self._given, *of_environment)):
            text = text.replace(secret, "***")
        return text

    def __repr__(self) -> str:
        return "Secrets()"


def understand(error: BaseException, secrets: Secrets) -> Failure:
    """Classify an exception of obstore.

    Args:
        error: The exception.
        secrets: Credentials that must not appear in the reason.
    """
    display, _, debug = str(error).rpartition(_DEBUG)
    match = _STATUS.search(debug)
    status = int(match[1]) if match else 0
    match = _CODE.search(debug)
    code = match[1] if match else ""
    match = _MESSAGE.search(debug)
    said = f"{code}: {match[1]}" if code and match else code
    kind, reason = _kind_and_reason(error, status, code, display or debug, debug)
    if said:
        reason += f" (it answered {said.rstrip('.')!r})"
    answered = bool(status) or kind is not errors.StorageUnavailableError
    return Failure(kind, secrets.hide(reason), code, answered)


def _kind_and_reason(
    error: BaseException, status: int, code: str, display: str, debug: str
) -> tuple[type[errors.StorageError], str]:
    from obstore import exceptions

    if _METADATA.search(debug):
        return errors.StorageDeniedError, (
            "no credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
            "AWS_PROFILE, or give access_key_id and secret_access_key"
        )
    if isinstance(error, exceptions.UnauthenticatedError) and not status:
        said = display.rpartition("credential provider: ")[2]
        return errors.StorageDeniedError, f"could not get credentials ({_line(said)})"
    if code in _PASSING_CODES:
        return errors.StorageUnavailableError, f"a temporary failure (status {status})"
    if code in NO_BUCKET:
        return errors.StorageMissingError, (
            "there is no such bucket. Create it, or check its name and the endpoint"
        )
    if isinstance(error, FileNotFoundError) or status == 404:
        return errors.StorageMissingError, "there is no such object"
    if (
        isinstance(error, (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError))
        or status in (401, 403)
        or code in _DENIED_CODES
    ):
        return errors.StorageDeniedError, (
            "the store denied access. Check the credentials, their permissions, and the clock"
        )
    if isinstance(
        error,
        (exceptions.AlreadyExistsError, exceptions.PreconditionError, exceptions.NotModifiedError),
    ) or status in (409, 412):
        return errors.StorageConflictError, "it already exists"
    if status in (408, 429) or (status >= 500 and status != 501):
        return errors.StorageUnavailableError, f"the store answered with status {status}"
    if 300 <= status < 400 or "BareRedirect" in debug:
        return errors.StorageError, ("the store redirected the request. Give the bucket's region")
    if status == 501:
        return errors.StorageError, (
            "the store answered with status 501: it lacks something in the request. If it lacks "
            "conditional writes, set conditional_writes=False"
        )
    if status:
        return errors.StorageError, f"the store answered with status {status}"
    match = _TRANSPORT.search(debug)
    if match and "kind: Builder," not in debug:
        system = _SYSTEM.findall(debug)
        detail = f" ({system[-1]})" if system else ""
        return errors.StorageUnavailableError, _REASONS[match[1]] + detail
    return errors.StorageError, _line(display)


def _line(text: str) -> str:
    return _QUERY.sub("?...", " ".join(text.split()))[:300].rstrip(".")


# Reads and listings of several requests, which resume where they were cut.

_MIB = 1 << 20


class Download:
    """The download of one object, which resumes where it was cut."""

    _WORTHWHILE = _MIB
    """An attempt that got this many bytes further does not count as failed."""

    def __init__(self, what: str, get: Callable[[Any], Any]) -> None:
        """Initialize the download.

        what: The failure to report, such as "x could not be read".
        get: Starts a download, given obstore's options; raises storage errors.
        """
        self._what = what
        self._get = get
        self._chunks: list[bytes] = []
        self._position = 0
        self._size = 0
        self.e_tag: str | None = None
        self._goes_on = True

    @property
    def data(self) -> bytes:
        """The bytes received so far."""
        if len(self._chunks) != 1:
            self._chunks = [b"".join(self._chunks)]
        return self._chunks[0]

    def advance(self) -> bool:
        """Read on; return whether the download is complete."""
        start = self._position
        try:
            self._take(self._go_on() if start else self._begin())
        except Exception:
            if not self._goes_on:
                self._forget()
            if self._position - start < self._WORTHWHILE:
                raise
            return False
        if self._position != self._size:
            self._forget()
            raise errors.StorageUnavailableError(
                f"{self._what}: its size differs from the announced one."
            )
        return True

    def _begin(self) -> Any:
        result = self._get(None)
        self._size, self.e_tag = result.meta["size"], result.meta["e_tag"]
        self._goes_on = self._goes_on and self.e_tag is not None
        return result

    def _go_on(self) -> Any:
        try:
            return self._get({"range": {"offset": self._position}, "if_match": self.e_tag})
        except errors.StorageUnavailableError:
            raise
        except errors.StorageError as error:
            # It was replaced meanwhile, or this store only sends whole objects.
            self._goes_on = isinstance(error, errors.StorageConflictError)
            self._forget()
            raise errors.StorageUnavailableError(
                f"{self._what}: it must be read from the start."
            ) from None

    def _take(self, result: Any) -> None:
        for chunk in result.stream(min_chunk_size=_MIB):
            self._chunks.append(bytes(chunk))
            self._position += len(chunk)

    def _forget(self) -> None:
        self._chunks.clear()
        self._position = 0


class Listing:
    """A listing that resumes after a failure, since stores list in the order of keys."""

    def __init__(self, start: Callable[[str | None], Any]) -> None:
        """Initialize the listing.

        Args:
            start: Starts a listing after the given key, if any.
        """
        self._start = start
        self._pages: Iterator[Sequence[Any]] | None = None
        self._last: str | None = None

    def next_page(self) -> Sequence[Any] | None:
        """Return the next objects; None at the end."""
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
