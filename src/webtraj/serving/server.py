"""A model server under supervision: started, awaited, started again if it dies, ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from webtraj import errors
from webtraj.serving import logs, ports, weights
from webtraj.serving.launch import ServerLaunch
from webtraj.serving.process import GuardedProcess
from webtraj.serving.restarts import RestartPolicy

__all__ = ["ModelServer"]

_logger = logging.getLogger(__name__)

_POLL_INTERVAL = 0.1
"""Seconds between looks at a server that starts; nothing else tells that it is ready."""


class ModelServer:
    """Runs a server for as long as its `async with` block.

        async with ModelServer(VllmLaunch(model="runs/policy")) as server:
            client = OpenAICompatibleClient(server.model, server.base_url)

    It is healthy when the block is entered. If it dies later, or no longer answers, it is started
    again at the same address, and given again the weights that it had. A client that retries sees
    it through. Nothing of it outlives the block, or our process, however that dies.

    Args:
        launch: What to start, `VllmLaunch` for example.
        host: The address to listen at.
        port: The port; 0 for one that is free.
        log_file: Gets what the server prints, appended. By default a temporary file, which is
            removed if nothing went wrong.
        start_timeout: Seconds that each start may take; a large model loads for minutes.
        patience: Seconds between asking the server to end and killing it.
        restarts: How often to start it again.
        health_interval: Seconds between looks at its health.
        health_timeout: Seconds without an answer after which it is taken for dead.

    Raises:
        InvalidInputError: A setting is wrong, or the port is taken. By entering.
        MissingDependencyError: What it needs is not installed. By entering.
        ModelUnavailableError: It does not get healthy; the end of its log is in the message. By
            entering.
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
        self._launch = launch
        self._host = host
        self._port = port
        self._log_file = None if log_file is None else Path(log_file)
        self._keep_log = log_file is not None
        self._start_timeout = start_timeout
        self._patience = patience
        self._restarts = restarts or RestartPolicy()
        self._health_interval = health_interval
        self._health_timeout = health_timeout
        self._process: GuardedProcess | None = None
        self._client: httpx.AsyncClient | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._healthy = asyncio.Event()
        self._weights: tuple[str | os.PathLike[str], str] | None = None
        self._reloading = asyncio.Lock()
        self._num_restarts = 0
        self._log_start = 0

    @property
    def url(self) -> str:
        """The server's root: `http://127.0.0.1:8000`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    @property
    def base_url(self) -> str:
        """The root of OpenAI's API: `http://127.0.0.1:8000/v1`."""
        return f"{self.url}/v1"

    @property
    def model(self) -> str:
        """The model's name in requests."""
        return self._launch.served_name

    @property
    def log_file(self) -> Path | None:
        """Where the server's output goes; None before it was started."""
        return self._log_file

    @property
    def pid(self) -> int | None:
        """The server's process id; None while there is none."""
        process = self._process
        return None if process is None or process.ended else process.pid

    @property
    def healthy(self) -> bool:
        """Whether it answered the last look at its health."""
        return self._healthy.is_set()

    @property
    def num_restarts(self) -> int:
        """How often it was started again."""
        return self._num_restarts

    async def __aenter__(self) -> Self:
        if self._supervisor is not None:
            raise errors.InvalidInputError(
                "This ModelServer was started before; make a new one for each `async with`."
            )
        self._port = ports.claim(self._host, self._port)
        self._launch.command(self._host, self._port)  # What is wrong with it is said first.
        if self._log_file is None:
            handle, name = tempfile.mkstemp(prefix="webtraj-server-", suffix=".log")
            os.close(handle)
            self._log_file = Path(name)
        else:
            self._log_file.parent.mkdir(parents=True, exist_ok=True)
        # A server on this machine is not to be looked for behind a proxy.
        self._client = httpx.AsyncClient(
            base_url=self.url, trust_env=False, timeout=self._health_timeout
        )
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise
        self._supervisor = asyncio.create_task(self._supervise())
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._supervisor is not None
        self._supervisor.cancel()
        await asyncio.wait([self._supervisor])
        if not self._supervisor.cancelled():
            self._supervisor.exception()  # Who wanted to know has called `wait`.
        await self._stop()

    async def wait(self) -> None:
        """Waits until the server is given up.

        Raises:
            ModelUnavailableError: It died more often than it may.
        """
        assert self._supervisor is not None
        await asyncio.shield(self._supervisor)

    async def wait_healthy(self, timeout: float | None = None) -> None:
        """Waits until the server can be used: at once, unless it is being started again.

        Raises:
            ModelUnavailableError: It was given up, or it took longer than `timeout` seconds.
        """
        assert self._supervisor is not None
        healthy = asyncio.ensure_future(self._healthy.wait())
        try:
            await asyncio.wait(
                [healthy, self._supervisor],
                timeout=timeout,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            healthy.cancel()
        if self._supervisor.done():
            await self._supervisor
        if not self._healthy.is_set():
            raise errors.ModelUnavailableError(
                f"The model server was not healthy again within {timeout:g} s.{self._tail()}"
            )

    async def weight_version(self) -> str:
        """Returns the version of the weights that it answers with; `default` for its first ones.

        Raises:
            ModelRefusedError: The server does not tell.
            ModelUnavailableError: It does not answer.
        """
        assert self._client is not None
        return await weights.read_version(self._client)

    async def reload_weights(self, path: str | os.PathLike[str], version: str) -> None:
        """Replaces the weights while the server runs; requests wait meanwhile.

        If that fails, the server is started again, with the weights that it had.

        Args:
            path: The folder of a saved model of the same architecture.
            version: What these weights are called from now on.

        Raises:
            InvalidInputError: The folder has no weights, or the version is empty or the base's.
            ModelRefusedError: The server does not take them.
            ModelUnavailableError: The server is away.
        """
        assert self._client is not None
        weights.check(path, version)
        async with self._reloading:
            await self.wait_healthy(self._start_timeout)
            try:
                await weights.reload(self._client, path, version, timeout=self._start_timeout)
            except BaseException:
                # It is paused, or has half of them.
                self._healthy.clear()
                if self._process is not None:
                    self._process.kill()
                raise
            self._weights = (path, version)

    async def _start(self) -> None:
        assert self._client is not None
        assert self._log_file is not None
        if self._process is not None:
            await self._process.stop()
        self._log_start = self._log_file.stat().st_size if self._log_file.exists() else 0
        self._process = GuardedProcess(
            self._launch.command(self._host, self._port),
            variables={**os.environ, **self._launch.variables()},
            log_file=self._log_file,
            patience=self._patience,
        )
        try:
            async with asyncio.timeout(self._start_timeout):
                await self._until_ready(self._process)
                if self._weights is not None:
                    await weights.reload(self._client, *self._weights, timeout=self._start_timeout)
        except TimeoutError:
            self._keep_log = True
            raise errors.ModelUnavailableError(
                f"The model server was not healthy within {self._start_timeout:g} s of its start. "
                f"Give it longer by start_timeout, or see why.{self._tail()}"
            ) from None
        self._healthy.set()

    async def _until_ready(self, process: GuardedProcess) -> None:
        while not await self._ready():
            if process.ended:
                self._keep_log = True
                raise errors.ModelUnavailableError(
                    f"The model server ended with exit status {await process.wait()} before it was "
                    f"healthy.{self._tail()}"
                )
            await asyncio.sleep(_POLL_INTERVAL)

    async def _ready(self) -> bool:
        """Whether it answers, and is the one that we started."""
        assert self._client is not None
        with contextlib.suppress(httpx.HTTPError, ValueError, KeyError, TypeError):
            if (await self._client.get("/health")).is_success:
                listed = (await self._client.get("/v1/models")).json()
                return any(model["id"] == self.model for model in listed["data"])
        return False

    async def _supervise(self) -> None:
        try:
            await self._keep_alive()
        except Exception as error:
            _logger.error("The model server is given up. %s", error)
            raise

    async def _keep_alive(self) -> None:
        in_a_row = 0
        while True:
            healthy_since = time.monotonic()
            why = await self._until_dead()
            self._healthy.clear()
            self._keep_log = True
            if time.monotonic() - healthy_since >= self._restarts.stable_after:
                in_a_row = 0
            while True:
                if in_a_row >= self._restarts.limit:
                    raise errors.ModelUnavailableError(
                        f"The model server {why}, and was started again {in_a_row} times in a row "
                        f"already.{self._tail()}"
                    )
                _logger.warning("The model server %s and is started again.%s", why, self._tail())
                await asyncio.sleep(self._restarts.pause(in_a_row))
                in_a_row += 1
                self._num_restarts += 1
                try:
                    await self._start()
                    break
                except errors.ModelError as error:
                    why = f"did not start again ({str(error).partition('.')[0]})"

    async def _until_dead(self) -> str:
        """Waits until the server is dead or as good as dead; returns which, for a message."""
        assert self._process is not None
        last_answer = time.monotonic()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._health_interval):
                    return f"ended with exit status {await self._process.wait()}"
            if await self._alive():
                last_answer = time.monotonic()
            elif time.monotonic() - last_answer >= self._health_timeout:
                return f"has not answered for {self._health_timeout:g} s"

    async def _alive(self) -> bool:
        assert self._client is not None
        with contextlib.suppress(httpx.HTTPError):
            return (await self._client.get("/health")).is_success
        return False

    async def _stop(self) -> None:
        self._healthy.clear()
        if self._client is not None:
            await self._client.aclose()
        if self._process is not None:
            await self._process.stop()
        if not self._keep_log and self._log_file is not None:
            self._log_file.unlink(missing_ok=True)

    def _tail(self) -> str:
        assert self._log_file is not None
        return (
            f" The end of its log, {self._log_file}:\n{logs.tail(self._log_file, self._log_start)}"
        )
