"""The common part of all model clients: how a call is prepared, made and recorded."""

from __future__ import annotations

import abc
import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, TypedDict

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.agents.models import endpoint as endpoint_lib
from webtraj.agents.models import messages as messages_lib
from webtraj.agents.models.base import Message, Sampling
from webtraj.agents.models.endpoint import ApiKey, Endpoint, Transport
from webtraj.agents.models.limits import SYSTEM_CLOCK, Clock, Limits, RetryPolicy, Turn
from webtraj.agents.models.messages import Base64Cache
from webtraj.agents.models.replies import AttemptError, Reply
from webtraj.store.closeable import AsyncClosing
from webtraj.trajectory import Ending, ending_of

__all__ = [
    "ClientOptions",
    "HttpModelClient",
    "Prepared",
    "WeightVersions",
    "bearer",
    "merge_extra",
    "span",
]

_logger = logging.getLogger(__name__)

# The version of the weights that answered, read around calls, but not for each.
#
# vLLM reports the version of its weights through `GET /weight_info`; replies do not contain it. A
# record should say which weights made its tokens, so the version is checked before and after each
# call. Reading it each time would triple the requests, so a version is valid for `interval` seconds
# and shared by all calls:
#
# * A change is noticed up to `interval` seconds late. A call within that time may be recorded with
#   the version before it.
# * With an interval of 0, calls share only reads in progress, and every record is exact.
# * Code that changes the weights can make records exact at no cost: `invalidate` discards the
#   version that was read, and `set` fixes the version and stops all reading.

_NEVER = float("-inf")
_UNKNOWN = "?"


class WeightVersions:
    """Tracks the version of a server's weights.

    Args:
        read: Reads the version from the server. Raises `AttemptError`.
        interval: Seconds for which a version stays valid.
        clock: The clock.
    """

    def __init__(self, read: Callable[[], Awaitable[str]], interval: float, clock: Clock) -> None:
        self._read = read
        self._interval = interval
        self._clock = clock
        self._reading = asyncio.Lock()
        self._given: str | None = None
        self._version = ""
        self._read_at = _NEVER
        self._num_changes = 0
        self._untold = False

    def set(self, version: str | None) -> None:
        """Fix the version from now on; None reads it from the server again."""
        self._given = version
        self.invalidate()

    def invalidate(self) -> None:
        """Report that the weights may have changed."""
        self._read_at = _NEVER
        self._num_changes += 1
        self._untold = False

    async def before_call(self) -> str:
        """Return the version; empty if the server does not report it.

        Raises:
            AttemptError: The server does not answer.
        """
        if self._given is not None or self._untold:
            return self._given or ""
        asked_at = self._clock.monotonic()
        if asked_at - self._read_at < self._interval:
            return self._version
        async with self._reading:
            # Another call may have read it since.
            while self._read_at < asked_at and not self._untold:
                await self._read_now()
        return self._version

    async def after_call(self) -> str:
        """Return the version as `before_call` does; `?` if the server no longer answers."""
        try:
            return await self.before_call()
        except AttemptError:
            # The call itself succeeded.
            return _UNKNOWN

    async def _read_now(self) -> None:
        began_at, num_changes = self._clock.monotonic(), self._num_changes
        try:
            version = await self._read()
        except AttemptError as failure:
            if failure.may_heal:
                raise
            version = ""
            self._untold = True
        if num_changes == self._num_changes:
            self._version, self._read_at = version, began_at


def span(before: str, after: str) -> str:
    """Return the version to record; both versions if it changed during the call.

    >>> span("3", "3"), span("3", "4")
    ('3', '3..4')
    """
    return before if before == after else f"{before}..{after}"


_RESERVED = ("input", "messages", "model", "stream")


class ClientOptions(TypedDict, total=False):
    """Options of every model client."""

    name: str
    """The model's name in records. Default: its provider and model."""
    sampling: Sampling
    """Sampling settings for calls without their own."""
    timeout: float | None
    """Seconds for calls without their own timeout; default 600. None for no limit."""
    attempt_timeout: float | None
    """Seconds for each attempt of a call, so that a hanging server is asked again. Default: no
    limit except the call's own."""
    max_concurrency: int
    """The most requests in flight; default 256. Others wait for their turn."""
    requests_per_minute: float | None
    """The most requests started per minute, including retries. Default: no limit."""
    tokens_per_minute: float | None
    """The most tokens sent and received per minute. Default: no limit."""
    retries: RetryPolicy
    """When and how often to retry failed calls."""
    headers: Mapping[str, str]
    """More headers for every request. Never recorded."""
    policy_version: str | None
    """The version of the weights. None, the default, asks the server if it reports one."""
    version_interval: float
    """Seconds for which a version read from the server stays valid; default 1. The comment above
    `WeightVersions` explains the effect on records."""
    clock: Clock
    """The clock."""


