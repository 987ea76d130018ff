"""A model server under supervision: started, awaited, started again if it dies, ended."""

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
        """The server's root: `http://127.0.0.1:8000`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    @property
    def base_url(self) -> str:
        """The root of OpenAI's API: `http://127.0.0.1:8000/v1`."""
        return f"{self.url}/v1"

    @property
    def launch(self) -> ServerLaunch:
        """What is started when it has to be started again."""
        return self._launch if self._supervisor is None else self._supervisor.launch

    @property
    def model(self) -> str:
        """The model's name in requests."""
        return self.launch.served_name

    @property
    def log_file(self) -> Path | None:
        """Where the server's output goes; None before it was started."""
        return self._log.path

    @property
    def pid(self) -> int | None:
        """The server's process id; None while there is none."""
        process = None if self._supervisor is None else self._supervisor.process
        return None if process is None or process.ended else process.pid

    @property
    def healthy(self) -> bool:
        """Whether it answered the last look at its health."""
        return self._supervisor is not None and self._supervisor.healthy.is_set()

    @property
    def num_restarts(self) -> int:
        """How often it was started again because it had died."""
        return 0 if self._supervisor is None else self._supervisor.num_restarts

    async def __aenter__(self) -> Self:
        if self._supervisor is not None:
            raise errors.InvalidInputError(
                "This ModelServer was started before; make a new one for each `async with`."
            )
        self._port = process.claim(self._host, self._port)
        self._launch.command(self._host, self._port)  # What is wrong with it is said first.
        self._log.open()
        # A server on this machine is not to be looked for behind a proxy.
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
        """Waits until the server is given up.

        Raises:
            ModelUnavailableError: It died more often than it may.
        """
        await self._running.wait()

    async def wait_healthy(self, timeout: float | None = None) -> None:
        """Waits until the server can be used: at once, unless it is being started again.

        Raises:
            ModelUnavailableError: It was given up, or it took longer than `timeout` seconds.
        """
        await self._running.wait_healthy(timeout)

    async def weight_version(self) -> str:
        """Returns the version of the weights that it answers with; `default` for its first ones.

        Raises:
            ModelRefusedError: The server does not tell.
            ModelUnavailableError: It does not answer.
        """
        return await self._running.control.read_version()

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
        await self.change_weights(ReadWeights(path, version))

    async def change_weights(self, change: WeightChange) -> None:
        """Has the running server take other weights, as `reload_weights` does.

        A LoRA adapter that is refused leaves the one before it, and the server runs on.

        Raises:
            InvalidInputError: What is wrong with them can be seen, or the server rests.
            ModelRefusedError: The server does not take them.
            ModelUnavailableError: The server is away.
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
                supervisor.kill()  # It is paused, or has half of them.
                raise
            supervisor.change = change

    async def restart(self, launch: ServerLaunch) -> None:
        """Ends the server and starts another at the same address; requests fail meanwhile.

        Clients try those again. If the other does not start, the one before is started again, with
        the weights that it had. While the server rests by `stop`, this says what is started when
        the rest is over, and what comes of it is raised there.

        Raises:
            InvalidInputError: A setting is wrong, or the server rests otherwise.
            ModelUnavailableError: It does not start.
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
        """Leaves memory and processors to others, a trainer for example, during the block.

        Replies under way are finished first. The server is healthy again, with the same weights,
        when the block is left. If it dies meanwhile, it is not started before that.

        Args:
            how: See `webtraj.serving.vllm.Rest`.

        Raises:
            InvalidInputError: The server cannot rest like this, or rests already. By entering.
            ModelRefusedError: The server does not do it. By entering.
            ModelUnavailableError: It is away; or, by leaving, it does not come back.
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
                    supervisor.kill()  # Nobody knows whether it sleeps.
                    raise
                yield
            finally:
                self._rest = None
                await supervisor.get_up()
                if supervisor.healthy.is_set():
                    await self._wake_up(how)
                await supervisor.wait_healthy(self._watch.start_timeout)

    async def _wake_up(self, how: vllm_lib.Rest) -> None:
        """Wakes a server that rested; one that does not wake up is started again."""
        try:
            await vllm_lib.end(how, self._running.control)
        except errors.ModelError as error:
            _logger.warning("The model server is started again, for it does not wake up. %s", error)
            self._running.kill()
        except BaseException:
            self._running.kill()
            raise

    @property
    def _running(self) -> Supervisor:
        if self._supervisor is None:
            raise errors.InvalidInputError("This ModelServer was not entered; use `async with`.")
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
