"""A node: plays the rows that a driver hands out, as long as it hears from the driver.

Driver and nodes send each other rows and results, but no trajectories. Nothing here depends on Ray:
`cluster` runs a node as an actor. All methods run in one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.agents.base import Agent
from webtraj.agents.models.base import check_keys
from webtraj.collectors.bucket import S3TrajectoryCollector
from webtraj.collectors.spool import Spool
from webtraj.datasets.transfer import push
from webtraj.environments.browser.lease import OperationLimits
from webtraj.rollouts.episode_environment import Browsers
from webtraj.rollouts.node_size import NodeSizing
from webtraj.rollouts.recording import open_collector
from webtraj.rollouts.runner import Runner
from webtraj.rollouts.scheduler import RetryPolicy, Scheduler, Turn
from webtraj.runs.run import EpisodeResult, Run
from webtraj.runs.spec import RunSpec
from webtraj.store.closeable import aclose
from webtraj.store.layout import DatasetLayout
from webtraj.store.places import open_storage

if TYPE_CHECKING:
    from webtraj.environments.browser.pool import BrowserPool

__all__ = ["Cluster", "NodeLostError", "NodeRunner", "Place", "Played", "Status", "Work"]

_logger = logging.getLogger(__name__)


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
    """Seconds to wait for a machine when there is none, and for a node to start."""
    close_timeout: float = 60.0
    """Seconds that a closing node has to send its spool."""

    def __post_init__(self) -> None:
        if not self.lease > 0:
            raise errors.InvalidInputError(f"lease must be more than 0 s; got {self.lease}.")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Everything that a node needs before its first row."""

    run_id: str
    spec: RunSpec = dataclasses.field(repr=False)
    """The settings of the whole rollout. `out` is a bucket's URL, or a folder at the same path on
    all machines, and `format` the dataset's."""
    agent: Callable[[], Agent]
    """Makes an agent."""
    environment_options: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    cluster: Cluster = dataclasses.field(default_factory=Cluster)

    @property
    def out(self) -> str:
        """The shared store."""
        assert self.spec.out is not None
        return self.spec.out

    def open_run(self) -> Run:
        """Return the run, in the shared store."""
        return Run(open_storage(self.out, self.spec.storage_options), self.run_id)


@dataclasses.dataclass(frozen=True, slots=True)
class Played:
    """The end of a turn."""

    result: EpisodeResult
    again: bool
    """Whether another try may help."""
    stored: bool
    """Whether its record is in the store already."""


@dataclasses.dataclass(frozen=True, slots=True)
class Status:
    """The state of a node."""

    stored: tuple[str, ...] = ()
    """Ids of episodes whose records have reached the store since the last status."""
    failure: errors.WebtrajError | None = None
    """Why it cannot play."""
    unsent: str = ""
    """Why the store does not take its records, if it should send them at once."""


class NodeLostError(Exception):
    """A node stopped answering. Its open turns are played elsewhere."""


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A machine that can run a node."""

    key: str
    """Identifier, valid while the machine lives."""
    name: str
    """Address, for people."""
    episodes: int
    """Episodes that it plays at a time."""


class _Given(Scheduler):
    """Hands out the driver's turns as they arrive. The driver decides about retries."""

    def __init__(self) -> None:
        super().__init__(())
        self._given: asyncio.Queue[Turn] = asyncio.Queue()
        self.give = self._given.put_nowait

    async def take(self) -> Turn:
        return await self._given.get()

    def finish(self, turn: Turn, again: Turn | None = None, *, delay: float = 0.0) -> None:
        pass


