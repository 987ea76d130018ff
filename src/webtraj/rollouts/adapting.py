"""How many workers a machine can bear: raised while nothing suffers, lowered when something does.

The rule is that of TCP. The number doubles until the CPU is first busy; from then on it creeps up
by one, and falls by a quarter when steps take much longer than they did, by half when memory runs
out. A busy CPU alone is no reason to fall, since others may be why: what counts is what it does to
our own steps. No episode is cancelled for it: a worker that is one too many rests after the episode
it is in.

`AdaptiveControl` is the rule, and reads nothing by itself; `MachineReader` reads the machine;
`Foreman` lets the one heed the other, and a `Crew` be as large as it says.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import logging
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from webtraj import errors

__all__ = ["Adaptive", "AdaptiveControl", "Crew", "Foreman", "MachineReader", "Reading"]

_logger = logging.getLogger(__name__)

_PER_CPU: Final = 16
"""Episodes that one CPU may carry at most: with a model they mostly wait for its replies."""
_SLOW_READINGS: Final = 2
"""In so many readings in a row steps must be slow: a few hard pages are no reason to give way."""
_SMOOTHING: Final = 0.3
"""How much of the pace each reading makes up."""
_NO_FASTER: Final = 0.8
"""If half the workers still need more than this share of the time, their number is not why."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What is known at one moment."""

    at: float
    """When, in seconds by any clock."""
    cpu_pressure: float | None = None
    """The share of time, 0 to 1, in which some task had to wait for a CPU; None if unknown."""
    memory_available: int | None = None
    """Bytes that can be had without swapping; None if unknown."""
    seconds_per_step: float | None = None
    """How long a step took lately, the agent's part included; None if no episode ended."""


@dataclasses.dataclass(frozen=True, slots=True)
class Adaptive:
    """Between which numbers of workers to choose, and what the machine is to keep.

    `Adaptive(2, 32)` never leaves that range; `Adaptive()` goes from 1 to 16 for each CPU.
    """

    low: int = 1
    """This many work whatever happens."""
    high: int = dataclasses.field(default_factory=lambda: _PER_CPU * _cpus())
    """More than this never do."""
    _: dataclasses.KW_ONLY
    interval: float = 2.0
    """Seconds from one reading to the next."""
    patience: float = 20.0
    """Seconds without a raise after the number was lowered."""
    cpu_free: float = 0.8
    """Up to this pressure on the CPU the number rises at once; above it only by one, with each
    reading by which steps are as fast as before."""
    cpu_full: float = 0.95
    """Above this pressure steps may not become much slower."""
    memory_kept: int = 1 << 30
    """Bytes that are to stay available. The number rises only while twice as many are."""
    slower: float = 3.0
    """The number falls when steps take this many times as long as they took at best,"""
    slower_when_full: float = 1.5
    """or this many times, if the CPU is full."""

    def __post_init__(self) -> None:
        if not 1 <= self.low <= self.high:
            raise errors.InvalidInputError(
                f"Adaptive takes 1 worker or more, and the lower number first; got {self.low} and "
                f"{self.high}."
            )
        if not (self.interval > 0 and self.patience >= 0 and self.memory_kept >= 0):
            raise errors.InvalidInputError(
                "Adaptive takes an interval above 0 s, and patience and memory_kept of 0 or more; "
                f"got {self.interval}, {self.patience} and {self.memory_kept}."
            )
        if not 0 < self.cpu_free <= self.cpu_full <= 1:
            raise errors.InvalidInputError(
                f"Adaptive takes 0 < cpu_free <= cpu_full <= 1; got {self.cpu_free} and "
                f"{self.cpu_full}."
            )
        if not 1 < self.slower_when_full <= self.slower:
            raise errors.InvalidInputError(
                f"Adaptive takes 1 < slower_when_full <= slower; got {self.slower_when_full} and "
                f"{self.slower}."
            )


