"""The scheduler: whose turn is next, given order, politeness and retries."""

from __future__ import annotations

import asyncio
import bisect
import collections
import dataclasses
import heapq
import itertools
import random
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from webtraj import errors
from webtraj.rollouts.plan import PlannedEpisode
from webtraj.trajectory import Outcome

__all__ = ["Order", "Politeness", "RETRIED", "RetryPolicy", "Scheduler", "Turn"]

# When an episode that an error ended is tried again, as an attempt with a record of its own.

RETRIED: Mapping[Outcome, bool] = {
    Outcome.ENV_ERROR: True,
    Outcome.TIMEOUT: True,
    Outcome.MODEL_ERROR: True,
    Outcome.AGENT_ERROR: False,
    Outcome.SUCCESS: False,
    Outcome.FAILURE: False,
    Outcome.BLOCKED: False,
    Outcome.JUDGE_ERROR: False,
    Outcome.UNKNOWN: False,
    Outcome.CANCELLED: False,
}
"""Whether another try may help, by outcome. An agent's error is the agent's failure and stays one;
a judge's error is mended by judging again; a resumed rollout plays cancelled episodes again."""

_HOPELESS = (errors.InvalidInputError, errors.ModelRefusedError, errors.MissingDependencyError)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often an episode that an error ended is tried again, and how soon."""

    max_retries: int = 0
    """Tries after the first."""
    pause: float = 1.0
    """Seconds before the first retry, at most; twice as many before each one after it."""
    max_pause: float = 60.0
    """The longest pause, in seconds."""

    def __post_init__(self) -> None:
        if self.max_retries < 0 or self.pause < 0 or self.max_pause < 0:
            raise errors.InvalidInputError(f"{self} has a number below 0.")

    def retries(self, outcome: Outcome, tries: int, error: BaseException | None = None) -> bool:
        """Returns whether to try once more.

        Args:
            outcome: How the last try ended.
            tries: How many tries failed so far, the last one included.
            error: What ended the last one, where that is known.
        """
        if not RETRIED[outcome] or tries > self.max_retries:
            return False
        return not isinstance(error, _HOPELESS)

    def delay(self, tries: int, source: random.Random) -> float:
        """Returns the seconds to wait after so many tries.

        It is anything up to the pause, so that what failed together does not come again together.
        """
        longest: float = min(self.max_pause, self.pause * 2 ** (tries - 1))
        return source.uniform(0, longest)


Order = Literal["given", "longest", "fair"]
"""`given`: as planned. `longest`: the hardest first, so that no long episode is left to the end.
`fair`: one of each site in turn."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Politeness:
    """What a site can ask of its visitors."""

    per_site: int | None = None
    """How many episodes at once; None for any number."""
    interval: float = 0.0
    """Seconds from the begin of one episode to that of the next."""

    def __post_init__(self) -> None:
        if self.interval < 0 or (self.per_site is not None and self.per_site < 1):
            raise errors.InvalidInputError(
                "Politeness takes one episode a site or more, and an interval of 0 s or more; got "
                f"{self.per_site} and {self.interval}."
            )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One try at a planned episode."""

    planned: PlannedEpisode
    number: int = 0
    """How many tries there were before."""
    failures: int = 0
    """How many of them an error ended; others were cut short."""
    retry_of: str = ""
    """The id of the episode of the last try."""

    @property
    def site(self) -> str:
        """The site that it goes to; the task where there is none."""
        return self.planned.spec.site or self.planned.spec.preset


_Rank = tuple[int, int]
"""Equal in the first is what an order has for equals; the second says who comes first of those."""


class Scheduler:
    """Hands out turns to workers. Every turn that was taken has to be given back by `done`."""

    def __init__(
        self,
        turns: Iterable[Turn],
        *,
        order: Order = "given",
        politeness: Politeness | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Initializes the scheduler.

        Args:
            turns: Every turn, as planned.
            order: Who goes first.
            politeness: What sites ask for; nothing by default.
            clock: Gives the time in seconds.
        """
        self._fair = order == "fair"
        self._longest = order == "longest"
        self._politeness = politeness or Politeness()
        self._apart = self._fair or self._politeness != Politeness()
        self._clock = clock
        self._serials = itertools.count()
        self._queues: dict[str, collections.deque[tuple[_Rank, Turn]]] = {}
        self._visitors: collections.Counter[str] = collections.Counter()
        # Sites that may be gone to, by rank; those that rest are among `_later` instead.
        self._ready: list[tuple[_Rank, str]] = []
        self._ready_sites: set[str] = set()
        self._later: list[tuple[float, int, str, tuple[_Rank, Turn] | None]] = []
        self._resting: set[str] = set()
        self._taken = 0
        self._left = 0
        self._stopped = False
        self._changed = asyncio.Event()
        for rank, turn in sorted(((self._rank(turn), turn) for turn in turns), key=_rank_of):
            self._left += 1
            self._queues.setdefault(self._key(turn), collections.deque()).append((rank, turn))
        for site in self._queues:
            self._make_ready(site)

    @property
    def left(self) -> int:
        """How many turns nobody has taken yet."""
        return self._left

    async def take(self) -> Turn | None:
        """Waits for a turn; returns None when there is none any more.

        While others are out, there may be one: a turn that fails comes again.
        """
        while not self._stopped and (self._left or self._taken):
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

    def done(self, turn: Turn, again: Turn | None = None, *, delay: float = 0.0) -> None:
        """Gives a turn back.

        Args:
            turn: What `take` returned.
            again: The next try at it, if there shall be one. It goes behind the turns that were not
                tried yet, among those that the order has for equals: where faults are dense, it
                would meet the same ones again, and use up its tries. The turn itself, if it was
                not begun: it goes before them.
            delay: Seconds before that.
        """
        self._taken -= 1
        site = self._key(turn)
        self._visitors[site] -= 1
        if again is not None:
            self._left += 1
            rank = self._rank(again, unbegun=again == turn)
            item = (self._clock() + delay, next(self._serials), site, (rank, again))
            heapq.heappush(self._later, item)
        self._make_ready(site)
        self._changed.set()

    def stop(self) -> None:
        """Hands out no more turns."""
        self._stopped = True
        self._changed.set()

    def _key(self, turn: Turn) -> str:
        return turn.site if self._apart else ""

    def _rank(self, turn: Turn, *, unbegun: bool = False) -> _Rank:
        """Returns a turn's place: behind its equals, or if it comes back unbegun before them."""
        kind = -turn.planned.spec.difficulty if self._longest else 0
        return kind, -1 if unbegun else next(self._serials)

    def _make_ready(self, site: str) -> None:
        """Lets a site be gone to, if it has turns, room and no rest to take."""
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
        self._left -= 1
        self._taken += 1
        self._visitors[site] += 1
        if self._politeness.interval:
            self._resting.add(site)
            until = self._clock() + self._politeness.interval
            heapq.heappush(self._later, (until, next(self._serials), site, None))
        self._make_ready(site)
        return turn

    def _wake(self) -> None:
        """Brings back what has rested long enough: sites, and turns that come again."""
        now = self._clock()
        while self._later and self._later[0][0] <= now:
            _, _, site, item = heapq.heappop(self._later)
            if item is None:
                self._resting.discard(site)
            else:
                _insert(self._queues.setdefault(site, collections.deque()), item)
            self._make_ready(site)


def _rank_of(item: tuple[_Rank, Turn]) -> _Rank:
    return item[0]


def _insert(queue: collections.deque[tuple[_Rank, Turn]], item: tuple[_Rank, Turn]) -> None:
    if not queue or queue[-1][0] <= item[0]:
        queue.append(item)
    else:
        bisect.insort(queue, item, key=_rank_of)