class NodeRunner:
    """Plays turns with a `Runner`, as one machine alone does."""

    def __init__(
        self, work: Work, episodes: int, leave: Callable[[], object] | None = None
    ) -> None:
        """Initialize the node without starting anything.

        Args:
            work: The node's work.
            episodes: Episodes to play at a time.
            leave: Ends the process if the driver does not end it.
        """
        self._work = work
        self._episodes = episodes
        self._leave = leave
        self._run = work.open_run()
        self._agent: Any = None
        self._collector: Any = None
        self._spool: Spool | None = None
        self._pool: BrowserPool | None = None
        self._runner: Runner | None = None
        self._given = _Given()
        self._ends: dict[int, asyncio.Future[EpisodeResult | None]] = {}
        """The coming results, by row; None if a turn is not started."""
        self._unstored: set[str] = set()
        self._share = 0.0
        self._plays = self._closing = False
        self._failure: errors.WebtrajError | None = None
        self._life: asyncio.Task[None] | None = None
        self._ended = threading.Event()
        self._heard = time.monotonic()
        # A thread, so that it works even if the event loop hangs, or the node is never opened.
        threading.Thread(target=self._watch_the_driver, daemon=True).start()

    async def open(self) -> Status:
        """Prepare to play, after sending what waits in this machine's spool.

        Returns:
            What was sent, or why the node cannot start.
        """
        self._heard = math.inf  # Sending the spool may take long.
        opened: asyncio.Future[list[str]] = asyncio.Future()
        self._life = asyncio.create_task(self._live(opened))
        either: list[asyncio.Future[Any]] = [opened, self._life]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        self._heard = time.monotonic()
        return self._status(opened.result() if opened.done() else ())

    async def _live(self, opened: asyncio.Future[list[str]]) -> None:
        work = self._work
        try:
            async with contextlib.AsyncExitStack() as stack:
                os.environ.update(work.cluster.variables)
                if work.cluster.setup is not None:
                    work.cluster.setup()
                self._agent = work.agent()
                stack.push_async_callback(aclose, self._agent)
                check_keys(self._agent)
                stack.push_async_callback(lambda: aclose(self._collector))
                found = await asyncio.to_thread(self._open_collector)
                self._pool = await stack.enter_async_context(
                    Browsers.of(work.spec).open(self._episodes)
                )
                self._runner = Runner(
                    agent=self._agent,
                    turns=(),
                    spec=_for_a_node(work.spec),
                    parallel=self._episodes,
                    observer=self,
                    run=self._run,
                    trajectory_collector=self._collector,
                    environment_options=work.environment_options,
                    browser_pool=self._pool,
                    scheduler=self._given,
                )
                self._plays = True
                opened.set_result(found)
                try:
                    await self._runner.play()
                finally:
                    self._plays = False
                    self._closing = True  # From here on, `close` only waits.
                    for row in list(self._ends):
                        self._answer(row, None)
        except Exception as error:
            _logger.warning("This node ends.", exc_info=True)
            self._failure = _sendable(error)
        finally:
            self._ended.set()

    async def play(self, turn: Turn) -> Played | None:
        """Play a turn; return None if the node closes or fails before the turn ends."""
        if not self._plays:
            return None
        end = self._ends[turn.planned.row] = asyncio.Future()
        self._given.give(turn)
        if (result := await end) is None:
            return None
        episode_id = self._run.episode_id(turn)
        again = RetryPolicy.of(self._work.spec).leaves_open(result, turn.failures + 1)
        stored = self._spool is None and not self._layout.journal(episode_id).exists()
        if not stored:
            self._unstored.add(episode_id)
        # The error itself may be of a class that the driver cannot import.
        return Played(dataclasses.replace(result, cause=None), again, stored)

    async def beat(self, share: float, hurry: bool) -> Status:
        """Answer the driver's heartbeat.

        Args:
            share: The node's share of the limits that apply to all machines together. Limits on
                concurrent operations stay at least 1; limits per minute are divided exactly.
            hurry: Whether to send all records at once.
        """
        self._heard = time.monotonic()
        if share not in (0.0, self._share):
            self._share = share
            if (limits := self._work.spec.operation_limits) and self._pool is not None:
                self._pool.operations.limit(_part_of(limits, share))
            if (set_share := getattr(self._agent, "set_share", None)) is not None:
                set_share(share)
        unsent = ""
        if hurry and self._unstored and self._plays:
            try:
                async with asyncio.timeout(self._work.cluster.lease / 3):
                    await self._collector.flush()
            except TimeoutError:
                pass
            except errors.CollectorError as error:
                unsent = str(error)
        return dataclasses.replace(self._status(), unsent=unsent)

    async def close(self) -> Status:
        """End open episodes as cancelled, send what can be sent, and release all. Idempotent."""
        if self._life is not None:
            if not self._closing:
                self._closing = True
                self._life.cancel()
            await asyncio.wait([self._life])
        return self._status()

    def rollout_planned(self, plan: object) -> None:
        """Do nothing."""

    def episode_ended(self, result: EpisodeResult) -> None:
        """Answer the call that plays the episode."""
        self._answer(result.row, result)

    def _answer(self, row: int, result: EpisodeResult | None) -> None:
        if not (end := self._ends.pop(row)).done():
            end.set_result(result)

    def _open_collector(self) -> list[str]:
        """Open the collector, and send what waits in its spool. Blocks.

        Returns:
            The ids of the run's episodes that were sent. In a folder, the driver handles journals.

        Raises:
            CollectorError: Some of the run's episodes could not be sent.
            StorageDeniedError: The store refuses this machine, which may lack the credentials.
        """
        spec, run = self._work.spec, self._run
        self._collector = open_collector(
            self._work.out,
            spec.storage_options,
            spec.format or "json",
            close_timeout=self._work.cluster.close_timeout,
        )
        if not isinstance(self._collector, S3TrajectoryCollector):
            self._layout = DatasetLayout(self._collector.path)
            return []
        with contextlib.suppress(errors.StorageUnavailableError):  # Episodes wait in the spool.
            run.check_access()
        self._spool = spool = Spool.open(self._collector.spool)[0]
        self._layout = spool.layout
        waiting = self._unsent_episodes()
        report = push(spool.path, storage_options=spec.storage_options) if waiting else None
        unsent = [one.episode_id for one in report.unsent] if report is not None else []
        if mine := [episode_id for episode_id in unsent if run.place_of(episode_id)]:
            raise errors.CollectorError(
                f"{len(mine)} episodes of the run {run.run_id!r}, such as {mine[0]!r}, are in "
                f"{str(spool.path)!r} and could not be sent to {self._work.out!r}. Run "
                f"`{errors.command('push', spool.path)}` there."
            )
        return sorted(episode_id for episode_id in waiting if run.place_of(episode_id))

    def _unsent_episodes(self) -> set[str]:
        """Return the episodes whose records are on this machine and not yet in the store."""
        waiting = set(self._layout.open_episodes())
        return waiting if self._spool is None else waiting.union(self._spool.list_waiting())

    def _status(self, found: Iterable[str] = ()) -> Status:
        stored = self._unstored - self._unsent_episodes() if self._unstored else set()
        self._unstored -= stored
        return Status((*found, *stored), self._failure)

    def _watch_the_driver(self) -> None:
        """End the node cleanly, then its process, when the driver has been silent for too long."""
        lease = self._work.cluster.lease
        while (left := self._heard + lease - time.monotonic()) > 0 and not self._ended.is_set():
            self._ended.wait(min(left, lease))
        if self._ended.is_set():
            time.sleep(lease)  # A driver that is alive ends the process itself.
        else:
            _logger.warning("The driver was silent for %g s; this node ends.", lease)
            if self._life is not None and not (loop := self._life.get_loop()).is_closed():
                asyncio.run_coroutine_threadsafe(self.close(), loop)
                self._ended.wait(lease + self._work.cluster.close_timeout)
        if self._leave is not None:
            self._leave()


