"""Repeated weight updates of a running server, and the staleness of calls."""

from __future__ import annotations

import dataclasses
import os
import typing
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, Protocol

from webtraj import errors
from webtraj.serving.control import (
    BASE_VERSION,
    DEFAULT_HOLD,
    LoadAdapter,
    ReadWeights,
    WeightChange,
)
from webtraj.serving.server import ModelServer
from webtraj.serving.vllm import VllmLaunch

if TYPE_CHECKING:
    from webtraj.trajectory import ModelCall

__all__ = [
    "Staleness",
    "UpdateWay",
    "VersionHistory",
    "WeightUpdater",
    "make_updater",
    "prepare_launch",
]

# Three ways to update a running server's weights.
#
# | way | what is given | requests meanwhile | needs |
# |---|---|---|---|
# | `reload` | a whole model | wait while it is read | `dev_mode` |
# | `lora` | a LoRA adapter | wait, for milliseconds | `dev_mode`, `runtime_lora` |
# | `restart` | a whole model, of any architecture | fail, and are retried | nothing |
#
# In all of them, each reply comes from one version of the weights. The record of each call names it
# (`ModelCall.policy_version`, and for adapters `ModelCall.model`). After a failure, the server has
# its previous weights.

UpdateWay = Literal["reload", "lora", "restart"]
"""A way to update a server's weights."""

_Path = str | os.PathLike[str]


class WeightUpdater(Protocol):
    """Updates a server's weights."""

    @property
    def model(self) -> str:
        """The name for requests from now on. The first adapter changes it."""

    def label(self, version: str) -> str:
        """Return the label of a version in records: `ModelCall.policy_version`."""

    async def update(self, path: str | os.PathLike[str], version: str) -> None:
        """Update the server's weights; return once it answers with them.

        Args:
            path: The folder of the weights, visible to the server. Keep it, because a restarted
                server reads it again.
            version: A unique name of these weights.

        Raises:
            InvalidInputError: The weights or the version are visibly wrong.
            ModelRefusedError: The server rejects the weights, and keeps its previous ones.
            ModelUnavailableError: The server is unavailable, or does not start with them.
        """


def prepare_launch(way: UpdateWay, launch: VllmLaunch, *, lora_rank: int = 16) -> VllmLaunch:
    """Return a launch with the settings that a way of updating needs.

    Args:
        way: How the server will get new weights.
        launch: The launch without updates.
        lora_rank: The highest rank of an adapter, if the launch does not set it.

    Raises:
        InvalidInputError: There is no such way.
    """
    _check_way(way)
    if way == "reload":
        return dataclasses.replace(launch, dev_mode=True)
    if way == "lora":
        rank = launch.max_lora_rank or lora_rank
        return dataclasses.replace(launch, dev_mode=True, runtime_lora=True, max_lora_rank=rank)
    return launch


def make_updater(
    way: UpdateWay, server: ModelServer, *, adapter: str = "policy-lora", hold: float = DEFAULT_HOLD
) -> WeightUpdater:
    """Return an updater for a server's weights.

    Args:
        way: How to update.
        server: The server, entered or not.
        adapter: The adapter's name, for `lora`.
        hold: Seconds that requests wait after the new weights are named, so that no record names
            the old ones. Use the clients' `version_interval`, or 0 if there are no requests
            meanwhile.

    Raises:
        InvalidInputError: There is no such way, or the server was not launched for it.
    """
    _check_way(way)
    launch = server.launch
    if isinstance(launch, VllmLaunch):
        needed = prepare_launch(way, launch)
        for name in ("dev_mode", "runtime_lora"):
            if getattr(needed, name) and not getattr(launch, name):
                raise errors.InvalidInputError(
                    f"To update weights by {way!r}, the server must be launched with {name}=True; "
                    "see `prepare_launch`."
                )
    if way == "reload":
        return _InPlace(server, lambda path, name: ReadWeights(path, name, hold))
    if way == "lora":
        return _InPlace(server, lambda path, name: LoadAdapter(adapter, path, name, hold), adapter)
    return _Restart(server)


