"""Several servers as one: each call goes to the least busy server, and survives its failure.

A server that fails is rested: calls go elsewhere, and in the background it is probed at growing
intervals. Its failed calls are made again on other servers, at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.agents.models import endpoint as endpoint_lib
from webtraj.agents.models import messages as messages_lib
from webtraj.agents.models.base import Message, ModelClient, Sampling, check_keys
from webtraj.agents.models.limits import SYSTEM_CLOCK, Clock, RetryPolicy
from webtraj.agents.models.messages import Base64Cache
from webtraj.agents.models.openai import OpenAICompatibleClient
from webtraj.store.closeable import AsyncClosing

__all__ = ["BalancedClient", "ServerClient"]

_PROBE_TIMEOUT = 5.0
_SLACK = 4
"""The most calls in flight that an episode's own server may have beyond the least busy one."""
_ROUNDS = 8
"""The most attempts of a call, times the number of servers."""


class ServerClient(ModelClient, Protocol):
    """A client for one server."""

    async def probe(self) -> bool:
        """Return whether the server answers."""

    def set_policy_version(self, version: str | None) -> None:
        """Fix the version of the weights from now on; None asks the server again."""

    def invalidate_policy_version(self) -> None:
        """Report that the server may have new weights."""


@dataclasses.dataclass(eq=False, slots=True)
class _Server:
    client: ServerClient
    number: int
    busy: int = 0
    """Calls in flight."""
    last_call: int = 0
    """The number of its latest call, counted over all servers."""
    failures: int = 0
    """Consecutive failed calls and probes."""
    nursing: asyncio.Task[None] | None = None
    """The task that waits for its return while it rests."""