def _sendable(error: Exception) -> errors.WebtrajError:
    """Return an error that any process can unpickle, of the same type if webtraj defines it."""
    if getattr(errors, type(error).__name__, None) is type(error):
        return type(error)(str(error))  # type: ignore[return-value]
    return errors.RolloutStoppedError(f"{type(error).__name__}: {error}")


def _for_a_node(spec: RunSpec) -> RunSpec:
    """Return the settings for one machine, without those that the driver handles."""
    return spec.model_copy(
        update={
            "run_timeout": None, "max_retries": 0, "completion_threshold": 1.0,
            "max_consecutive_errors": 1 << 62, "operation_limits": {},
        }
    )  # fmt: skip


def _part_of(limits: Mapping[Any, int], share: float) -> OperationLimits:
    """Return a share of limits: at least 1 for each operation, exact for rates.

    >>> part = _part_of({"navigate": 8, "allocate": 1, "requests_per_minute": 30}, 0.25)
    >>> part.navigate, part.allocate, part.requests_per_minute
    (2, 1, 7.5)
    """
    parts: dict[str, Any] = {
        name: max(1, int(whole * share + 1e-9)) for name, whole in limits.items() if whole
    }
    if rate := limits.get("requests_per_minute"):
        parts["requests_per_minute"] = rate * share
    return OperationLimits(**parts)
