"""A node: plays the rows that a driver hands out, as long as it hears from the driver.

It does not depend on Ray: `cluster` runs it as an actor. All methods run in one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import math
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.agents import base as agents_lib
from webtraj.closing import aclose
from webtraj.collectors.bucket import S3TrajectoryCollector
from webtraj.collectors.spool import Spool
from webtraj.datasets.transfer import push
from webtraj.environments.browser.lease import OperationLimits
from webtraj.rollouts.adapting import Crew, Foreman
from webtraj.rollouts.distributed.messages import Ended, Failure, Report, Work
from webtraj.rollouts.recording import open_collector
from webtraj.rollouts.results import NullRolloutObserver
from webtraj.rollouts.runner import Runner
from webtraj.rollouts.scheduling import Turn
from webtraj.rollouts.settings import RolloutSettings
from webtraj.runs.run import EpisodeResult, Run
from webtraj.store.layout import DatasetLayout
from webtraj.store.places import open_storage

if TYPE_CHECKING:
    from webtraj.environments.browser.pool import BrowserPool

__all__ = ["NodeRunner", "NodeWriter"]

# How a node records: its own writer into the shared store, and records left by earlier runs.

_logger = logging.getLogger(__name__)


class NodeWriter:
    """The collector of a node, and its spool."""

    def __init__(self, work: Work) -> None:
        """Open the collector.

        Raises:
            WebtrajError: See the collectors.
        """
        self._storage_options = work.storage_options
        self._spool: Spool | None = None
        self.collector = open_collector(
            work.out, work.storage_options, work.format, close_timeout=work.close_timeout
        )
        if isinstance(self.collector, S3TrajectoryCollector):
            self._spool = Spool.open(self.collector.spool)[0]
            self._layout = self._spool.layout
        else:
            self._layout = DatasetLayout(self.collector.path)

    def send_what_waits(self, run: Run) -> list[str]:
        """Send the records waiting in the spool. The driver handles journals in a folder.

        Returns:
            The ids of the run's episodes among them.

        Raises:
            CollectorError: Some of the run's episodes could not be sent.
        """
        if self._spool is None:
            return []
        waiting = {*self._spool.waiting(), *self._layout.open_episodes()}
        if not waiting:
            return []
        report = push(self._spool.path, storage_options=self._storage_options)
        unsent = [one.episode_id for one in report.unsent if run.place_of(one.episode_id)]
        if unsent:
            raise errors.CollectorError(
                f"{len(unsent)} episodes of the run {run.run_id!r}, such as {unsent[0]!r}, are in "
                f"{str(self._spool.path)!r} and could not be sent to {report.destination!r}. Run "
                f"`webtraj push {self._spool.path}` there."
            )
        for problem in report.recovery.unreadable:
            _logger.warning("%s", problem)
        return sorted(episode_id for episode_id in waiting if run.place_of(episode_id))

    def stored(self, episode_ids: Iterable[str]) -> list[str]:
        """Return which of those ended episodes are in the store."""
        return [one for one in episode_ids if not self._waits(one)]

    def _waits(self, episode_id: str) -> bool:
        """Return whether an episode has a journal, or a file that is not in the bucket yet."""
        if self._layout.journal(episode_id).exists():
            return True
        spool = self._spool
        return spool is not None and self._layout.episode(episode_id, spool.format).exists()


_BEATS = 10
"""Reports within one lease."""


class NodeRunner:
    """Plays leases, each in a lane of its own, one row after the other."""

    def __init__(
        self, work: Work, episodes: int, leave: Callable[[], object] | None = None
    ) -> None:
        """Initialize the node without starting anything.

        Args:
            work: The node's work.
            episodes: Episodes to play at a time.
            leave: Ends the process once the driver has gone silent and everything is closed.
        """
        self._work = work
        self._episodes = episodes
        self._leave = leave
        self._settings = _for_a_lane(work.settings)
        self._run = Run(open_storage(work.out, work.storage_options), work.run_id)
        self._agent: agents_lib.Agent | None = None
        self._writer: NodeWriter | None = None
        self._pool: BrowserPool | None = None
        self._pool_lock = asyncio.Lock()
        self._lanes: set[asyncio.Task[None]] = set()
        self._runners: list[Runner] = []
        self._share = 1.0
        self._room = _Room(episodes, self._make_room)
        self._foreman: Foreman | None = None
        self._paces: list[float] = []
        self._ended: list[Ended] = []
        self._returned: list[Turn] = []
        self._unstored: set[str] = set()
        self._failure: Failure | None = None
        self._told = Report()
        """The last report, which the driver may not have received."""
        self._news = asyncio.Event()
        self._heard = time.monotonic()
        self._watch: asyncio.TimerHandle | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        if leave is not None:  # Even for a node that is never opened.
            threading.Thread(target=self._leave_if_stuck, daemon=True).start()

    async def open(self) -> Report:
        """Get ready, and first send what waits in this machine's spool."""
        self._heard = math.inf  # Sending the spool may take long.
        try:
            os.environ.update(self._work.variables)
            if self._work.setup is not None:
                self._work.setup()
            self._agent = self._work.agent()
            self._writer = await asyncio.to_thread(NodeWriter, self._work)
            found = await asyncio.to_thread(self._writer.send_what_waits, self._run)
        except Exception as error:
            _logger.warning("This node cannot start.", exc_info=True)
            self._hear()
            await self.close()
            return Report(failure=Failure.of(error))
        self._hear()
        self._watch_the_driver()
        self._adapt()
        return Report(stored=tuple(found), room=self._room.size)

    async def accept(self, turns: Sequence[Turn]) -> None:
        """Accept a lease and start playing it."""
        self._hear()
        if self._closing is not None or self._failure is not None:
            self._returned.extend(turns)
            self._news.set()
            return
        lane = asyncio.create_task(self._play(turns))
        self._lanes.add(lane)
        lane.add_done_callback(self._lanes.discard)

    async def report(self, got: int) -> Report:
        """Wait briefly for news, and return it.

        Args:
            got: The number of the last report that the driver received; later ones are repeated.
        """
        self._hear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._work.lease / _BEATS):
                await self._news.wait()
        self._hear()
        return self._tell(got)

    async def allow(self, share: float) -> None:
        """Apply a share of the limits that hold for all machines together.

        Limits on concurrent operations stay at least 1. Limits per minute are divided exactly.
        """
        self._hear()
        self._share = share
        self._limit_pool()
        set_share = getattr(self._agent, "set_share", None)
        if set_share is not None:
            set_share(share)

    async def flush(self) -> str:
        """Wait until every record is in the store; return the reason if that fails."""
        assert self._writer is not None
        try:
            await self._writer.collector.flush()
        except errors.CollectorError as error:
            return str(error)
        finally:
            self._news.set()
        return ""

    async def close(self, got: int = 0) -> Report:
        """End open episodes as cancelled, send what can be sent, and release all. Idempotent.

        Returns:
            The last report; `got` is as in `report`.
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)
        return self._tell(got)

    async def _play(self, turns: Sequence[Turn]) -> None:
        unbegun = {turn.planned.row: turn for turn in turns}

        def ended(result: EpisodeResult) -> None:
            self._note(unbegun.pop(result.row), result)

        runner: Runner | None = None
        try:
            assert self._agent is not None
            assert self._writer is not None
            runner = Runner(
                agent=self._agent,
                turns=turns,
                settings=self._settings,
                observer=_Listener(ended),
                run=self._run,
                trajectory_collector=self._writer.collector,
                environment_options=self._work.environment_options,
                browser_pool=await self._pool_for(turns),
            )
            self._runners.append(runner)
            await runner.play()
        except asyncio.CancelledError:
            pass  # By `close`, which reports the turns that were not started.
        except Exception as error:
            _logger.warning("This node can no longer play.", exc_info=True)
            self._failure = self._failure or Failure.of(error)
        finally:
            if runner in self._runners:
                self._runners.remove(runner)
            self._returned.extend(unbegun.values())
            self._news.set()

    def _note(self, turn: Turn, result: EpisodeResult) -> None:
        if result.num_steps and not result.failed:
            self._paces.append(result.seconds / result.num_steps)
        again = self._work.settings.retry.leaves_open(result, turn.failures + 1)
        # The error itself may be of a class that the driver cannot import.
        self._ended.append(Ended(turn, dataclasses.replace(result, cause=None), again))
        self._unstored.add(self._run.episode_id(turn))
        self._news.set()

    async def _pool_for(self, turns: Sequence[Turn]) -> BrowserPool | None:
        if not any(turn.planned.selection.uses_browser for turn in turns):
            return None
        async with self._pool_lock:
            if self._pool is None:
                pool = self._work.browsers.open(self._episodes)
                self._pool = await pool.__aenter__()
                self._limit_pool()
            return self._pool

    def _tell(self, got: int) -> Report:
        self._news.clear()
        stored = self._writer.stored(self._unstored) if self._writer is not None else []
        self._unstored.difference_update(stored)
        repeated = self._told if self._told.number > got else Report()
        self._told = Report(
            max(self._told.number, got) + 1,
            (*repeated.ended, *self._ended),
            (*repeated.returned, *self._returned),
            (*repeated.stored, *stored),
            self._failure,
            self._room.size,
        )
        self._ended.clear()
        self._returned.clear()
        return self._told

    def _limit_pool(self) -> None:
        limits = self._work.settings.operations
        if self._pool is not None and limits is not None:
            self._pool.operations.limit(_part_of(limits, self._share))

    def _adapt(self) -> None:
        """Play as many episodes at a time as this machine can bear, if configured."""
        adaptive = self._work.settings.adaptive
        if adaptive is None:
            return
        high = min(adaptive.high, self._episodes)
        adaptive = dataclasses.replace(adaptive, low=min(adaptive.low, high), high=high)
        self._foreman = Foreman(adaptive, self._room, self._pace)
        self._foreman.__enter__()

    def _pace(self) -> float | None:
        paces, self._paces = self._paces, []
        return statistics.median(paces) if paces else None

    def _make_room(self) -> None:
        """Let surplus lanes end, each after its current episode."""
        for runner in self._runners[self._room.size :]:
            runner.wind_up()
        self._news.set()

    async def _close(self) -> None:
        if self._foreman is not None:
            self._foreman.__exit__()
        if self._watch is not None:
            self._watch.cancel()
        for lane in list(self._lanes):
            lane.cancel()
        if self._lanes:
            await asyncio.wait(self._lanes)
        if self._pool is not None:
            await _quietly(self._pool.close(), "Could not close the browsers.")
        if self._writer is not None:
            await _quietly(self._writer.collector.aclose(), "Some records are not in the store.")
        await _quietly(aclose(self._agent), "Could not close the agent.")

    def _hear(self) -> None:
        self._heard = time.monotonic()

    @property
    def _silence(self) -> float:
        return time.monotonic() - self._heard

    def _watch_the_driver(self) -> None:
        loop = asyncio.get_running_loop()
        if (left := self._work.lease - self._silence) > 0:
            self._watch = loop.call_later(left, self._watch_the_driver)
            return
        _logger.warning("The driver was silent for %g s; this node ends.", self._work.lease)
        self._leaving = loop.create_task(self._close_and_leave())

    async def _close_and_leave(self) -> None:
        await self.close()
        if self._leave is not None:
            self._leave()

    def _leave_if_stuck(self) -> None:
        """End the process if its event loop hangs. Everything recorded is in journals."""
        limit = 2 * self._work.lease + self._work.close_timeout
        while (left := limit - self._silence) > 0:
            time.sleep(min(left, limit))
        os._exit(1)


class _Listener(NullRolloutObserver):
    """Forwards results."""

    def __init__(self, ended: Callable[[EpisodeResult], None]) -> None:
        self._ended = ended

    def episode_ended(self, result: EpisodeResult) -> None:
        """Forward the result."""
        self._ended(result)


def _for_a_lane(settings: RolloutSettings) -> RolloutSettings:
    """Return the settings for one lease; the driver handles those of the whole rollout."""
    return RolloutSettings(
        max_steps=settings.max_steps,
        max_repetitive_actions=settings.max_repetitive_actions,
        deadlines=dataclasses.replace(settings.deadlines, run=None),
        max_consecutive_errors=1 << 62,
    )


def _part_of(limits: OperationLimits, share: float) -> OperationLimits:
    """Return a share of limits: at least 1 of each operation, and exact for rates.

    >>> part = _part_of(OperationLimits(navigate=8, allocate=1, requests_per_minute=30), 0.25)
    >>> part.navigate, part.allocate, part.requests_per_minute
    (2, 1, 7.5)
    """
    parts: dict[str, Any] = {}
    for field in dataclasses.fields(limits):
        whole = getattr(limits, field.name)
        if whole:
            rate = field.name == "requests_per_minute"
            parts[field.name] = whole * share if rate else max(1, int(whole * share + 1e-9))
    return OperationLimits(**parts)


class _Room(Crew):
    """Number of lanes allowed; calls back when it changes."""

    def __init__(self, size: int, changed: Callable[[], object]) -> None:
        super().__init__(size)
        self._changed = changed

    def resize(self, size: int) -> None:
        super().resize(size)
        self._changed()


async def _quietly(call: object, otherwise: str) -> None:
    try:
        await call  # type: ignore[misc]
    except Exception:
        _logger.warning("%s", otherwise, exc_info=True)
