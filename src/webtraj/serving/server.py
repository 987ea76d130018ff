"""A supervised model server: started, restarted if it dies, and ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Self

from webtraj import errors
from webtraj.http import httpx
from webtraj.serving import process
from webtraj.serving import vllm as vllm_lib
from webtraj.serving.control import AdapterKeptError, ReadWeights, WeightChange
from webtraj.serving.process import RestartPolicy, ServerLaunch, ServerLog
from webtraj.serving.supervision import Supervisor, Watch

__all__ = ["ModelServer"]

_logger = logging.getLogger(__name__)


class ModelServer:
    """Runs a server for the length of its `async with` block.

        async with ModelServer(VllmLaunch(model="runs/policy")) as server:
            client = OpenAICompatibleClient(server.model, server.base_url)

    It is healthy when the block is entered. If it dies later or stops answering, it is started
    again at the same address with the same weights; a client that retries does not notice. No part
    of it outlives the block or our process, however that ends.

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
        self._launch = launch
        self._host = host
        self._port = port
        self._log = ServerLog(log_file)
        self._watch = Watch(
            start_timeout=start_timeout,
            patience=patience,
            restarts=restarts or RestartPolicy(),
            health_interval=health_interval,
            health_timeout=health_timeout,
        )
        self._client: httpx.AsyncClient | None = None
        self._supervisor: Supervisor | None = None
        self._changing = asyncio.Lock()
        self._rest: vllm_lib.Rest | None = None

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
    def launch(self) -> ServerLaunch:
        """The launch of the next start."""
        return self._launch if self._supervisor is None else self._supervisor.launch

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
        process = None if self._supervisor is None else self._supervisor.process
        return None if process is None or process.ended else process.pid

    @property
    def healthy(self) -> bool:
        """Whether it passed the last health check."""
        return self._supervisor is not None and self._supervisor.healthy.is_set()

    @property
    def num_restarts(self) -> int:
        """Number of restarts after a crash."""
        return 0 if self._supervisor is None else self._supervisor.num_restarts

    async def __aenter__(self) -> Self:
        if self._supervisor is not None:
            raise errors.InvalidInputError(
                "This ModelServer was already started. Make a new one for each `async with`."
            )
        self._port = process.claim(self._host, self._port)
        self._launch.command(self._host, self._port)  # Fail first if a setting is invalid.
        self._log.open()
        # A server on this machine is never behind a proxy.
        self._client = httpx.AsyncClient(
            base_url=self.url, trust_env=False, timeout=self._watch.health_timeout
        )
        self._supervisor = Supervisor(
            self._launch,
            host=self._host,
            port=self._port,
            client=self._client,
            log=self._log,
            watch=self._watch,
        )
        try:
            await self._supervisor.start()
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
        await self._running.wait()

    async def wait_healthy(self, timeout: float | None = None) -> None:
        """Wait until the server is ready: at once, unless it is being started again.

        Raises:
            ModelUnavailableError: The server was given up, or the timeout has passed.
        """
        await self._running.wait_healthy(timeout)

    async def weight_version(self) -> str:
        """Return the version of the current weights; `default` for the initial ones.

        Raises:
            ModelRefusedError: The server rejects the request.
            ModelUnavailableError: The server does not answer.
        """
        return await self._running.control.read_version()

    async def reload_weights(self, path: str | os.PathLike[str], version: str) -> None:
        """Replace the weights while the server runs; requests wait meanwhile.

        If that fails, the server is started again with its previous weights.

        Args:
            path: The folder of a saved model of the same architecture.
            version: The version of these weights.

        Raises:
            InvalidInputError: The folder has no weights, or the version is empty or the base's.
            ModelRefusedError: The server rejects the weights.
            ModelUnavailableError: The server is unavailable.
        """
        await self.change_weights(ReadWeights(path, version))

    async def change_weights(self, change: WeightChange) -> None:
        """Change the running server's weights, as `reload_weights` does.

        If a LoRA adapter is rejected, the previous one stays and the server continues.

        Raises:
            InvalidInputError: The weights are visibly wrong, or the server is resting.
            ModelRefusedError: The server rejects the weights.
            ModelUnavailableError: The server is unavailable.
        """
        change.check()
        supervisor = self._running
        self._refuse_while(vllm_lib.NO_CHANGES)
        async with self._changing:
            await supervisor.wait_healthy(self._watch.start_timeout)
            try:
                await change.apply(supervisor.control)
            except AdapterKeptError as kept:
                raise kept.error from kept
            except BaseException:
                supervisor.kill()  # It is paused, or half changed.
                raise
            supervisor.change = change

    async def restart(self, launch: ServerLaunch) -> None:
        """End the server and start another at the same address; requests fail meanwhile.

        Clients retry them. If the other does not start, the previous one is started again with its
        weights. While the server rests by `stop`, this only sets what to start when the rest ends,
        which then raises any error.

        Raises:
            InvalidInputError: A setting is invalid, or the server rests in another way.
            ModelUnavailableError: The new server does not start.
        """
        launch.command(self._host, self._port)
        supervisor = self._running
        if self._rest == "stop":
            await supervisor.replace(launch)
            return
        self._refuse_while(vllm_lib.NO_CHANGES)
        async with self._changing:
            await supervisor.wait_healthy(self._watch.start_timeout)
            await supervisor.replace(launch)

    @contextlib.asynccontextmanager
    async def resting(self, how: vllm_lib.Rest) -> AsyncIterator[None]:
        """Lend memory and processors to others, such as a trainer, during the block.

        Running replies are finished first. When the block is left, the server is healthy again
        with the same weights. If it dies meanwhile, it is not started before then.

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
            supervisor = self._running
            await supervisor.wait_healthy(self._watch.start_timeout)
            self._rest = how
            try:
                await supervisor.lie_down(end=how == "stop")
                try:
                    await vllm_lib.begin(how, supervisor.control)
                except BaseException:
                    supervisor.kill()  # It may or may not be asleep.
                    raise
                yield
            finally:
                self._rest = None
                await supervisor.get_up()
                if supervisor.healthy.is_set():
                    await self._wake_up(how)
                await supervisor.wait_healthy(self._watch.start_timeout)

    async def _wake_up(self, how: vllm_lib.Rest) -> None:
        """Wake a server that rested; restart it if it does not wake up."""
        try:
            await vllm_lib.end(how, self._running.control)
        except errors.ModelError as error:
            _logger.warning("Restarting the model server, which does not wake up. %s", error)
            self._running.kill()
        except BaseException:
            self._running.kill()
            raise

    @property
    def _running(self) -> Supervisor:
        if self._supervisor is None:
            raise errors.InvalidInputError("This ModelServer is not started; use `async with`.")
        return self._supervisor

    def _refuse_while(self, message: str) -> None:
        if self._rest is not None:
            raise errors.InvalidInputError(message.format(rest=self._rest))

    async def _stop(self) -> None:
        if self._supervisor is not None:
            await self._supervisor.stop()
        if self._client is not None:
            await self._client.aclose()
        self._log.close()