class AdaptiveControl:
    """The rule from readings to a number of workers.

    Args:
        adaptive: Its bounds and thresholds.
    """

    def __init__(self, adaptive: Adaptive) -> None:
        self.workers = adaptive.low
        """How many may work now."""
        self.reason = ""
        """Why the number last changed."""
        self._adaptive = adaptive
        self._doubles = True
        self._rests_until = -math.inf
        self._pace: float | None = None
        self._best = math.inf
        self._slow = 0
        self._blamed: tuple[int, float] | None = None

    def heed(self, reading: Reading) -> int:
        """Takes a reading into account; returns how many workers may work."""
        slow = self._is_slow(reading)
        memory, kept = reading.memory_available, self._adaptive.memory_kept
        if memory is not None and memory < kept:
            self._lower(self.workers // 2, reading.at, f"{memory >> 20} MiB of memory are left")
        elif slow:
            less = self.workers - max(1, self.workers // 4)
            self._lower(less, reading.at, f"steps take {self._pace:.2f} s, not {self._best:.2f} s")
        elif (memory is None or memory >= 2 * kept) and reading.at >= self._rests_until:
            self._raise(reading)
        return self.workers

    def _lower(self, workers: int, now: float, reason: str) -> None:
        self._doubles = False
        self._rests_until = now + self._adaptive.patience
        self._slow = 0
        self._pace = None  # It counts again when those who are one too many have gone to rest.
        self._change(workers, reason)

    def _raise(self, reading: Reading) -> None:
        if reading.cpu_pressure is not None and reading.cpu_pressure > self._adaptive.cpu_free:
            self._doubles = False
            if reading.seconds_per_step is not None and self._slow == 0:
                self._change(self.workers + 1, "steps are as fast as before")
            return
        more = self.workers if self._doubles else 1
        self._change(self.workers + more, "there is room for more")

    def _change(self, workers: int, reason: str) -> None:
        workers = min(max(workers, self._adaptive.low), self._adaptive.high)
        if workers != self.workers:
            self.workers, self.reason = workers, reason

    def _is_slow(self, reading: Reading) -> bool:
        """Returns whether steps have become slow, and the number of workers may be why."""
        if reading.seconds_per_step is None or reading.at < self._rests_until:
            return False
        pace = reading.seconds_per_step if self._pace is None else self._pace
        pace += _SMOOTHING * (reading.seconds_per_step - pace)
        self._pace = pace
        self._best = min(self._best, pace)
        full = (reading.cpu_pressure or 0.0) > self._adaptive.cpu_full
        allowed = self._adaptive.slower_when_full if full else self._adaptive.slower
        if pace <= self._best * allowed:
            self._slow, self._blamed = 0, None
            return False
        self._slow += 1
        if self._slow < _SLOW_READINGS:
            return False
        workers, before = self._blamed = self._blamed or (self.workers, pace)
        few = max(workers // 2, self._adaptive.low)
        if self.workers <= few and pace > before * _NO_FASTER:
            self._best, self._blamed = pace, None  # The tasks have changed, or the policy.
            return False
        return True


class MachineReader:
    """Reads the CPU's pressure and the memory left, from Linux's /proc.

    Args:
        proc: Where that is.
        clock: Gives the time in seconds.
    """

    def __init__(
        self, proc: Path = Path("/proc"), *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._proc = proc
        self._clock = clock
        self._last: tuple[float, float] | None = None
        self.read()  # From now on it is known since when.

    def read(self, seconds_per_step: float | None = None) -> Reading:
        """Returns a reading; what this machine does not tell is None."""
        now = self._clock()
        return Reading(
            at=now,
            cpu_pressure=self._cpu_pressure(now),
            memory_available=self._memory_available(),
            seconds_per_step=seconds_per_step,
        )

    def _cpu_pressure(self, now: float) -> float | None:
        """Returns the share of time since the last reading; else an estimate by the load."""
        stalled = self._stalled_seconds()
        if stalled is None:
            return self._pressure_by_load()
        last, self._last = self._last, (now, stalled)
        if last is None or now <= last[0]:
            return None
        return min(max((stalled - last[1]) / (now - last[0]), 0.0), 1.0)

    def _stalled_seconds(self) -> float | None:
        for line in self._lines("pressure/cpu"):
            kind, *fields = line.split()
            if kind == "some":
                told = dict(field.partition("=")[::2] for field in fields)
                return _number(told.get("total"), 1e-6)
        return None

    def _pressure_by_load(self) -> float | None:
        """Returns the share of runnable tasks that have no CPU, over the last minute."""
        for line in self._lines("loadavg"):
            load = _number(line.split()[0], 1.0)
            return None if load is None else max(0.0, 1 - _cpus() / load) if load else 0.0
        return None

    def _memory_available(self) -> int | None:
        for line in self._lines("meminfo"):
            if line.startswith("MemAvailable:"):
                kib = _number(line.split()[1], 1024)
                return None if kib is None else int(kib)
        return None

    def _lines(self, name: str) -> list[str]:
        try:
            return (self._proc / name).read_text().splitlines()
        except OSError:
            return []  # Another system, an old kernel, or a container that hides it.


class Crew:
    """Lets so many workers work at a time; the others rest. Whoever works is never stopped.

    Args:
        size: How many may work.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        """How many may work."""
        self.working = 0
        """How many do; more than may, for as long as those are in the middle of their work."""
        self._resting: collections.deque[asyncio.Future[bool]] = collections.deque()
        self._over = False

    async def join(self) -> bool:
        """Waits for a place among those who work; returns False if all work is over."""
        if self._over:
            return False
        if self.working < self.size:
            self.working += 1
            return True
        place: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._resting.append(place)
        return await place

    def leave_if_crowded(self) -> bool:
        """Gives a place back if more work than may; returns whether it did."""
        if self.working <= self.size:
            return False
        self.working -= 1
        return True

    def resize(self, size: int) -> None:
        """Lets another number work."""
        self.size = size
        while self._resting and self.working < size:
            place = self._resting.popleft()
            if not place.done():  # Else whoever waited for it was cancelled.
                self.working += 1
                place.set_result(True)

    def dismiss(self) -> None:
        """Says that all work is over."""
        self._over = True
        for place in self._resting:
            if not place.done():
                place.set_result(False)


class Foreman:
    """Keeps a crew as large as the machine can bear, for as long as the context is open.

    Args:
        adaptive: How large it may be.
        crew: The crew.
        pace: Returns how long a step took, in seconds, since it was last asked; None if unknown.
        read: Reads the machine.
    """

    def __init__(
        self,
        adaptive: Adaptive,
        crew: Crew,
        pace: Callable[[], float | None],
        read: Callable[[float | None], Reading] | None = None,
    ) -> None:
        self._interval = adaptive.interval
        self._control = AdaptiveControl(adaptive)
        self._crew = crew
        self._pace = pace
        self._read = read or MachineReader().read
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self._crew.resize(self._control.workers)
        self._wait()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._interval, self._look)

    def _look(self) -> None:
        self._wait()
        before = self._control.workers
        workers = self._control.heed(self._read(self._pace()))
        if workers != before:
            _logger.info("%d workers from now on: %s.", workers, self._control.reason)
            self._crew.resize(workers)


def _number(text: str | None, unit: float) -> float | None:
    try:
        return None if text is None else float(text) * unit
    except ValueError:
        return None


def _cpus() -> int:
    """Returns how many CPUs this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # Not on Linux.
        return os.cpu_count() or 1