class BalancedClient(AsyncClosing):
    """Distributes calls over clients for the same model.

    The clients should not retry themselves, or a failure is noticed late; `to` makes such clients.

    Args:
        clients: The clients, one per server. They are closed with this one.
        name: The model's name in records. Default: the first client's name.
        timeout: Seconds for calls without their own timeout; None for no limit.
        rest: How long a server rests before it is probed.
        clock: The clock.
    """

    def __init__(
        self,
        clients: Sequence[ServerClient],
        *,
        name: str = "",
        timeout: float | None = 600.0,
        rest: RetryPolicy | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if not clients:
            raise errors.InvalidInputError("A BalancedClient needs clients; got none.")
        self._servers = [_Server(client, number) for number, client in enumerate(clients)]
        self._name = name or clients[0].name
        self._timeout = timeout
        self._rest = RetryPolicy() if rest is None else rest
        self._clock = clock
        self._someone_is_back = asyncio.Event()
        self._closed = False
        self._num_calls = 0

    def check_key(self) -> None:
        """Check that every server has the API key that it needs, without sending anything.

        Raises:
            MissingKeyError: One is missing.
        """
        for server in self._servers:
            check_keys(server.client)

    @classmethod
    def to(
        cls,
        model: str,
        base_urls: Sequence[str],
        *,
        client_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Self:
        """Make a client for servers with OpenAI's chat completions.

        Args:
            model: The model's name on the servers.
            base_urls: The URLs of the servers.
            client_options: More arguments of `OpenAICompatibleClient`, such as limits; they apply
                to each server.
            options: More arguments of the balanced client.
        """
        each = {"retries": RetryPolicy(max_retries=0), "timeout": None, **(client_options or {})}
        return cls([OpenAICompatibleClient(model, url, **each) for url in base_urls], **options)

    def __repr__(self) -> str:
        return f"BalancedClient({[server.client for server in self._servers]!r})"

    @property
    def name(self) -> str:
        """The model's name in records."""
        return self._name

    @property
    def loads(self) -> tuple[int, ...]:
        """The number of calls in flight at each server."""
        return tuple(server.busy for server in self._servers)

    @property
    def resting(self) -> tuple[int, ...]:
        """The numbers of the servers that rest."""
        return tuple(server.number for server in self._servers if server.nursing is not None)

    def set_share(self, share: float) -> None:
        """Use a share of each server's rates per minute from now on; see `Limits`."""
        for server in self._servers:
            set_share = getattr(server.client, "set_share", None)
            if set_share is not None:
                set_share(share)

    def set_policy_version(self, version: str | None) -> None:
        """Fix the version of the weights from now on, for all servers."""
        for server in self._servers:
            server.client.set_policy_version(version)

    def invalidate_policy_version(self) -> None:
        """Report that all servers may have new weights."""
        for server in self._servers:
            server.client.invalidate_policy_version()

    def sticky(self, key: str) -> ModelClient:
        """Return a view for one episode, whose calls stay on one server if possible.

        That server has the episode's history in its prefix cache. An episode moves if its server
        fails, or is much busier than another.

        Args:
            key: The episode's key.
        """
        return _StickyView(self, key)

    async def complete(
        self,
        messages: Sequence[Message],
        sampling: Sampling | None = None,
        *,
        timeout: float | None = None,
    ) -> trajectory_lib.ModelCall:
        """See `ModelClient`."""
        return await self.complete_at("", messages, sampling, timeout=timeout)

    async def complete_at(
        self,
        key: str,
        messages: Sequence[Message],
        sampling: Sampling | None = None,
        *,
        timeout: float | None = None,
    ) -> trajectory_lib.ModelCall:
        """Make a call for the episode of `key`, as `sticky` does. See `ModelClient`."""
        timeout = self._timeout if timeout is None else timeout
        timing = endpoint_lib.Timing(self._clock)
        last: errors.ModelUnavailableError | None = None
        for _ in range(_ROUNDS * len(self._servers)):
            server = await self._server_for(key, timing, timeout)
            if server is None:
                break
            try:
                left = None if timeout is None else max(0.0, timeout - timing.elapsed)
                call = await self._ask(server, messages, sampling, left)
            except errors.ModelUnavailableError as error:
                last = error
                if error.call is not None:
                    timing.failed_attempts += error.call.failed_attempts
                if timeout is not None and timing.elapsed >= timeout:
                    # The call had too little time, which may not be the server's fault.
                    self._let_rest(server, ask_first=True)
                    break
                self._let_rest(server)
            else:
                server.failures = 0
                timing.failed_attempts += call.failed_attempts
                return timing.record(call)
        raise self._make_error(messages, last, timing) from last

    async def _ask(
        self,
        server: _Server,
        messages: Sequence[Message],
        sampling: Sampling | None,
        timeout: float | None,
    ) -> trajectory_lib.ModelCall:
        server.busy += 1
        self._num_calls += 1
        server.last_call = self._num_calls
        try:
            return await server.client.complete(messages, sampling, timeout=timeout)
        finally:
            server.busy -= 1

    async def _server_for(
        self, key: str, timing: endpoint_lib.Timing, timeout: float | None
    ) -> _Server | None:
        """Return the server to call, waiting while all rest; None when the time is up."""
        while not self._closed:
            awake = [server for server in self._servers if server.nursing is None]
            if awake:
                return _choose(awake, key)
            self._someone_is_back.clear()
            left = None if timeout is None else timeout - timing.elapsed
            try:
                async with asyncio.timeout(left):
                    await self._someone_is_back.wait()
            except TimeoutError:
                break
        return None

    def _let_rest(self, server: _Server, *, ask_first: bool = False) -> None:
        """Let a server rest until a probe succeeds; `ask_first` probes it at once."""
        server.failures += 1
        # After several failed calls at once, it is being nursed already.
        if server.nursing is None and not self._closed:
            server.nursing = asyncio.create_task(self._nurse(server, ask_first))

    async def _nurse(self, server: _Server, ask_first: bool) -> None:
        """Wait until the server is back."""
        while not (ask_first and await _is_back(server.client)):
            ask_first = False
            await self._clock.sleep(self._rest.delay(server.failures - 1, None, self._clock))
            if await _is_back(server.client):
                break
            server.failures += 1
        server.nursing = None
        self._someone_is_back.set()

    def _make_error(
        self,
        messages: Sequence[Message],
        last: errors.ModelUnavailableError | None,
        timing: endpoint_lib.Timing,
    ) -> errors.ModelUnavailableError:
        why = f"The last failure: {last}" if last else "All of them rest after other calls failed."
        message = (
            f"None of {len(self._servers)} model servers answered within "
            f"{timing.elapsed:.1f} s. {why}"
        )
        error = errors.ModelUnavailableError(message)
        call = last.call if last is not None else None
        if call is None:
            _, recorded = messages_lib.to_openai(messages, Base64Cache(), uuids=False)
            call = trajectory_lib.ModelCall(model=self._name, messages=tuple(recorded))
        error.call = timing.record(call, error=message)
        return error

    async def aclose(self) -> None:
        """Close all clients. Idempotent."""
        self._closed = True
        self._someone_is_back.set()
        nursing = [server.nursing for server in self._servers if server.nursing is not None]
        for task in nursing:
            task.cancel()
        await asyncio.gather(*nursing, return_exceptions=True)
        for server in self._servers:
            await server.client.aclose()


def _choose(servers: Sequence[_Server], key: str) -> _Server:
    least = min(servers, key=lambda server: (server.busy, server.last_call))
    if key:
        # Each episode ranks the servers in its own order and takes the first available, so a
        # failing server moves only its own episodes.
        own = max(servers, key=lambda server: _affinity(key, server.number))
        if own.busy <= least.busy + _SLACK:
            return own
    return least


def _affinity(key: str, number: int) -> bytes:
    return hashlib.sha256(f"{number}/{key}".encode("utf-8", "surrogatepass")).digest()


async def _is_back(client: ServerClient) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_PROBE_TIMEOUT):
            return await client.probe()
    return False


@dataclasses.dataclass(frozen=True, slots=True)
class _StickyView:
    """A `ModelClient` for one episode. It owns nothing, so closing it does nothing."""

    client: BalancedClient
    key: str

    @property
    def name(self) -> str:
        return self.client.name

    async def complete(
        self,
        messages: Sequence[Message],
        sampling: Sampling | None = None,
        *,
        timeout: float | None = None,
    ) -> trajectory_lib.ModelCall:
        return await self.client.complete_at(self.key, messages, sampling, timeout=timeout)

    async def aclose(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass
