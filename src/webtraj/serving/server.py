"""A supervised model server: started, restarted if it dies, and ended.

One task owns the server's process, and only this task starts servers. So crashes, replacements and
rests may happen at any time, but two servers are never started on one port.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from webtraj import errors
from webtraj.net.http import httpx
from webtraj.serving import process
from webtraj.serving import vllm as vllm_lib
from webtraj.serving.control import (
    DEFAULT_HOLD,
    AdapterKeptError,
    Control,
    ReadWeights,
    WeightChange,
)
from webtraj.serving.process import GuardedProcess, RestartPolicy, ServerLaunch, ServerLog

__all__ = ["ModelServer"]

_logger = logging.getLogger(__name__)

_POLL_INTERVAL = 0.1
"""Seconds between readiness checks of a starting server, which does not notify us."""

_NOT_STARTED = "This ModelServer is not started; use `async with`."


@dataclasses.dataclass(frozen=True, slots=True)
class _Replacement:
    """A server to start instead of another, and the other's launch."""

    started: asyncio.Future[None]
    launch: ServerLaunch
    change: WeightChange | None


class ModelServer:
    """Runs a server for the length of its `async with` block.

        async with ModelServer(VllmLaunch(model="runs/policy")) as server:
            client = OpenAICompatibleClient(server.model, server.base_url)

    The server is healthy when the block is entered. If it dies later or stops answering, it is
    started again at the same address with the same weights. A client that retries does not notice.
    No part of it outlives the block or this process.

    Args:
        launch: How to start the server, such as a `VllmLaunch`.
        host: The address to listen on.
        port: The port; 0 for any free one.
        log_file: Receives the server's output, appended. By default a temporary file, which is
            removed unless something went wrong.
        start_timeout: Time limit of each start in seconds; a large model loads for minutes.
        patience: Seconds between asking the server to end and killing it.
        restarts: How often to start it again.
        health_interval: Seconds between health checks.
        health_timeout: Seconds without an answer after which it counts as dead.

    Raises:
        InvalidInputError: A setting is invalid, or the port is taken. On entry.
        MissingDependencyError: A required package is not installed. On entry.
        ModelUnavailableError: The server does not become healthy; the message quotes the end of
            its log. On entry.
    """

    def __init__(
        self,
        launch: ServerLaunch,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        log_file: str | os.PathLike[str] | None = None,
        start_timeout: float = 900.0,
        patience: float = 15.0,
        restarts: RestartPolicy | None = None,
        health_interval: float = 5.0,
        health_timeout: float = 60.0,
    ) -> None:
        self.launch = launch
        """The launch of the next start."""
        self.num_restarts = 0
        """Number of restarts after a crash."""
        self._host = host
        self._port = port
        self._log = ServerLog(log_file)
        self._start_timeout = start_timeout
        self._patience = patience
        self._restarts = restarts or RestartPolicy()
        self._health_interval = health_interval
        self._health_timeout = health_timeout
        self._client: httpx.AsyncClient | None = None
        self._process: GuardedProcess | None = None  # The current server, or the last one.
        self._task: asyncio.Task[None] | None = None
        self._change: WeightChange | None = None  # Weights to load after each start.
        self._healthy = asyncio.Event()
        self._changing = asyncio.Lock()
        self._rest: vllm_lib.Rest | None = None
        self._may_start = asyncio.Event()
        self._may_start.set()
        self._ended_on_purpose = False
        self._replacement: _Replacement | None = None

    @property
    def url(self) -> str:
        """The server's root URL: `http://127.0.0.1:8000`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    @property
    def base_url(self) -> str:
        """The root URL of the OpenAI-compatible API: `http://127.0.0.1:8000/v1`."""
        return f"{self.url}/v1"

    @property
    def model(self) -> str:
        """The model's name in requests."""
        return self.launch.served_name

    @property
    def log_file(self) -> Path | None:
        """File of the server's output; None before the start if it is temporary."""
        return self._log.path

    @property
    def pid(self) -> int | None:
        """The server's process id; None while it is not running."""
        return None if self._process is None or self._process.ended else self._process.pid

    @property
    def healthy(self) -> bool:
        """Whether it passed the last health check."""
        return self._healthy.is_set()

    async def __aenter__(self) -> Self:
        if self._client is not None:
            raise errors.InvalidInputError(
                "This ModelServer was already started. Make a new one for each `async with`."
            )
        self._port = process.claim(self._host, self._port)
        self.launch.command(self._host, self._port)  # Fail first if a setting is invalid.
        self._log.open()
        # A server on this machine is never behind a proxy.
        self._client = httpx.AsyncClient(
            base_url=self.url, trust_env=False, timeout=self._health_timeout, auth=self._with_key
        )
        try:
            await self._start()
            self._task = asyncio.create_task(self._run())
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stop()

    async def wait(self) -> None:
        """Wait until the server is given up.

        Raises:
            ModelUnavailableError: The server died too often.
        """
        await asyncio.shield(self._watching)

    async def wait_healthy(self, timeout: float | None = None) -> None:
        """Wait until the server is ready. Return at once unless it is being started again.

        Raises:
            ModelUnavailableError: The server was given up, or the timeout has passed.
        """
        await self._wait_for(asyncio.ensure_future(self._healthy.wait()), timeout)
        if not self.healthy:
            raise errors.ModelUnavailableError(
                f"The model server did not become healthy again within {timeout:g} s."
                f"{self._log.tail()}"
            )

    async def weight_version(self) -> str:
        """Return the version of the current weights; `default` for the initial ones.

        Raises:
            ModelRefusedError: The server rejects the request.
            ModelUnavailableError: The server does not answer.
        """
        return await self._control.read_version()

    async def reload_weights(
        self, path: str | os.PathLike[str], version: str, *, hold: float = DEFAULT_HOLD
    ) -> None:
        """Replace the weights while the server runs; requests wait meanwhile.

        If that fails, the server is started again with its previous weights.

        Args:
            path: The folder of a saved model of the same architecture.
            version: The version of these weights.
            hold: Seconds that requests wait after the new weights are named, so that no record
                names the old ones. Use the clients' `version_interval`, or 0 if there are no
                requests meanwhile.

        Raises:
            InvalidInputError: The folder has no weights, or the version is empty or the base's.
            ModelRefusedError: The server rejects the weights.
            ModelUnavailableError: The server is unavailable.
        """
        await self.change_weights(ReadWeights(path, version, hold))

    async def change_weights(self, change: WeightChange) -> None:
        """Change the running server's weights, as `reload_weights` does.

        If a LoRA adapter is rejected, the previous one stays and the server continues.

        Raises:
            InvalidInputError: The weights are visibly wrong, or the server is resting.
            ModelRefusedError: The server rejects the weights.
            ModelUnavailableError: The server is unavailable.
        """
        change.check()
        self._refuse_while(vllm_lib.NO_CHANGES)
        async with self._changing:
            await self.wait_healthy(self._start_timeout)
            try:
                await change.apply(self._control)
            except AdapterKeptError as kept:
                raise kept.error from kept
            except BaseException:
                self._kill()  # It is paused, or half changed.
                raise
            self._change = change

    async def restart(self, launch: ServerLaunch) -> None:
        """End the server and start another at the same address; requests fail meanwhile.

        Clients retry them. If the new server does not start, the previous one is started again with
        its weights. While the server rests by `stop`, this only sets what to start when the rest
        ends. Leaving the rest then raises any error.

        Raises:
            InvalidInputError: A setting is invalid, or the server rests in another way.
            ModelUnavailableError: The new server does not start.
        """
        launch.command(self._host, self._port)
        if self._rest == "stop":
            await self._replace(launch)
            return
        self._refuse_while(vllm_lib.NO_CHANGES)
        async with self._changing:
            await self.wait_healthy(self._start_timeout)
            await self._replace(launch)

    @contextlib.asynccontextmanager
    async def resting(self, how: vllm_lib.Rest) -> AsyncIterator[None]:
        """Lend memory and processors to others, such as a trainer, during the block.

        Running replies are finished first. When the block is left, the server is healthy again with
        the same weights. If it dies during the block, it is started at the end of the block.

        Args:
            how: See `webtraj.serving.vllm.Rest`.

        Raises:
            InvalidInputError: The server does not support this rest, or is already resting. On
                entry.
            ModelRefusedError: The server rejects the request. On entry.
            ModelUnavailableError: The server is unavailable on entry, or does not come back on
                exit.
        """
        self._refuse_while(vllm_lib.NO_RESTS)
        vllm_lib.check(how, self.launch)
        async with self._changing:
            await self.wait_healthy(self._start_timeout)
            self._rest = how
            try:
                self._may_start.clear()
                if how == "stop":
                    await self._end()
                try:
                    await vllm_lib.begin(how, self._control)
                except BaseException:
                    self._kill()  # It may or may not be asleep.
                    raise
                yield
            finally:
                self._rest = None
                self._may_start.set()
                if self._replacement is not None:
                    await self._wait_for(self._replacement.started)
                if self.healthy:
                    await self._wake_up(how)
                await self.wait_healthy(self._start_timeout)

    async def _wake_up(self, how: vllm_lib.Rest) -> None:
        """Wake a server that rested; restart it if it does not wake up."""
        try:
            await vllm_lib.end(how, self._control)
        except errors.ModelError as error:
            _logger.warning("Restarting the model server, which does not wake up. %s", error)
            self._kill()
        except BaseException:
            self._kill()
            raise

    @property
    def _watching(self) -> asyncio.Task[None]:
        if self._task is None:
            raise errors.InvalidInputError(_NOT_STARTED)
        return self._task

    @property
    def _requests(self) -> httpx.AsyncClient:
        if self._client is None:
            raise errors.InvalidInputError(_NOT_STARTED)
        return self._client

    @property
    def _control(self) -> Control:
        return Control(self._requests, timeout=self._start_timeout)

    def _with_key(self, request: httpx.Request) -> httpx.Request:
        if key := self.launch.api_key:
            request.headers["authorization"] = f"Bearer {key}"
        return request

    def _refuse_while(self, message: str) -> None:
        if self._rest is not None:
            raise errors.InvalidInputError(message.format(rest=self._rest))

    async def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.exception()  # Retrieve it; `wait` reports it.
        self._healthy.clear()
        if self._process is not None:
            await self._process.stop()
        if self._client is not None:
            await self._client.aclose()
        self._log.close()

    def _kill(self) -> None:
        """Kill a server in a bad state; it is started again."""
        self._healthy.clear()
        if self._process is not None:
            self._process.kill()

    async def _replace(self, launch: ServerLaunch) -> None:
        """End the server and start another. During a rest, start the other afterwards.

        If the new server does not start, the previous one is started again with its weights.

        Raises:
            ModelUnavailableError: The new server does not start.
        """
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        replacement = _Replacement(started, self.launch, self._change)
        if self._replacement is not None:  # Replaced twice in one rest: the first never started.
            replacement = dataclasses.replace(self._replacement, started=started)
        self._replacement = replacement
        self.launch, self._change = launch, None
        if self._may_start.is_set():
            await self._end()
            await self._wait_for(started)

    async def _wait_for(self, future: asyncio.Future[Any], timeout: float | None = None) -> None:
        """Wait for a future that the task completes; raise the error that ended the task."""
        try:
            task = self._watching
            await asyncio.wait([future, task], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                await task
            if future.done():
                await future
        finally:
            if not future.done():
                future.cancel()

    async def _end(self) -> None:
        assert self._process is not None
        self._ended_on_purpose = True
        self._healthy.clear()
        await self._process.stop()

    async def _start(self) -> None:
        if self._process is not None:
            await self._process.stop()
        hold = {} if self._change is None else {"WEBTRAJ_WEIGHTS_HOLD": "1"}
        self._process = GuardedProcess(
            self.launch.command(self._host, self._port),
            variables={**os.environ, **self.launch.variables(), **hold},
            log_file=self._log.open(),
            patience=self._patience,
        )
        try:
            async with asyncio.timeout(self._start_timeout):
                await self._until_ready(self._process)
                if self._change is not None:
                    await self._change.apply(self._control)
        except AdapterKeptError as kept:
            raise kept.error from kept
        except TimeoutError:
            self._log.keep = True
            raise errors.ModelUnavailableError(
                f"The model server did not become healthy within {self._start_timeout:g} s. "
                f"Raise start_timeout, or fix the cause in its log.{self._log.tail()}"
            ) from None
        self._healthy.set()

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
        """Return whether a server answers and is the one that was started here."""
        with contextlib.suppress(httpx.HTTPError, ValueError, KeyError, TypeError):
            if await self._alive():
                listed = (await self._requests.get("/v1/models")).json()
                return any(model["id"] == self.model for model in listed["data"])
        return False

    async def _run(self) -> None:
        try:
            await self._keep_alive()
        except Exception as error:
            _logger.error("Giving up on the model server. %s", error)
            raise

    async def _keep_alive(self) -> None:
        in_a_row = 0
        policy = self._restarts
        while True:
            healthy_since = time.monotonic()
            why = await self._until_dead()
            self._healthy.clear()
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
                self.launch, self._change = replacement.launch, replacement.change
                if not replacement.started.done():
                    replacement.started.set_exception(error)
            return f"failed to start ({str(error).partition('.')[0]})"
        if replacement is not None and not replacement.started.done():
            replacement.started.set_result(None)
        return ""

    async def _until_dead(self) -> str:
        """Wait until the server is dead or stuck; return which of both, for a message."""
        assert self._process is not None
        last_answer = time.monotonic()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._health_interval):
                    return f"exited with status {await self._process.wait()}"
            if await self._alive():
                last_answer = time.monotonic()
            elif time.monotonic() - last_answer >= self._health_timeout:
                return f"has not answered for {self._health_timeout:g} s"

    async def _alive(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return (await self._requests.get("/health")).is_success
        return False
