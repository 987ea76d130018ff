"""The scheduler: which turn is next, given order, politeness and retries."""

from __future__ import annotations

import asyncio
import bisect
import collections
import dataclasses
import heapq
import itertools
import operator
import time
from collections.abc import Callable, Iterable
from typing import Self

from webtraj import errors
from webtraj.runs.run import EpisodeResult, RetryPolicy, Turn, all_numbers
from webtraj.runs.spec import RunSpec, TaskOrder

__all__ = ["ErrorStreak", "Politeness", "RetryPolicy", "Scheduler", "Turn", "grace_begins"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Politeness:
    """Limits on visits to one site."""

    per_site: int | None = None
    """Most episodes at a time; None for no limit."""
    interval: float = 0.0
    """Seconds from the start of one episode to the start of the next."""

    def __post_init__(self) -> None:
        numbers = all_numbers(self)
        if not numbers or self.interval < 0 or (self.per_site is not None and self.per_site < 1):
            raise errors.InvalidInputError(
                "Politeness takes per_site of 1 or more and an interval of 0 s or more; got "
                f"{self.per_site!r} and {self.interval!r}."
            )

    @classmethod
    def of(cls, spec: RunSpec) -> Self:
        """Return the limits of a run."""
        return cls(per_site=spec.episodes_per_site, interval=spec.site_interval)


_MAX_CONSECUTIVE_ERRORS = 10


def grace_begins(spec: RunSpec, over: int, rows: int) -> bool:
    """Return whether the grace period begins when `over` rows are done.

    >>> spec = RunSpec(completion_threshold=0.5)
    >>> [grace_begins(spec, over, 4) for over in (1, 2, 3, 4)]
    [False, True, False, False]
    """
    return over - 1 < spec.completion_threshold * rows <= over < rows


class ErrorStreak:
    """Counts infrastructure failures in a row."""

    @staticmethod
    def longest(spec: RunSpec, parallel: int) -> int:
        """Return the number of failures in a row that stops a run.

        Default: 10, or twice the number of concurrent episodes if that is more, since a browser
        that crashes fails all of its episodes.
        """
        return spec.max_consecutive_errors or max(_MAX_CONSECUTIVE_ERRORS, 2 * parallel)

    def __init__(self) -> None:
        self.length = 0
        """Failures in a row, of rows that had not failed before."""
        self._rows: set[int] = set()

    def count(self, result: EpisodeResult) -> bool:
        """Count a result; return whether the streak grew.

        A fork that departs from its record is not a failure of the infrastructure.
        """
        if result.error.startswith(f"{errors.ForkDepartedError.__name__}:"):
            return False
        if not result.broke:
            self.length = 0
            return False
        if result.row in self._rows:  # It says nothing new about the others.
            return False
        self._rows.add(result.row)
        self.length += 1
        return True


_Rank = tuple[int, int]
"""Priority and serial number: turns of equal priority go by serial number."""


class Scheduler:
    """Hands out turns to workers. Every taken turn must be returned with `finish`."""

    def __init__(
        self,
        turns: Iterable[Turn],
        *,
        order: TaskOrder = "given",
        politeness: Politeness | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Initialize the scheduler.

        Args:
            turns: Every turn, as planned.
            order: Which turn goes first.
            politeness: Limits for each site; none by default.
            clock: Returns the time in seconds.
        """
        self._fair = order == "fair"
        self._longest = order == "longest"
        self._politeness = politeness or Politeness()
        self._apart = self._fair or self._politeness != Politeness()
        self._clock = clock
        self._serials = itertools.count()
        self._queues: dict[str, collections.deque[tuple[_Rank, Turn]]] = {}
        self._visitors: collections.Counter[str] = collections.Counter()
        # Sites that can be visited, by rank; resting sites are in `_later` instead.
        self._ready: list[tuple[_Rank, str]] = []
        self._ready_sites: set[str] = set()
        self._later: list[tuple[float, int, str, tuple[_Rank, Turn] | None]] = []
        self._resting: set[str] = set()
        self._taken = 0
        self.left = 0
        """Number of turns not taken yet."""
        self._stopped = False
        self._changed = asyncio.Event()
        for rank, turn in sorted(
            ((self._rank(turn), turn) for turn in turns), key=operator.itemgetter(0)
        ):
            self.left += 1
            self._queues.setdefault(self._key(turn), collections.deque()).append((rank, turn))
        for site in self._queues:
            self._make_ready(site)

    async def take(self) -> Turn | None:
        """Wait for a turn; return None when none will come.

        While other turns are being played, one may still come, because failed turns are retried.
        """
        while not self._stopped and (self.left or self._taken):
            self._wake()
            if self._ready:
                return self._take_from(heapq.heappop(self._ready)[1])
            self._changed.clear()
            delay = self._later[0][0] - self._clock() if self._later else None
            try:
                async with asyncio.timeout(delay):
                    await self._changed.wait()
            except TimeoutError:
                continue
        return None

    def finish(self, turn: Turn, again: Turn | None = None, *, delay: float = 0.0) -> None:
        """Return a turn.

        Args:
            turn: A turn from `take`.
            again: The next try, if there is one. It queues behind untried turns of equal priority,
                so that its tries are not used up while faults are frequent. If the turn was never
                started, pass the turn itself, which then queues before them.
            delay: Seconds until `again` may be taken.
        """
        self._taken -= 1
        site = self._key(turn)
        self._visitors[site] -= 1
        if again is not None:
            self.left += 1
            rank = self._rank(again, unbegun=again == turn)
            item = (self._clock() + delay, next(self._serials), site, (rank, again))
            heapq.heappush(self._later, item)
        self._make_ready(site)
        self._changed.set()

    def stop(self) -> None:
        """Hand out no more turns."""
        self._stopped = True
        self._changed.set()

    def _key(self, turn: Turn) -> str:
        return turn.site if self._apart else ""

    def _rank(self, turn: Turn, *, unbegun: bool = False) -> _Rank:
        """Return a turn's rank: last among equals, or first if it was returned unstarted."""
        kind = -turn.planned.spec.difficulty if self._longest else 0
        return kind, -1 if unbegun else next(self._serials)

    def _make_ready(self, site: str) -> None:
        """Mark a site as ready if it has turns and free places and is not in a pause."""
        queue = self._queues.get(site)
        limit = self._politeness.per_site
        if not queue or site in self._resting or site in self._ready_sites:
            return
        if limit is not None and self._visitors[site] >= limit:
            return
        self._ready_sites.add(site)
        rank = (0, next(self._serials)) if self._fair else queue[0][0]
        heapq.heappush(self._ready, (rank, site))

    def _take_from(self, site: str) -> Turn:
        self._ready_sites.discard(site)
        _, turn = self._queues[site].popleft()
        self.left -= 1
        self._taken += 1
        self._visitors[site] += 1
        if self._politeness.interval:
            self._resting.add(site)
            until = self._clock() + self._politeness.interval
            heapq.heappush(self._later, (until, next(self._serials), site, None))
        self._make_ready(site)
        return turn

    def _wake(self) -> None:
        """Make sites ready whose pause is over, and queue retries that are due."""
        now = self._clock()
        while self._later and self._later[0][0] <= now:
            _, _, site, item = heapq.heappop(self._later)
            if item is None:
                self._resting.discard(site)
            else:
                _insert(self._queues.setdefault(site, collections.deque()), item)
            self._make_ready(site)


def _insert(queue: collections.deque[tuple[_Rank, Turn]], item: tuple[_Rank, Turn]) -> None:
    if not queue or queue[-1][0] <= item[0]:
        queue.append(item)
    else:
        bisect.insort(queue, item, key=operator.itemgetter(0))
