"""Machines of a Ray cluster, with a node on each as an actor.

The actors are detached: Ray would kill the others when their driver fails, but they must end open
episodes in good order, as they do when the driver goes silent. Their names start with the run's id,
so that a resumed run finds earlier ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import secrets
import signal
import socket
import threading
import urllib.parse
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from webtraj import errors
from webtraj.net.hosts import is_address, is_loopback
from webtraj.rollouts.distributed.node import NodeLostError, NodeRunner, Place, Status, Work

__all__ = [
    "Cluster",
    "LOAD_WEIGHT",
    "NAMESPACE",
    "NodeSizing",
    "RayCluster",
    "connected",
    "import_ray",
    "use_own_token",
    "wants_token",
]

# How many episodes a machine plays at a time.

LOAD_WEIGHT = "rank_load_weight"
"""The custom Ray resource that sets a machine's weight:
`ray start --resources '{"rank_load_weight": 0.5}'`."""

_MIB = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodeSizing:
    """Resources that an episode takes on a machine."""

    cpus_per_episode: float = 0.25
    """Processors for each episode."""
    memory_per_episode: int = 256 * _MIB
    """Bytes for each episode, mostly for a browser context."""
    load_weights: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Weights by machine address. The default is a machine's own resource (`LOAD_WEIGHT`), or 1.
    A weight multiplies what processors and memory allow; 0 excludes the machine."""

    def __post_init__(self) -> None:
        if not self.cpus_per_episode > 0 or self.memory_per_episode < 1:
            raise errors.InvalidInputError(
                "cpus_per_episode must be more than 0, and memory_per_episode 1 byte or more; got "
                f"{self.cpus_per_episode} and {self.memory_per_episode}."
            )
        for address, weight in self.load_weights.items():
            if not weight >= 0:
                raise errors.InvalidInputError(
                    f"The load weight of {address!r} must be 0 or more; got {weight}."
                )

    def episodes(self, resources: Mapping[str, float], address: str = "") -> int:
        """Return how many episodes a machine plays at a time.

        >>> NodeSizing().episodes({"CPU": 8, "memory": 64 << 30})
        32
        >>> NodeSizing().episodes({"CPU": 8, "memory": 2 << 30, "rank_load_weight": 0.5})
        4
        >>> NodeSizing(load_weights={"10.0.0.7": 0}).episodes({"CPU": 8}, "10.0.0.7")
        0

        Args:
            resources: The machine's resources, by Ray's names; memory in bytes.
            address: The machine's address.
        """
        weight = self.load_weights.get(address, resources.get(LOAD_WEIGHT, 1.0))
        size = resources.get("CPU", 0.0) / self.cpus_per_episode
        if "memory" in resources:
            size = min(size, resources["memory"] / self.memory_per_episode)
        if weight == 0 or size == 0:
            return 0
        return max(int(size * weight), 1)

    def reserved(self, resources: Mapping[str, float], episodes: int) -> dict[str, float]:
        """Return the resources to reserve for that many episodes, at most what the machine has."""
        wanted = {
            "CPU": episodes * self.cpus_per_episode,
            "memory": float(episodes * self.memory_per_episode),
        }
        return {name: min(wanted[name], resources[name]) for name in wanted if name in resources}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A Ray cluster to play on. This process is the driver and must run on a machine of it."""

    address: str = "auto"
    """`auto`, or the address of its head node."""
    sizing: NodeSizing = dataclasses.field(default_factory=NodeSizing)
    """How many episodes a machine plays at a time."""
    setup: Callable[[], object] | None = None
    """Called first on each machine, for example to register presets."""
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """Environment variables to set on each machine. Unlike those of `runtime_env`, they are not
    logged."""
    runtime_env: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """Ray's runtime environment: modules and variables that machines need."""
    lease: float = 30.0
    """Seconds of silence after which driver and node give each other up."""
    join_timeout: float = 300.0
    """Seconds to wait for a machine, and for a node to start."""
    close_timeout: float = 60.0
    """Seconds that a closing node has to send its spool."""

    def __post_init__(self) -> None:
        if not self.lease > 0:
            raise errors.InvalidInputError(f"lease must be more than 0 s; got {self.lease}.")


NAMESPACE = "webtraj"
"""Ray namespace of the actors' names."""

_logger = logging.getLogger(__name__)

_CALLS_BESIDE = 16
"""Calls at a time beside those that play."""


def import_ray() -> Any:
    """Import Ray.

    Raises:
        MissingDependencyError: Ray is not installed.
    """
    try:
        import ray
    except ImportError as error:
        raise errors.missing_dependency("Rollouts on many machines need Ray", "ray") from error
    return ray


def wants_token(error: BaseException) -> bool:
    """Return whether a cluster refused a call without its token."""
    return "Authentication" in f"{error} {error.__cause__} {error.__context__}"


def use_own_token(address: str) -> bool:
    """Use the token that `ray start` uses for this user, and return whether there is one.

    Ray itself does so only for the address `auto`. The token of a file goes to no other machine
    unasked. RAY_AUTH_MODE, if set, decides instead.

    Args:
        address: The cluster's address, or the URL of its dashboard.
    """
    token = Path.home() / ".ray" / "auth_token"
    elsewhere = any(map(os.environ.get, ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")))
    here = _is_here(address) and token.is_file()
    if "RAY_AUTH_MODE" in os.environ or not (elsewhere or here):
        return False
    os.environ["RAY_AUTH_MODE"] = "token"
    from ray import _raylet

    cast(Any, _raylet).Config.initialize("")  # Ray reads the variable once, when imported.
    return True


def _is_here(address: str) -> bool:
    """Return whether an address is one of this machine's."""
    host = urllib.parse.urlsplit(address if "//" in address else f"//{address}").hostname or ""
    if address in ("auto", "local") or is_loopback(host):
        return True
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family) as probe:
        probe.bind((host, 0))  # Only an address of this machine can be bound.
        return is_address(host)
    return False


@contextlib.asynccontextmanager
async def connected(address: str, runtime_env: Mapping[str, Any] | None) -> AsyncIterator[None]:
    """Connect this process to a cluster during the block; keep an existing connection.

    Raises:
        InvalidInputError: No cluster runs at that address.
        MissingDependencyError: Ray is not installed.
    """
    ray = import_ray()
    if address.startswith("ray://"):
        raise errors.InvalidInputError(
            f"Cannot run a rollout through a Ray client connection ({address!r}), since its driver "
            "is part of the cluster. Run it on one of the cluster's machines with the address "
            "'auto', or submit it with `webtraj rollout submit`."
        )
    if ray.is_initialized():
        yield
        return

    async def connect() -> None:
        # In a thread, since Ray replaces the main thread's SIGTERM handler, which we need.
        await asyncio.to_thread(
            ray.init,
            address,
            namespace=NAMESPACE,
            runtime_env=dict(runtime_env or {}),
            log_to_driver=False,
            logging_level=logging.ERROR,
        )

    try:
        try:
            await connect()
        except (ConnectionError, ValueError) as error:
            if not (wants_token(error) and use_own_token(address)):
                raise
            await connect()
    except (ConnectionError, ValueError) as error:
        if wants_token(error):
            raise errors.InvalidInputError(
                f"The Ray cluster at {address!r} asks for a token. Copy ~/.ray/auth_token from its "
                "head node, and set RAY_AUTH_MODE=token."
            ) from error
        raise errors.InvalidInputError(
            f"No Ray cluster at {address!r} that includes this machine: "
            f"{str(error).rstrip('.')}. Expected 'auto', or the address of the head node, such as "
            "10.0.0.1:6379; start a cluster with `ray start --head`."
        ) from error
    _take_sigterm_back()
    try:
        yield
    finally:
        await asyncio.to_thread(ray.shutdown)


def _take_sigterm_back() -> None:
    """Register Python's SIGTERM handler again.

    Ray's own handler aborts the process after three seconds, less than it takes to close episodes
    in good order.
    """
    if threading.current_thread() is not threading.main_thread():
        return  # Only the main thread can.
    handler = signal.getsignal(signal.SIGTERM)
    if handler is not None:
        signal.signal(signal.SIGTERM, handler)


class RayNode:
    """Calls the methods of a `NodeRunner` in an actor."""

    def __init__(self, actor: Any, work: Work) -> None:
        self.actor = actor
        self._lease = work.lease
        close = work.lease + work.close_timeout
        # While an episode is played, beats show that the node is alive.
        self._limits = {"open": work.join_timeout, "play": None, "close": close}

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.actor, name)
        return lambda *given: _answer(method.remote(*given), self._limits.get(name, self._lease))