class _InPlace:
    """Makes a running server read new weights: a whole model, or an adapter."""

    def __init__(
        self, server: ModelServer, change: Callable[[_Path, str], WeightChange], adapter: str = ""
    ) -> None:
        self._server, self._change, self._adapter = server, change, adapter
        self._loaded = False

    @property
    def model(self) -> str:
        return self._adapter if self._adapter and self._loaded else self._server.model

    def label(self, version: str) -> str:
        return self._change("", version).label

    async def update(self, path: _Path, version: str) -> None:
        await self._server.change_weights(self._change(path, version))
        self._loaded = True
        await _confirm(self._server, self.label(version))


class _Restart:
    """The server is restarted with the new model."""

    def __init__(self, server: ModelServer) -> None:
        self._server = server

    @property
    def model(self) -> str:
        return self._server.model

    def label(self, version: str) -> str:
        return version

    async def update(self, path: str | os.PathLike[str], version: str) -> None:
        ReadWeights(path, version).check()
        await self._server.restart(self._server.launch.with_weights(path, version))
        if self._server.healthy:  # Otherwise it rests, and starts with them afterwards.
            await _confirm(self._server, self.label(version))


async def _confirm(server: ModelServer, label: str) -> None:
    answered = await server.weight_version()
    if answered != label:
        raise errors.ModelRefusedError(
            f"{server.url} was given the weights {label!r}, but reports {answered!r}."
            + (" It may have died since." if answered == BASE_VERSION else "")
        )


def _check_way(way: str) -> None:
    known = typing.get_args(UpdateWay)
    if way not in known:
        raise errors.InvalidInputError(
            f"Unknown way to update weights {way!r}; expected one of {', '.join(known)}."
        )


# Staleness: how many weight updates a call is behind. On-policy learning bounds it.

_SPAN = ".."  # See `webtraj.agents.models.client.span`.


@dataclasses.dataclass(frozen=True, slots=True)
class Staleness:
    """Age of the weights behind a call."""

    version: str
    """The version, or the older of two if the weights changed during the call."""
    behind: int | None
    """Number of later updates; None if the version is unknown."""


class VersionHistory:
    """The versions of a policy's weights, in order.

    >>> history = VersionHistory(["default", "round-1", "round-2"])
    >>> history.of("round-1")
    Staleness(version='round-1', behind=1)
    >>> history.of("round-1..round-2", trained="round-1").behind
    0
    >>> history.of("somebody else's").behind is None
    True

    Args:
        labels: The labels in records, from `WeightUpdater.label`; the oldest first.

    Raises:
        InvalidInputError: A label is repeated, empty, or contains "..".
    """

    def __init__(self, labels: Iterable[str] = ()) -> None:
        self._positions: dict[str, int] = {}
        for label in labels:
            self.add(label)

    @property
    def labels(self) -> tuple[str, ...]:
        """The versions, the oldest first."""
        return tuple(self._positions)

    def add(self, label: str) -> None:
        """Add the newest version.

        Raises:
            InvalidInputError: The label is repeated, empty, or contains "..".
        """
        if not label or _SPAN in label or label in self._positions:
            raise errors.InvalidInputError(
                f"{label!r} cannot be the next version of the weights; give one that is not empty, "
                f"does not contain {_SPAN!r}, and is not in use."
            )
        self._positions[label] = len(self._positions)

    def of(self, call: ModelCall | str, *, trained: str | None = None) -> Staleness:
        """Return a call's staleness.

        Args:
            call: The call, or its `policy_version`.
            trained: The version whose training uses the call. Default: the newest. A call of a
                newer version has staleness 0.

        Raises:
            InvalidInputError: `trained` is not in this history.
        """
        if trained is not None and trained not in self._positions:
            raise errors.InvalidInputError(
                f"Unknown version of the weights {trained!r:.100}; expected one of "
                f"{', '.join(map(repr, self._positions)) or 'none'}."
            )
        now = len(self._positions) - 1 if trained is None else self._positions[trained]
        recorded = call if isinstance(call, str) else call.policy_version
        ends = recorded.split(_SPAN)
        positions = [self._positions.get(end) for end in ends]
        known = [position for position in positions if position is not None]
        if len(known) < len(ends):
            return Staleness(recorded, None)
        oldest = min(known)
        return Staleness(self.labels[oldest], max(0, now - oldest))
