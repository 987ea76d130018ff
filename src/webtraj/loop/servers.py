"""Who answers as the policy: the seam between the loop and model servers.

The loop says which weights it wants played; what has to be done for that, a server started, given
weights, or nothing, is done here.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from webtraj import errors
from webtraj.closing import AsyncClosing
from webtraj.loop.outputs import Output
from webtraj.loop.phases import Policy
from webtraj.loop.places import Places, version_name
from webtraj.loop.sections import LoopConfig, ServeConfig
from webtraj.serving import ModelServer, VllmLaunch

__all__ = ["PolicyServer", "RunCommand", "open_server"]

RunCommand = Callable[[Sequence[str], int], Awaitable[None]]
"""Runs a command that updates weights to a version; raises if it fails."""


class PolicyServer(Protocol):
    """Serves the weights that play."""

    async def ensure(self, version: int, weights: str) -> Policy:
        """Sees to it that weights are served, and returns who plays.

        Whoever calls it waits until nobody plays with other weights.

        Args:
            version: The iteration that they come from; 0 for what the loop began with.
            weights: Their folder, or the model's name on the Hub.

        Raises:
            InvalidInputError: There are no such weights.
            ModelError: The server does not start, or does not take them.
        """

    async def rest(self) -> None:
        """Lets go of what others may need while nobody plays."""

    async def aclose(self) -> None:
        """Ends the server, if it is ours. Idempotent."""


def open_server(config: LoopConfig, run_command: RunCommand) -> PolicyServer:
    """Returns who serves a loop's weights; nothing is started before it is needed."""
    made: dict[str, Callable[[], PolicyServer]] = {
        "none": _NoServer,
        "external": lambda: _ExternalServer(config.serve, run_command),
        "vllm": lambda: _OwnServer(config.serve, Places(config).server_log),
    }
    return made[config.serve.engine]()


class _NoServer(AsyncClosing):
    """There is none: the agent finds the model by its folder."""

    async def ensure(self, version: int, weights: str) -> Policy:
        return Policy(version=version, weights=weights, model=weights)

    async def rest(self) -> None:
        pass

    async def aclose(self) -> None:
        pass


class _ExternalServer(AsyncClosing):
    """One that is there, and is given weights by a command."""

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

    async def rest(self) -> None:
        pass

    async def aclose(self) -> None:
        pass


class _OwnServer(AsyncClosing):
    """vLLM, run by the loop."""

    def __init__(self, config: ServeConfig, log: Path) -> None:
        self._config, self._log = config, log
        self._server: ModelServer | None = None
        self._version: int | None = None
        self._port = config.port

    async def ensure(self, version: int, weights: str) -> Policy:
        if version and (wrong := Output(weights, "model").missing):
            raise errors.InvalidInputError(
                f"The weights of iteration {version} are to play, and {weights!r} {wrong}."
            )
        if self._server is not None and self._version != version:
            if self._config.update == "reload" and version:
                await self._server.reload_weights(weights, version_name(version))
                self._version = version
            else:
                await self.aclose()
        if self._server is None:
            await self._start(version, weights)
        assert self._server is not None
        await self._server.wait_healthy(self._config.start_timeout)
        return Policy(
            version=version,
            weights=weights,
            model=self._server.model,
            urls=(self._server.base_url,),
        )

    async def rest(self) -> None:
        if self._config.while_training == "stop":
            await self.aclose()

    async def aclose(self) -> None:
        server, self._server, self._version = self._server, None, None
        if server is not None:
            await server.__aexit__(None, None, None)

    async def _start(self, version: int, weights: str) -> None:
        reload = self._config.update == "reload"
        # A server of restarts tells its version by its name, as its weights never change.
        name = self._config.name if reload else f"{self._config.name}-{version_name(version)}"
        server = ModelServer(
            _launch(self._config, weights, name),
            host=self._config.host,
            port=self._port,
            log_file=self._log,
            start_timeout=self._config.start_timeout,
        )
        await server.__aenter__()
        self._server = server
        if reload and version:  # So that it calls the weights it has by their version.
            await server.reload_weights(weights, version_name(version))
        self._version = version


def _launch(config: ServeConfig, weights: str, name: str) -> VllmLaunch:
    options: dict[str, Any] = dict(config.options)
    known = {field.name for field in dataclasses.fields(VllmLaunch)} - {"model", "name"}
    for option in options:
        if option not in known:
            from webtraj.named import nearest

            raise errors.InvalidInputError(
                f"serve.options has {option!r:.60}, which is no option of vLLM's launch. "
                f"{nearest(option, known)}There are {', '.join(sorted(known))}."
            )
    if config.update == "reload":
        options["dev_mode"] = True
    return VllmLaunch(model=os.fspath(weights), name=name, **options)


def _update_command(given: Sequence[str], policy: Policy) -> list[str]:
    from webtraj.loop import placeholders

    filled: list[str] = placeholders.fill(
        list(given),
        {
            "weights": policy.weights,
            "version": version_name(policy.version),
            "base_url": policy.urls[0],
            "served_model": policy.model,
        },
    )
    return filled
