"""The policy's server: starts it and updates its weights as the loop needs.

The loop names the weights that should play. Depending on the policy, this module starts a server,
updates its weights, or does nothing.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from webtraj import errors
from webtraj.loop import configuration, process
from webtraj.loop.configuration import LoopConfig, ServeConfig
from webtraj.loop.phases import Output, Policy
from webtraj.loop.places import Places, version_name
from webtraj.serving import ModelServer, VllmLaunch, interpreters
from webtraj.serving.weight_updater import WeightUpdater, make_updater, prepare_launch
from webtraj.settings.named import nearest
from webtraj.store import files
from webtraj.store.closeable import AsyncClosing

__all__ = ["PolicyServer", "RunCommand", "check_programs", "open_server"]

_UPDATES = 3
"""Attempts to update a server's weights if it dies meanwhile."""

RunCommand = Callable[[Sequence[str], int], Awaitable[None]]
"""Runs a command that updates the weights to a version; raises if it fails."""


class PolicyServer(AsyncClosing):
    """Serves the weights that play."""

    @abc.abstractmethod
    async def ensure(self, version: int, weights: str) -> Policy:
        """Make sure that weights are served, and return the policy.

        The caller must ensure that nobody plays with other weights meanwhile.

        Args:
            version: The iteration of the weights; 0 for the initial ones.
            weights: Their folder, or a model's name on the Hub.

        Raises:
            InvalidInputError: The weights do not exist.
            ModelError: The server does not start, or rejects the weights.
        """

    async def rest(self) -> None:
        """Release memory that a training may need."""

    async def aclose(self) -> None:
        """End the server if the loop started it. Idempotent."""


def open_server(config: LoopConfig, run_command: RunCommand) -> PolicyServer:
    """Return the server of a loop's weights. Nothing starts before it is needed."""
    match config.serve.engine:
        case "vllm":
            return _OwnServer(config.serve, Places(config))
        case "external":
            return _ExternalServer(config.serve, run_command)
        case _:
            return _NoServer()


def check_programs(config: LoopConfig, only: str) -> None:
    """Check that the programs of the server and of LLaMA-Factory are installed.

    Args:
        config: The loop's configuration.
        only: Which phases run: those of `rollout`, of `update`, or of `both`.

    Raises:
        InvalidInputError: An option of the server is wrong.
        MissingDependencyError: A program is not installed.
    """
    serve, train, places = config.serve, config.train, Places(config)
    if serve.engine == "vllm" and only != "update":
        # A phase may still have to make the model; any name of the Hub's kind passes.
        launch = _launch(serve, "any/model", "", lock=places.lock("server"))
        launch.command(serve.host, serve.port)
    if train.llamafactory is not None and train.command is None and only != "rollout":
        interpreters.require_python(interpreters.LLAMAFACTORY, train.llamafactory.python)


class _NoServer(PolicyServer):
    """No server: the agent loads the model from its folder."""

    async def ensure(self, version: int, weights: str) -> Policy:
        return Policy(version=version, weights=weights, model=weights)


class _ExternalServer(PolicyServer):
    """An external server, whose weights are updated by a command."""

    def __init__(self, config: ServeConfig, run_command: RunCommand) -> None:
        self._config, self._run = config, run_command
        self._version: int | None = None

    async def ensure(self, version: int, weights: str) -> Policy:
        config = self._config
        assert config.url is not None
        policy = Policy(version=version, weights=weights, model=config.name, urls=(config.url,))
        if config.update_command is not None and self._version != version:
            self._version = None
            await self._run(_update_command(config.update_command, policy), version)
            self._version = version
        return policy


