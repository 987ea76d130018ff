"""Several servers as one: each call goes to the one with the least to do, and none is lost with it.

A server that fails is rested: calls go elsewhere, and it is asked in the background, at growing
intervals, whether it is back. The calls that it failed are made again at the others, at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.agents.models import endpoint as endpoint_lib
from webtraj.agents.models import messages as messages_lib
from webtraj.agents.models.base import Message, ModelClient, Sampling
from webtraj.agents.models.limits import SYSTEM_CLOCK, Clock, RetryPolicy
from webtraj.agents.models.messages import Base64Cache
from webtraj.agents.models.openai import OpenAICompatibleClient
from webtraj.closing import AsyncClosing

__all__ = ["BalancedClient", "ServerClient"]

_PROBE_TIMEOUT = 5.0
_SLACK = 4
"""Calls that a sticky episode's server may have under way more than the least loaded one."""
_ROUNDS = 8
"""How many times a call is made at most, for each server."""


class ServerClient(ModelClient, Protocol):
    """A client of one server."""

    async def probe(self) -> bool:
        """Return whether the server would answer."""

    def set_policy_version(self, version: str | None) -> None:
        """Say which weights answer from now on; None has the server asked again."""

    def invalidate_policy_version(self) -> None:
        """Say that the server may have other weights now."""


@dataclasses.dataclass(eq=False, slots=True)
class _Server:
    client: ServerClient
    number: int
    busy: int = 0
    """Calls under way."""
    last_call: int = 0
    """Number of the call that it had last, among those of all servers."""
    failures: int = 0
    """Calls and probes failed in a row."""
    nursing: asyncio.Task[None] | None = None
    """Waits for it to come back, while it is rested."""


class BalancedClient(AsyncClosing):
    """Shares calls among clients that ask the same model.

    The clients should not retry by themselves, or a server's end is noticed late: `to` makes such.

    Args:
        clients: The clients, each of a server of its own. They are closed with this one.
        name: What records call the model; by default the first client's name.
        timeout: Seconds for a call that does not give its own; None for no limit.
        rest: How long a server rests before it is asked whether it is back.
        clock: The time to go by.
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

    @classmethod
    def to(
        cls,
        model: str,
        base_urls: Sequence[str],
        *,
        client_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Self:
        """Make one for servers that speak OpenAI's chat completions.

        Args:
            model: The model's name, as the servers know it.
            base_urls: Where they are.
            client_options: What else `OpenAICompatibleClient` takes, limits for example; they hold
                for each server.
            options: What else the balanced client takes.
        """
        each = {"retries": RetryPolicy(max_retries=0), "timeout": None, **(client_options or {})}
        return cls([OpenAICompatibleClient(model, url, **each) for url in base_urls], **options)

    def __repr__(self) -> str:
        return f"BalancedClient({[server.client for server in self._servers]!r})"

    @property
    def name(self) -> str:
        """What records call the model."""
        return self._name

    @property
    def loads(self) -> tuple[int, ...]:
        """How many calls each server has under way."""
        return tuple(server.busy for server in self._servers)

    @property
    def resting(self) -> tuple[int, ...]:
        """The numbers of the servers that are rested."""
        return tuple(server.number for server in self._servers if server.nursing is not None)

    def set_share(self, share: float) -> None:
        """Goes on with a part of what each server is asked by the minute; see `Limits`."""
        for server in self._servers:
            set_share = getattr(server.client, "set_share", None)
            if set_share is not None:
                set_share(share)

    def set_policy_version(self, version: str | None) -> None:
        """Say which weights answer from now on, at all servers."""
        for server in self._servers:
            server.client.set_policy_version(version)

    def invalidate_policy_version(self) -> None:
        """Say that all servers may have other weights now."""
        for server in self._servers:
            server.client.invalidate_policy_version()

    def sticky(self, key: str) -> ModelClient:
        """Return a view for one episode, whose calls go to the same server as long as they can.

        That server still has the episode's history in its prefix cache. An episode moves on when
        its server fails, or has far more to do than another.

        Args:
            key: Names the episode.
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
        """Make a call for the episode that `key` names, as `sticky` does. See `ModelClient`."""
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
                if timeout is not None and timing.elapsed >= timeout:
                    break  # The call had too little time, which need not be the server's fault.
                self._let_rest(server)
            else:
                server.failures = 0
                return dataclasses.replace(
                    call, start_time=timing.start_time, latency=timing.elapsed
                )
        raise self._failed(messages, last, timing) from last

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
        """Return the server to ask, waiting for one if all rest; None if there is no more time."""
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

    def _let_rest(self, server: _Server) -> None:
        server.failures += 1
        # One that failed several calls at once is nursed already.
        if server.nursing is None and not self._closed:
            server.nursing = asyncio.create_task(self._nurse(server))

    async def _nurse(self, server: _Server) -> None:
        """Return when the server is back."""
        while True:
            await self._clock.sleep(self._rest.delay(server.failures - 1, None, self._clock))
            if await _is_back(server.client):
                break
            server.failures += 1
        server.nursing = None
        self._someone_is_back.set()

    def _failed(
        self,
        messages: Sequence[Message],
        last: errors.ModelUnavailableError | None,
        timing: endpoint_lib.Timing,
    ) -> errors.ModelUnavailableError:
        why = f"The last failure: {last}" if last else "All of them rest since they failed others."
        message = (
            f"None of {len(self._servers)} model servers has answered within "
            f"{timing.elapsed:.1f} s. {why}"
        )
        error = errors.ModelUnavailableError(message)
        call = last.call if last is not None else None
        if call is None:
            _, recorded = messages_lib.to_openai(messages, Base64Cache(), uuids=False)
            call = trajectory_lib.ModelCall(model=self._name, messages=tuple(recorded))
        error.call = dataclasses.replace(
            call, error=message, start_time=timing.start_time, latency=timing.elapsed
        )
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
        # Each episode has its own order of the servers, in which the first that is there is taken:
        # so one that goes away moves none but its own episodes.
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

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass
