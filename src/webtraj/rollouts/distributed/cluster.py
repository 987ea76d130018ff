"""Machines of a Ray cluster, with a node on each as an actor.

The actors are detached, because Ray kills other actors when their driver fails, but nodes must
first end their open episodes. They end by themselves when the driver goes silent. An actor's name
contains the run and the machine, so Ray allows only one: a run that is resumed early waits for its
earlier nodes to end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
import time
import urllib.parse
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from webtraj import errors
from webtraj.net.hosts import is_of_this_machine
from webtraj.rollouts.distributed.node import (
    Cluster,
    NodeLostError,
    NodeRunner,
    Place,
    Status,
    Work,
)

__all__ = ["RayCluster", "TOKEN_REMEDY", "connect", "import_ray", "use_own_token"]

_NAMESPACE = "webtraj"
"""Ray namespace of the actors' names."""
_CALLS_BESIDE = 16
"""Calls at a time beside those that play."""
TOKEN_REMEDY = (
    "If the cluster asks for a token, set RAY_AUTH_MODE=token here, and copy ~/.ray/auth_token "
    "from its head node."
)
"""What to do where Ray refuses a call without its token, which it says in several ways."""


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


_uses_own_token = False
"""Whether RAY_AUTH_MODE was set here, for a cluster on this machine."""


def use_own_token(address: str) -> None:
    """Send this user's token to a cluster on this machine, as Ray itself does for `auto`.

    A cluster without tokens ignores it. Other machines get a token only if the user has set
    RAY_AUTH_MODE, which then also decides for this machine.

    Args:
        address: The cluster's address, such as 10.0.0.1:6379, or the URL of its dashboard.
    """
    global _uses_own_token  # Ray's mode is the process's, too.
    if "RAY_AUTH_MODE" in os.environ and not _uses_own_token:
        return
    host = urllib.parse.urlsplit(address if "//" in address else f"//{address}").hostname or ""
    has_token = (Path.home() / ".ray" / "auth_token").is_file()
    wanted = has_token and is_of_this_machine(host)
    if wanted == _uses_own_token:
        return
    _uses_own_token = wanted
    if wanted:
        os.environ["RAY_AUTH_MODE"] = "token"
    else:
        del os.environ["RAY_AUTH_MODE"]
    from ray import _raylet

    cast(Any, _raylet).Config.initialize("")  # Ray reads the variable once, when it is imported.


@contextlib.asynccontextmanager
async def connect(cluster: Cluster) -> AsyncIterator[None]:
    """Connect this process to a cluster during the block; keep an existing connection.

    Raises:
        InvalidInputError: No cluster runs at that address.
        MissingDependencyError: Ray is not installed.
    """
    ray = import_ray()
    if cluster.address.startswith("ray://"):
        raise errors.InvalidInputError(
            f"Cannot run a rollout through a Ray client connection ({cluster.address!r}), since "
            "its driver is part of the cluster. Run it on one of the cluster's machines with the "
            "address 'auto', or submit it with `webtraj rollout submit`."
        )
    if ray.is_initialized():
        yield
        return
    use_own_token(cluster.address)
    try:
        # In a thread, since Ray replaces the main thread's SIGTERM handler, which we need.
        await asyncio.to_thread(
            ray.init,
            cluster.address,
            runtime_env=dict(cluster.runtime_env),
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, ValueError) as error:
        raise errors.InvalidInputError(
            f"No Ray cluster at {cluster.address!r} that includes this machine: "
            f"{str(error).rstrip('.')}. Expected 'auto', or the address of the head node, such as "
            f"10.0.0.1:6379; start a cluster with `ray start --head`. {TOKEN_REMEDY}"
        ) from error
    _take_sigterm_back()
    try:
        yield
    finally:
        await asyncio.to_thread(ray.shutdown)


def _take_sigterm_back() -> None:
    """Register Python's SIGTERM handler again.

    Ray's own handler aborts the process after three seconds, which is too short to close episodes
    cleanly.
    """
    if threading.current_thread() is not threading.main_thread():
        return  # Only the main thread can.
    handler = signal.getsignal(signal.SIGTERM)
    if handler is not None:
        signal.signal(signal.SIGTERM, handler)


class _RayNode:
    """Calls the methods of a `NodeRunner` in an actor."""

    def __init__(self, actor: Any, cluster: Cluster) -> None:
        self.actor = actor
        self._lease = cluster.lease
        close = cluster.lease + cluster.close_timeout
        # While an episode is played, beats show that the node is alive.
        self._limits = {"open": cluster.join_timeout, "play": None, "close": close}

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.actor, name)
        return lambda *given: _answer(method.remote(*given), self._limits.get(name, self._lease))


class RayCluster:
    """The machines of the cluster that this process is connected to."""

    def __init__(self, work: Work) -> None:
        self._ray = import_ray()
        self._work = work
        self._resources: dict[str, Mapping[str, float]] = {}

    async def places(self) -> Sequence[Place]:
        """Return the live machines that may play."""
        nodes = await asyncio.to_thread(self._ray.nodes)
        alive = [node for node in nodes if node["Alive"]]
        self._resources = {node["NodeID"]: node["Resources"] for node in alive}
        sizing = self._work.cluster.sizing
        places = [
            Place(node["NodeID"], address, sizing.episodes(node["Resources"], address))
            for node in alive
            for address in [node["NodeManagerAddress"]]
        ]
        return [place for place in places if place.episodes]

    async def start(self, place: Place) -> tuple[NodeRunner, Status]:
        """Start an actor on a machine; Ray queues it until the machine has room."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        cluster = self._work.cluster
        reserved = cluster.sizing.reserve(self._resources[place.key], place.episodes)
        make = self._ray.remote(NodeRunner).options(
            name=f"{self._work.run_id}/{place.key}",
            namespace=_NAMESPACE,
            lifetime="detached",
            max_concurrency=place.episodes + _CALLS_BESIDE,
            num_cpus=reserved.get("CPU", 0),
            memory=int(reserved.get("memory", 0)) or None,
            runtime_env=dict(cluster.runtime_env),
            scheduling_strategy=NodeAffinitySchedulingStrategy(place.key, soft=False),
        )
        begun = time.monotonic()
        while True:
            try:
                actor = await asyncio.to_thread(make.remote, self._work, place.episodes, _leave)
                break
            except ValueError as error:  # An earlier node has the name, until it has ended.
                if time.monotonic() - begun > cluster.join_timeout:
                    raise NodeLostError(str(error)) from error
                await asyncio.sleep(cluster.lease / 10)
            except self._ray.exceptions.RayError as error:
                raise NodeLostError(str(error)) from error
        node = cast("NodeRunner", _RayNode(actor, cluster))
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
            await asyncio.to_thread(self._ray.kill, cast("_RayNode", node).actor)


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