@dataclasses.dataclass(frozen=True, slots=True)
class Prepared:
    """A call that is ready to send."""

    body: Mapping[str, Any]
    """The request's body."""
    call: trajectory_lib.ModelCall
    """The part of the record known before the call."""
    refusal: str = ""
    """Why the server cannot do it, if that is known in advance."""
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """More headers for this call."""


class HttpModelClient(AsyncClosing):
    """A `ModelClient` over HTTP. Subclasses implement the server's API.

    Args:
        model: The model's name on the server.
        base_url: The server's URL.
        key: The API key.
        provider: The provider in the default `name`.
        headers: The headers that the server needs.
        options: See `ClientOptions`.
        transport: Sends requests instead of an `Endpoint`, such as through a vendor's SDK.
    """

    _path: ClassVar[str]
    """The path of requests, below the base URL."""

    def __init__(
        self,
        model: str,
        base_url: str,
        key: ApiKey,
        provider: str,
        headers: Mapping[str, str],
        options: ClientOptions,
        transport: Transport | None = None,
    ) -> None:
        if not model:
            raise errors.InvalidInputError(
                "`model` is empty; expected the model's name on the server."
            )
        self.model = model
        sent = {name.lower() for name in options.get("headers", {})}
        has_key = key or transport or sent & {"authorization", "x-api-key"}
        self._missing_key = "" if has_key else key.variable
        self._clock = options.get("clock", SYSTEM_CLOCK)
        self._name = options.get("name") or f"{provider}/{model}"
        self._sampling = options.get("sampling", Sampling())
        self._endpoint: Transport = transport or Endpoint(
            base_url, key, {**headers, **options.get("headers", {})}, self._clock
        )
        self._pictures = Base64Cache()
        self._reported: set[str] = set()
        self._versions = WeightVersions(
            self._read_version, options.get("version_interval", 1.0), self._clock
        )
        self._versions.set(options.get("policy_version"))
        self._exchange = endpoint_lib.Exchange(
            limits=Limits(
                options.get("max_concurrency", 256),
                requests_per_minute=options.get("requests_per_minute"),
                tokens_per_minute=options.get("tokens_per_minute"),
                clock=self._clock,
            ),
            retries=options.get("retries", RetryPolicy()),
            clock=self._clock,
            timeout=options.get("timeout", 600.0),
            attempt_timeout=options.get("attempt_timeout"),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, {self._endpoint.url!r})"

    @property
    def name(self) -> str:
        """The model's name in records."""
        return self._name

    @property
    def base_url(self) -> str:
        """The server's URL."""
        return self._endpoint.url

    @abc.abstractmethod
    def _prepare(
        self, messages: Sequence[Message], sampling: Sampling, policy_version: str
    ) -> Prepared:
        """Return a call ready to send, given what is known about the server."""

    @staticmethod
    @abc.abstractmethod
    def _read(answer: Any, /) -> Reply:
        """Parse an answer into a reply. Raises `AttemptError`."""

    async def _post(self, prepared: Prepared) -> tuple[Prepared, Any]:
        """Send a call; return its record and the answer. Raises `AttemptError`."""
        body = messages_lib.dump_body(prepared.body)
        return prepared, await self._endpoint.post(self._path, body, prepared.headers)

    async def _learn(self) -> None:
        """Find out what kind of server it is. Raises `AttemptError`."""

    async def _read_version(self) -> str:
        """Return the version of the server's weights; empty if it does not report one.

        Raises:
            AttemptError: The server does not answer.
        """
        return ""

    def set_share(self, share: float) -> None:
        """Use a share of the rates per minute from now on; see `Limits.set_share`."""
        self._exchange.limits.set_share(share)

    def set_policy_version(self, version: str | None) -> None:
        """Fix the version of the weights from now on; None asks the server again."""
        self._versions.set(version)

    def invalidate_policy_version(self) -> None:
        """Report that the server may have new weights, so that it is asked again at once."""
        self._versions.invalidate()

    def check_key(self) -> None:
        """Check that there is an API key if the server needs one, without sending anything.

        Raises:
            MissingKeyError: It is missing.
        """
        if self._missing_key:
            raise errors.MissingKeyError(
                f"No API key for the model {self.model!r:.100} at {self.base_url}: set the "
                f"environment variable {self._missing_key}, or name another with api_key_variable. "
                "For a server of your own, give its URL: --base-url URL, or the option base_url."
            )

    async def probe(self) -> bool:
        """Return whether the server answers now."""
        try:
            return await self._status() < 500
        except AttemptError:
            return False

    async def _status(self) -> int:
        """Return the status of a cheap request. Raises `AttemptError`."""
        return await self._endpoint.status("/models")

    def _call(
        self,
        provider: str,
        policy_version: str,
        recorded: Sequence[Any],
        parameters: Mapping[str, Any],
    ) -> trajectory_lib.ModelCall:
        """Return the part of a call's record known before the call."""
        return trajectory_lib.ModelCall(
            model=self.model,
            provider=provider,
            policy_version=policy_version,
            messages=tuple(recorded),
            sampling=parameters,
        )

    async def complete(
        self,
        messages: Sequence[Message],
        sampling: Sampling | None = None,
        *,
        timeout: float | None = None,
    ) -> trajectory_lib.ModelCall:
        """See `ModelClient`."""
        self.check_key()
        messages = messages_lib.with_valid_text(messages)
        merged = merge(self._sampling, sampling)
        timing = endpoint_lib.Timing(self._clock)
        known: trajectory_lib.ModelCall | None = None

        async def attempt(turn: Turn) -> trajectory_lib.ModelCall:
            nonlocal known
            await self._learn()
            before = await self._versions.before_call()
            prepared = self._prepare(messages, merged, before)
            known = prepared.call
            if prepared.refusal:
                raise AttemptError(prepared.refusal, error_class=errors.ModelRefusedError)
            prepared, answer = await self._post(prepared)
            known = prepared.call
            reply = self._read(answer)
            turn.report_used(reply.num_tokens)
            if ending_of(reply.finish_reason) is Ending.BROKEN:
                raise AttemptError(
                    f"{self.base_url} broke off its reply (finish reason "
                    f"{reply.finish_reason!r:.50}).",
                    kind="reply",
                    response=answer,
                )
            self._report_dropped(reply)
            after = await self._versions.after_call()
            return timing.record(
                known,
                policy_version=span(before, after),
                response=answer,
                text=reply.text,
                finish_reason=reply.finish_reason,
                usage=reply.usage,
                prompt_token_ids=reply.prompt_token_ids,
                completion_token_ids=reply.completion_token_ids,
                logprobs=reply.logprobs,
            )

        limited = self._exchange.limits.counts_tokens
        tokens = messages_lib.estimate_tokens(messages) if limited else 0
        try:
            return await self._exchange.call(attempt, timing, timeout=timeout, tokens=tokens)
        except AttemptError as failure:
            known = known or self._prepare(messages, merged, "").call
            raise endpoint_lib.fail(failure, known, timing) from failure.__cause__

    def _report_dropped(self, reply: Reply) -> None:
        for name in reply.dropped:
            if name not in self._reported:
                self._reported.add(name)
                _logger.warning(
                    "%s sent a reply whose field %r is malformed. It is left out of the record, "
                    "which has the reply and the raw response. Further ones are not reported.",
                    self.base_url,
                    name,
                )

    async def aclose(self) -> None:
        """See `ModelClient`."""
        await self._endpoint.aclose()


