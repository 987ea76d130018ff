"""Giving a running server new weights again and again; and how far behind them a call is."""

from __future__ import annotations

import dataclasses
import os
import typing
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, Protocol

from webtraj import errors
from webtraj.serving.control import BASE_VERSION, LoadAdapter, ReadWeights
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

# Giving a running server new weights again and again, in one of three ways.
#
# | way | what is given | requests meanwhile | needs |
# |---|---|---|---|
# | `reload` | a whole model | wait, for as long as reading takes | `dev_mode` |
# | `lora` | a LoRA adapter | wait, for milliseconds | `dev_mode`, `runtime_lora` |
# | `restart` | a whole model, also of another architecture | fail, and are tried again | nothing |
#
# In all of them each reply is of one version of the weights, the record of each call names it
# (`ModelCall.policy_version`, and of adapters `ModelCall.model`), and after a failure the server
# has the weights that it had.

UpdateWay = Literal["reload", "lora", "restart"]
"""How a server gets new weights."""

DEFAULT_HOLD = 1.0
"""Seconds for which clients share a version by default (`ClientOptions.version_interval`)."""


class WeightUpdater(Protocol):
    """Gives a server new weights."""

    @property
    def model(self) -> str:
        """The name that requests are to use from now on. The first adapter changes it."""

    def label(self, version: str) -> str:
        """Returns what records call the weights of a version: `ModelCall.policy_version`."""

    async def update(self, path: str | os.PathLike[str], version: str) -> None:
        """Has the server answer with other weights; returns when it does.

        Args:
            path: Their folder, which the server sees. It has to stay: a server that dies is given
                them again.
            version: What they are called; no two weights may be called the same.

        Raises:
            InvalidInputError: What is wrong with them can be seen before.
            ModelRefusedError: The server does not take them, and has those that it had.
            ModelUnavailableError: The server is away, or does not start with them.
        """


def prepare_launch(way: UpdateWay, launch: VllmLaunch, *, lora_rank: int = 16) -> VllmLaunch:
    """Returns a launch with what a way of updating needs.

    Args:
        way: How it will get new weights.
        launch: How the server would be started.
        lora_rank: The highest rank of an adapter, where the launch does not say.

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
    """Returns what gives a server new weights.

    Args:
        way: How.
        server: The server, entered or not.
        adapter: The name of the adapter, of the way `lora`.
        hold: Seconds that requests wait once the new weights are named, so that no record names
            those before: the clients' `version_interval`. 0 if nobody asks during an update.

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
                    f"A server gets new weights by {way!r} if it was launched with {name}=True; "
                    "see `prepare_launch`."
                )
    made: dict[UpdateWay, Callable[[], WeightUpdater]] = {
        "reload": lambda: _Reload(server, hold),
        "lora": lambda: _Lora(server, adapter, hold),
        "restart": lambda: _Restart(server),
    }
    return made[way]()


class _Reload:
    """The server reads a whole model in the place of the one that it has."""

    def __init__(self, server: ModelServer, hold: float) -> None:
        self._server, self._hold = server, hold

    @property
    def model(self) -> str:
        return self._server.model

    def label(self, version: str) -> str:
        return version

    async def update(self, path: str | os.PathLike[str], version: str) -> None:
        await self._server.change_weights(ReadWeights(path, version, self._hold))
        await _confirm(self._server, self.label(version))


class _Lora:
    """The server reads an adapter in the place of the one that it has."""

    def __init__(self, server: ModelServer, adapter: str, hold: float) -> None:
        self._server, self._adapter, self._hold = server, adapter, hold
        self._loaded = False

    @property
    def model(self) -> str:
        return self._adapter if self._loaded else self._server.model

    def label(self, version: str) -> str:
        return LoadAdapter(self._adapter, "", version).label

    async def update(self, path: str | os.PathLike[str], version: str) -> None:
        await self._server.change_weights(LoadAdapter(self._adapter, path, version, self._hold))
        self._loaded = True
        await _confirm(self._server, self.label(version))


class _Restart:
    """The server is ended, and another is started with the model."""

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
        if self._server.healthy:  # Else it rests, and starts with them afterwards.
            await _confirm(self._server, self.label(version))


async def _confirm(server: ModelServer, label: str) -> None:
    told = await server.weight_version()
    if told != label:
        raise errors.ModelRefusedError(
            f"{server.url} was given the weights {label!r}, and says that it answers with {told!r}."
            + (" It may have died since." if told == BASE_VERSION else "")
        )


def _check_way(way: str) -> None:
    known = typing.get_args(UpdateWay)
    if way not in known:
        raise errors.InvalidInputError(
            f"A server does not get new weights by {way!r}; give one of {', '.join(known)}."
        )


# How many updates of the weights a call is behind: on-policy learning bounds it.

_SPAN = ".."  # See `webtraj.agents.models.client.span`.


@dataclasses.dataclass(frozen=True, slots=True)
class Staleness:
    """How old the weights behind a call are."""

    version: str
    """The version, or the older one of two, if the weights changed during the call."""
    behind: int | None
    """How many updates came after it; None if the version is not known."""


class VersionHistory:
    """The versions of a policy's weights in the order in which they were made.

    >>> history = VersionHistory(["default", "round-1", "round-2"])
    >>> history.of("round-1")
    Staleness(version='round-1', behind=1)
    >>> history.of("round-1..round-2", trained="round-1").behind
    0
    >>> history.of("somebody else's").behind is None
    True

    Args:
        labels: What records call them, as `WeightUpdater.label` says; the oldest first.

    Raises:
        InvalidInputError: One stands there twice, is empty, or cannot be told from two.
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
        """Adds the version after all others.

        Raises:
            InvalidInputError: It is there already, is empty, or cannot be told from two.
        """
        if not label or _SPAN in label or label in self._positions:
            raise errors.InvalidInputError(
                f"{label!r} cannot be the next version of the weights; give one that is not empty, "
                f"has no {_SPAN!r}, and is none of those before."
            )
        self._positions[label] = len(self._positions)

    def of(self, call: ModelCall | str, *, trained: str | None = None) -> Staleness:
        """Returns how stale a call is.

        Args:
            call: The call, or its `policy_version`.
            trained: The version whose training it is used for; by default the newest one. A call
                of a newer one is behind by 0.

        Raises:
            InvalidInputError: `trained` is no version of this history.
        """
        if trained is not None and trained not in self._positions:
            raise errors.InvalidInputError(
                f"{trained!r:.100} is no version of the weights; there are "
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

    def stalest(self, calls: Iterable[ModelCall], *, trained: str | None = None) -> int | None:
        """Returns how far behind the stalest of some calls is; None if that is not known of one."""
        behind = [self.of(call, trained=trained).behind for call in calls]
        known = [count for count in behind if count is not None]
        return max(known, default=0) if len(known) == len(behind) else None
