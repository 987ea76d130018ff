"""Metrics while a rollout runs: counted as episodes end, and handed to sinks as they change."""

from __future__ import annotations

import functools
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from webtraj import errors
from webtraj.closing import Closing
from webtraj.rollouts.metrics.facts import EpisodeFacts
from webtraj.rollouts.metrics.metrics import RolloutMetrics
from webtraj.rollouts.metrics.sinks import MetricsSink
from webtraj.rollouts.metrics.tally import Tally
from webtraj.rollouts.plan import PlannedEpisode
from webtraj.rollouts.results import EpisodeResult

__all__ = ["MetricsObserver"]

_logger = logging.getLogger(__name__)

_POINTS = 1000
"""About how many points a rollout has in its sinks, however long it is."""


class MetricsObserver(Closing):
    """A `RolloutObserver` that counts, and tells sinks.

    Sinks are written to by a thread of their own, so that no rollout waits for a disk or a server,
    and none ends because one fails: that is logged, counted in `lost`, and the next write is tried
    all the same. `close` waits until all is written.

    With steps unread, what needs them (tokens, time by phase, ...) is not among these numbers;
    `measure` has them afterwards.

    Args:
        sinks: Where the numbers go.
        every: How many episodes lie between two writes; by default so many that there are about
            1,000 writes. The last numbers are written by `close`.
        prefix: What stands before each number's name.
        first_step: The step of the first episode, less one: for a rollout that goes on with another
            one's numbers.
        earlier: Episodes that have ended already, to be counted in: those of a run that is gone on
            with. They come before the first step, too.
        clock: Gives seconds, for throughput.

    Raises:
        InvalidInputError: `every` is not positive.
    """

    def __init__(
        self,
        *sinks: MetricsSink,
        every: int | None = None,
        prefix: str = "rollout/",
        first_step: int = 0,
        earlier: Iterable[EpisodeFacts] = (),
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if every is not None and every < 1:
            raise errors.InvalidInputError(f"every={every}: write each episode (1) or fewer.")
        self.planned = 0
        """How many episodes were planned."""
        self.lost: dict[str, int] = {}
        """How many writes failed, by the name of the sink's class."""
        self._every = every
        self._prefix = prefix
        self._tally = Tally()
        for facts in earlier:
            self._tally.add(facts)
            first_step += 1
        self._earlier_seconds = self._tally.metrics().throughput.wall_seconds or 0.0
        self._step = self._written = first_step
        self._clock = clock
        self._start: float | None = None
        self._sinks = sinks
        self._waiting: queue.SimpleQueue[tuple[int, Mapping[str, float]] | None]
        self._waiting = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    def rollout_planned(self, plan: Sequence[PlannedEpisode]) -> None:
        """Begins to count, and to take the time."""
        self.planned = len(plan)
        self._start = self._clock()
        if self._every is None:
            self._every = max(len(plan) // _POINTS, 1)

    def episode_ended(self, result: EpisodeResult) -> None:
        """Counts an episode."""
        self._tally.add(EpisodeFacts.of_result(result))
        self._step += 1
        if self._step - self._written >= (self._every or 1):
            self._hand_on()

    @property
    def metrics(self) -> RolloutMetrics:
        """The metrics of the episodes so far."""
        start = self._start
        seconds = None if start is None else self._clock() - start + self._earlier_seconds
        return self._tally.metrics(wall_seconds=seconds)

    def close(self) -> None:
        """Writes the last numbers, waits until all is written, and closes the sinks. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if self._step > self._written:
            self._hand_on()
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
        for sink in self._sinks:
            self._try(sink, sink.close)
        for name, lost in self.lost.items():
            _logger.warning("%d writes of metrics to %s failed; they are lost there.", lost, name)

    def _hand_on(self) -> None:
        self._written = self._step
        if not self._sinks:
            return
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._write_all, name="webtraj-metrics", daemon=True
            )
            self._thread.start()
        numbers = self.metrics.scalars() | {"planned": float(self.planned)}
        self._waiting.put((self._step, {self._prefix + k: v for k, v in numbers.items()}))

    def _write_all(self) -> None:
        while (item := self._waiting.get()) is not None:
            step, numbers = item
            for sink in self._sinks:
                self._try(sink, functools.partial(sink.write, numbers, step=step))

    def _try(self, sink: MetricsSink, call: Callable[[], None]) -> None:
        name = type(sink).__name__
        try:
            call()
        except Exception as error:  # Whatever a sink raises.
            if name not in self.lost:
                _logger.warning("Metrics could not be written to %s: %s", name, error)
            self.lost[name] = self.lost.get(name, 0) + 1