class _OwnServer(PolicyServer):
    """vLLM, run by the loop."""

    def __init__(self, config: ServeConfig, places: Places) -> None:
        self._config, self._places = config, places
        self._server: ModelServer | None = None
        self._updater: WeightUpdater | None = None
        self._version: int | None = None
        self._rest = contextlib.AsyncExitStack()

    async def ensure(self, version: int, weights: str) -> Policy:
        if version and (wrong := Output(weights, "model").missing):
            raise errors.InvalidInputError(
                f"Cannot play with the weights of iteration {version}: {weights!r} {wrong}."
            )
        await self._rest.aclose()
        if self._version is not None and version == 0 != self._version:
            await self.aclose()  # The initial weights have no version to return to.
        if self._server is None:
            await self._start(version, weights)
        assert self._server is not None
        assert self._updater is not None
        if self._version != version:
            await self._update(version, weights)
        await self._server.wait_healthy(self._config.start_timeout)
        return Policy(
            version=version,
            weights=weights,
            model=self._updater.model,
            urls=(self._server.base_url,),
        )

    async def _update(self, version: int, weights: str) -> None:
        assert self._server is not None
        assert self._updater is not None
        given = self._find_weights(version, weights)
        for left in reversed(range(_UPDATES)):
            try:
                await self._updater.update(given, version_name(version))
                break
            except errors.ModelUnavailableError:
                # A server that dies meanwhile is started again with its previous weights.
                if not left:
                    raise
                await self._server.wait_healthy(self._config.start_timeout)
        self._version = version

    async def rest(self) -> None:
        how = self._config.while_training
        if how == "stop":
            await self.aclose()
        elif how != "keep" and self._server is not None:
            await self._rest.aclose()
            await self._rest.enter_async_context(self._server.resting(how))

    async def aclose(self) -> None:
        server, self._server, self._updater, self._version = self._server, None, None, None
        try:
            await self._rest.aclose()
        finally:
            if server is not None:
                await server.__aexit__(None, None, None)

    async def _start(self, version: int, weights: str) -> None:
        config = self._config
        # Adapters need the loop's initial model; otherwise start with the weights themselves.
        adapters = config.update == "lora"
        base = self._places.weights(0) if adapters else weights
        lock = self._places.lock("server")
        files.make_folder(lock.parent)
        launch = _launch(
            config,
            base,
            "" if adapters or not version else version_name(version),
            lock=lock,
        )
        server = ModelServer(
            launch,
            host=config.host,
            port=config.port,
            log_file=self._places.server_log,
            start_timeout=config.start_timeout,
        )
        # Nobody plays while weights change, so requests need not be held.
        updater = make_updater(config.update, server, adapter=f"{config.name}-lora", hold=0.0)
        await server.__aenter__()
        self._server, self._updater = server, updater
        self._version = 0 if adapters else version

    def _find_weights(self, version: int, weights: str) -> str:
        """Return the folder for the server to load; for an adapter, the training's folder."""
        if self._config.update != "lora":
            return weights
        from webtraj.training.sft.checkpoints import find_latest

        checkpoint = find_latest(self._places.training_folder(version))
        if checkpoint is None or not (checkpoint.model / "adapter_config.json").is_file():
            raise errors.InvalidInputError(
                f"serve.update=lora needs an adapter, but the training of iteration {version} has "
                "none. Set train.method=lora, or serve.update=reload."
            )
        return str(checkpoint.model)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _HeldLaunch(VllmLaunch):
    """A launch that first waits for a killed loop's server, since a GPU has no room for both."""

    lock: Path
    """The file whose lock the server holds."""

    def command(self, host: str, port: int) -> Sequence[str]:
        """See `VllmLaunch.command`."""
        return process.with_lock(self.lock, VllmLaunch.command(self, host, port))


def _launch(config: ServeConfig, weights: str, version: str, *, lock: Path) -> VllmLaunch:
    known = {field.name for field in dataclasses.fields(VllmLaunch)} - {"model", "name", "version"}
    for option in config.options:
        if option not in known:
            raise errors.InvalidInputError(
                f"Unknown option {option!r:.60} in serve.options. {nearest(option, known)}"
                f"Expected one of {', '.join(sorted(known))}."
            )
    launch = _HeldLaunch(
        model=weights, name=config.name, version=version, lock=lock, **config.options
    )
    return prepare_launch(config.update, launch)


def _update_command(given: Sequence[str], policy: Policy) -> list[str]:
    filled: list[str] = configuration.fill(
        list(given),
        {
            "weights": policy.weights,
            "version": version_name(policy.version),
            "base_url": policy.urls[0],
            "served_model": policy.model,
            "python": sys.executable,
        },
    )
    return filled
