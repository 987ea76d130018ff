"""Keep a server's process alive, and replace it on request.

One task owns the process, and only this task starts servers. So a crash, a replacement and a rest
may happen at any time, without two servers ever being started on one port.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import time
from typing import Any

from webtraj import errors
from webtraj.http import httpx
from webtraj.serving.control import AdapterKeptError, Control, WeightChange
from webtraj.serving.process import GuardedProcess, RestartPolicy, ServerLaunch, ServerLog

__all__ = ["Supervisor", "Watch"]

_logger = logging.getLogger(__name__)

_POLL_INTERVAL = 0.1
"""Seconds between readiness checks of a starting server, which does not notify us."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Timeouts and restarts of a watched server; see `ModelServer`."""

    start_timeout: float
    patience: float
    restarts: RestartPolicy
    health_interval: float
    health_timeout: float


@dataclasses.dataclass(frozen=True, slots=True)
class _Replacement:
    """A server to start in place of another, and the other's launch."""

    started: asyncio.Future[None]
    launch: ServerLaunch
    change: WeightChange | None


class Supervisor:
    """Starts a server at an address, and starts it again whenever it is gone.

    Args:
        launch: How to start the server.
        host: The address to listen on.
        port: The port, which is free.
        client: A client for the server's root.
        log: Receives the server's output.
        watch: How closely to watch it.
    """

    def __init__(
        self,
        launch: ServerLaunch,
        *,
        host: str,
        port: int,
        client: httpx.AsyncClient,
        log: ServerLog,
        watch: Watch,
    ) -> None:
        self.launch = launch
        """The launch of the next start."""
        self.change: WeightChange | None = None
        """Weights to load after each start; None for the initial ones."""
        self.process: GuardedProcess | None = None
        """The current server, or the last one."""
        self.healthy = asyncio.Event()
        """Set while the server passes its health checks."""
        self.num_restarts = 0
        """Number of restarts after a crash."""
        self._address = (host, port)
        self._client = client
        self._log = log
        self._watch = watch
        self._may_start = asyncio.Event()
        self._may_start.set()
        self._ended_on_purpose = False
        self._replacement: _Replacement | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def control(self) -> Control:
        """Control requests to the server."""
        return Control(self._client, timeout=self._watch.start_timeout)

    async def start(self) -> None:
        """Start the server and watch it once it is healthy.

        Raises:
            ModelUnavailableError: The server does not become healthy.
        """
        await self._start()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End the server and the watching."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.exception()  # Retrieve it; `wait` reports it.
        self.healthy.clear()
        if self.process is not None:
            await self.process.stop()

    async def wait(self) -> None:
        """Wait until the server is given up, which raises ModelUnavailableError."""
        assert self._task is not None
        await asyncio.shield(self._task)

    async def wait_healthy(self, timeout: float | None) -> None:
        """Wait until the server is ready; raise ModelUnavailableError after the timeout."""
        await self._wait_for(asyncio.ensure_future(self.healthy.wait()), timeout)
        if not self.healthy.is_set():
            raise errors.ModelUnavailableError(
                f"The model server did not become healthy again within {timeout:g} s."
                f"{self._log.tail()}"
            )

    def kill(self) -> None:
        """Kill a server in a bad state; it is started again."""
        self.healthy.clear()
        if self.process is not None:
            self.process.kill()

    async def replace(self, launch: ServerLaunch) -> None:
        """End the server and start another; while it rests, start the other afterwards.

        If the other does not start, the previous one is started again with its weights.

        Raises:
            ModelUnavailableError: The new server does not start.
        """
        before = self._replacement or self  # Replaced twice in one rest: the first never started.
        replacement = _Replacement(
            asyncio.get_running_loop().create_future(), before.launch, before.change
        )
        self._replacement = replacement
        self.launch, self.change = launch, None
        if self._may_start.is_set():
            await self._end()
            await self._wait_for(replacement.started)

    async def lie_down(self, *, end: bool) -> None:
        """Do not start any server until `get_up`, whatever happens to this one.

        Args:
            end: Whether to end this one now.
        """
        self._may_start.clear()
        if end:
            await self._end()

    async def get_up(self) -> None:
        """Allow starts again, and start the server if it is gone.

        Raises:
            ModelUnavailableError: The replacement does not start.
        """
        self._may_start.set()
        if self._replacement is not None:
            await self._wait_for(self._replacement.started)

    async def _wait_for(self, future: asyncio.Future[Any], timeout: float | None = None) -> None:
        """Wait for a future that the task completes; raise the error that ended the task."""
        assert self._task is not None
        try:
            await asyncio.wait(
                [future, self._task], timeout=timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if self._task.done():
                await self._task
            if future.done():
                await future
        finally:
            if not future.done():
                future.cancel()

    async def _end(self) -> None:
        assert self.process is not None
        self._ended_on_purpose = True
        self.healthy.clear()
        await self.process.stop()

    async def _start(self) -> None:
        if self.process is not None:
            await self.process.stop()
        hold = {} if self.change is None else {"WEBTRAJ_WEIGHTS_HOLD": "1"}
        self.process = GuardedProcess(
            self.launch.command(*self._address),
            variables={**os.environ, **self.launch.variables(), **hold},
            log_file=self._log.open(),
            patience=self._watch.patience,
        )
        try:
            async with asyncio.timeout(self._watch.start_timeout):
                await self._until_ready(self.process)
                if self.change is not None:
                    await self.change.apply(self.control)
        except AdapterKeptError as kept:
            raise kept.error from kept
        except TimeoutError:
            self._log.keep = True
            raise errors.ModelUnavailableError(
                f"The model server did not become healthy within {self._watch.start_timeout:g} s. "
                f"Raise start_timeout, or fix the cause in its log.{self._log.tail()}"
            ) from None
        self.healthy.set()

    async def _until_ready(self, process: GuardedProcess) -> None:
        while not await self._ready():
            if process.ended:
                self._log.keep = True
                raise errors.ModelUnavailableError(
                    f"The model server exited with status {await process.wait()} before it became "
                    f"healthy.{self._log.tail()}"
                )
            await asyncio.sleep(_POLL_INTERVAL)

    async def _ready(self) -> bool:
        """Return whether a server answers and is the one that we started."""
        with contextlib.suppress(httpx.HTTPError, ValueError, KeyError, TypeError):
            if (await self._client.get("/health")).is_success:
                listed = (await self._client.get("/v1/models")).json()
                return any(model["id"] == self.launch.served_name for model in listed["data"])
        return False

    async def _run(self) -> None:
        try:
            await self._keep_alive()
        except Exception as error:
            _logger.error("Giving up on the model server. %s", error)
            raise

    async def _keep_alive(self) -> None:
        in_a_row = 0
        policy = self._watch.restarts
        while True:
            healthy_since = time.monotonic()
            why = await self._until_dead()
            self.healthy.clear()
            if time.monotonic() - healthy_since >= policy.stable_after:
                in_a_row = 0
            if self._ended_on_purpose:
                self._ended_on_purpose = False
                await self._may_start.wait()
                why = await self._try_to_start()
            while why:
                self._log.keep = True
                await self._may_start.wait()
                if in_a_row >= policy.limit:
                    raise errors.ModelUnavailableError(
                        f"The model server {why}, after {in_a_row} restarts in a row."
                        f"{self._log.tail()}"
                    )
                _logger.warning(
                    "The model server %s and is started again.%s", why, self._log.tail()
                )
                await asyncio.sleep(policy.pause(in_a_row))
                in_a_row += 1
                self.num_restarts += 1
                why = await self._try_to_start()

    async def _try_to_start(self) -> str:
        """Start the server; return the reason if it does not start, else an empty string."""
        replacement, self._replacement = self._replacement, None
        try:
            await self._start()
        except errors.ModelError as error:
            if replacement is not None:
                self.launch, self.change = replacement.launch, replacement.change
                if not replacement.started.done():
                    replacement.started.set_exception(error)
            return f"failed to start ({str(error).partition('.')[0]})"
        if replacement is not None and not replacement.started.done():
            replacement.started.set_result(None)
        return ""

    async def _until_dead(self) -> str:
        """Wait until the server is dead or stuck; return which, for a message."""
        assert self.process is not None
        last_answer = time.monotonic()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._watch.health_interval):
                    return f"exited with status {await self.process.wait()}"
            if await self._alive():
                last_answer = time.monotonic()
            elif time.monotonic() - last_answer >= self._watch.health_timeout:
                return f"has not answered for {self._watch.health_timeout:g} s"

    async def _alive(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return (await self._client.get("/health")).is_success
        return False