class RayCluster:
    """The machines of the cluster that this process is connected to."""

    def __init__(
        self, work: Work, sizing: NodeSizing, runtime_env: Mapping[str, Any] | None = None
    ) -> None:
        self._ray = import_ray()
        self._work = work
        self._sizing = sizing
        self._runtime_env = dict(runtime_env or {})
        self._resources: dict[str, Mapping[str, float]] = {}

    async def places(self) -> Sequence[Place]:
        """Return the live machines that may play."""
        nodes = await asyncio.to_thread(self._ray.nodes)
        alive = [node for node in nodes if node["Alive"]]
        self._resources = {node["NodeID"]: node["Resources"] for node in alive}
        places = [
            Place(
                node["NodeID"],
                node["NodeManagerAddress"],
                self._sizing.episodes(node["Resources"], node["NodeManagerAddress"]),
            )
            for node in alive
        ]
        return [place for place in places if place.episodes]

    async def start(self, place: Place) -> tuple[NodeRunner, Status]:
        """Start an actor on a machine; Ray queues it until the machine has room."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        reserved = self._sizing.reserved(self._resources[place.key], place.episodes)
        make = self._ray.remote(NodeRunner).options(
            name=f"{self._work.run_id}/{place.key}/{secrets.token_hex(4)}",
            namespace=NAMESPACE,
            lifetime="detached",
            max_concurrency=place.episodes + _CALLS_BESIDE,
            num_cpus=reserved.get("CPU", 0),
            memory=int(reserved.get("memory", 0)) or None,
            runtime_env=self._runtime_env,
            scheduling_strategy=NodeAffinitySchedulingStrategy(place.key, soft=False),
        )
        try:
            actor = await asyncio.to_thread(make.remote, self._work, place.episodes, _leave)
        except self._ray.exceptions.RayError as error:
            raise NodeLostError(str(error)) from error
        node = cast("NodeRunner", RayNode(actor, self._work))
        opened = False
        try:
            status = await node.open()
            opened = status.failure is None
        finally:
            if not opened:  # It has no work, and must not start later unnoticed.
                await self.end(node)
        return node, status

    async def end(self, node: NodeRunner) -> None:
        """End a node's process."""
        with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
            await asyncio.to_thread(self._ray.kill, cast("RayNode", node).actor)

    async def end_nodes_of_before(self) -> None:
        """End the nodes of a crashed driver in good order, if they have not ended yet."""
        named = await asyncio.to_thread(self._ray.util.list_named_actors, all_namespaces=True)
        names = [one["name"] for one in named if one["namespace"] == NAMESPACE]
        mine = [name for name in names if name.startswith(f"{self._work.run_id}/")]
        await asyncio.gather(*map(self._end_earlier, mine))

    async def _end_earlier(self, name: str) -> None:
        with contextlib.suppress(NodeLostError, ValueError):  # It has ended.
            actor = await asyncio.to_thread(self._ray.get_actor, name, NAMESPACE)
            node = cast("NodeRunner", RayNode(actor, self._work))
            try:
                await node.close()
            finally:
                await self.end(node)


def _leave() -> None:
    """End the actor's process; everything in it is closed."""
    os._exit(0)


async def _answer(reference: Any, limit: float | None) -> Any:
    """Await an actor's reply.

    Raises:
        NodeLostError: The actor does not reply.
    """
    ray = import_ray()
    try:
        return await asyncio.wait_for(asyncio.wrap_future(reference.future()), limit)
    except TimeoutError:
        raise NodeLostError(f"The node has not answered for {limit:g} s.") from None
    except ray.exceptions.RayTaskError:
        raise  # A bug in webtraj; nodes report all other errors.
    except ray.exceptions.RayError as error:
        raise NodeLostError(str(error).partition("\n")[0]) from error