def bearer(key: ApiKey) -> dict[str, str]:
    """Return the headers of OpenAI's APIs."""
    headers = {"content-type": "application/json"}
    return {**headers, "authorization": f"Bearer {key.reveal()}"} if key else headers


def merge_extra(parameters: Mapping[str, Any], sampling: Sampling) -> dict[str, Any]:
    """Return the parameters that have a value, and the request's other fields."""
    known = {name: value for name, value in parameters.items() if value is not None}
    return {**known, **sampling.extra}


def merge(base: Sampling, override: Sampling | None) -> Sampling:
    """Return sampling settings in which those set in `override` take precedence.

    Raises:
        InvalidInputError: `extra` has a field that the client sets itself.
    """
    if override is not None:
        changes = {
            field.name: value
            for field in dataclasses.fields(override)
            if (value := getattr(override, field.name)) is not None
        }
        changes["stop"] = override.stop or base.stop
        changes["tools"] = override.tools or base.tools
        changes["extra"] = {**base.extra, **override.extra}
        base = dataclasses.replace(base, **changes)
    reserved = [name for name in _RESERVED if name in base.extra]
    if reserved:
        raise errors.InvalidInputError(
            f"Sampling.extra has {reserved}, but the client sets {', '.join(_RESERVED)} itself."
        )
    return base
