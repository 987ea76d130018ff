"""The number of workers, adjusted to what the machine can bear.

The rule resembles TCP's congestion control. The number of workers doubles until the CPU is first
busy. From then on it grows by one at a time, drops by a quarter when steps become much slower, and
by half when memory runs out. A busy CPU alone does not lower it, since other processes may be the
cause; only slower steps do. No episode is cancelled: a surplus worker stops after its current
episode.

`AdaptiveControl` is the rule and reads nothing itself. `MachineReader` reads the machine.
`Foreman` applies the rule to a `Crew` of workers.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import logging
import math
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from webtraj import errors

__all__ = ["Adaptive", "AdaptiveControl", "Crew", "Foreman", "MachineReader", "Reading"]

_logger = logging.getLogger(__name__)

_PER_CPU: Final = 16
"""Most episodes per CPU. With a model, episodes mostly wait for replies."""
_SLOW_READINGS: Final = 2
"""Steps must be slow in this many readings in a row, so that a few hard pages change nothing."""
_SMOOTHING: Final = 0.3
"""Weight of each new reading in the moving average of the pace."""
_NO_FASTER: Final = 0.8
"""If halving the workers leaves steps slower than this share, their number is not the cause."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One measurement of the machine and the rollout."""

    at: float
    """Time of the reading, in seconds by any clock."""
    cpu_pressure: float | None = None
    """Share of time, 0 to 1, in which some task waited for a CPU; None if unknown."""
    memory_available: int | None = None
    """Bytes available without swapping; None if unknown."""
    seconds_per_step: float | None = None
    """Recent seconds per step, agent included; None if no episode ended."""


@dataclasses.dataclass(frozen=True, slots=True)
class Adaptive:
    """Bounds and thresholds for adjusting the number of workers.

    `Adaptive(2, 32)` never leaves that range; `Adaptive()` goes from 1 to 16 for each CPU.
    """

    low: int = 1
    """Fewest workers."""
    high: int = dataclasses.field(default_factory=lambda: _PER_CPU * _cpus())
    """Most workers."""
    _: dataclasses.KW_ONLY
    interval: float = 2.0
    """Seconds between readings."""
    patience: float = 20.0
    """Seconds to wait after lowering the number before raising it again."""
    cpu_free: float = 0.8
    """CPU pressure up to which the number doubles. Above it, the number grows by one per reading,
    and only while steps are as fast as before."""
    cpu_full: float = 0.95
    """CPU pressure above which `slower_when_full` applies instead of `slower`."""
    memory_kept: int = 1 << 30
    """Bytes to keep available. The number grows only while twice as many are available."""
    slower: float = 3.0
    """Lower the number when steps take this many times as long as at best."""
    slower_when_full: float = 1.5
    """Same as `slower`, while the CPU is full."""

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
    """Turns readings into a number of workers.

    Args:
        adaptive: Bounds and thresholds.
    """

    def __init__(self, adaptive: Adaptive) -> None:
        self.workers = adaptive.low
        """Workers allowed now."""
        self.reason = ""
        """Reason for the last change."""
        self._adaptive = adaptive
        self._doubles = True
        self._rests_until = -math.inf
        self._pace: float | None = None
        self._best = math.inf
        self._slow = 0
        self._blamed: tuple[int, float] | None = None

    def heed(self, reading: Reading) -> int:
        """Take a reading into account and return the number of workers allowed."""
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
        self._pace = None  # Measured afresh once the surplus workers have stopped.
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
        """Return whether steps have become slow, and the number of workers may be the cause."""
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
            self._best, self._blamed = pace, None  # The tasks or the policy changed.
            return False
        return True


class MachineReader:
    """Reads CPU pressure and available memory from Linux's /proc.

    Args:
        proc: Path of the proc file system.
        clock: Returns the time in seconds.
    """

    def __init__(
        self, proc: Path = Path("/proc"), *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._proc = proc
        self._clock = clock
        self._last: tuple[float, float] | None = None
        self.read()  # Pressure is measured from one reading to the next.

    def read(self, seconds_per_step: float | None = None) -> Reading:
        """Return a reading; values that this machine does not report are None."""
        now = self._clock()
        kibibytes = self._find("meminfo", r"^MemAvailable:\s+(\d+)")
        return Reading(
            at=now,
            cpu_pressure=self._cpu_pressure(now),
            memory_available=None if kibibytes is None else int(kibibytes) << 10,
            seconds_per_step=seconds_per_step,
        )

    def _cpu_pressure(self, now: float) -> float | None:
        """Return the pressure since the last reading, or an estimate from the load average."""
        stalled = self._find("pressure/cpu", r"^some\b.*\btotal=(\d+)")  # In microseconds.
        if stalled is None:
            load = self._find("loadavg", r"^([\d.]+)")  # Tasks that run or wait for a CPU.
            return None if load is None else max(0.0, 1 - _cpus() / load) if load else 0.0
        last, self._last = self._last, (now, stalled * 1e-6)
        if last is None or now <= last[0]:
            return None
        return min(max((stalled * 1e-6 - last[1]) / (now - last[0]), 0.0), 1.0)

    def _find(self, name: str, pattern: str) -> float | None:
        """Return the number that a pattern finds in a file; None if it finds none."""
        try:
            found = re.search(pattern, (self._proc / name).read_text(), re.MULTILINE)
        except OSError:
            return None  # Not Linux, an old kernel, or hidden by a container.
        return None if found is None else float(found[1])


class Crew:
    """Limits how many workers run at a time. A running worker is never interrupted.

    Args:
        size: Workers allowed.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        """Workers allowed."""
        self.working = 0
        """Workers running; may exceed `size` until surplus workers finish their episodes."""
        self._resting: collections.deque[asyncio.Future[bool]] = collections.deque()
        self._over = False

    async def join(self) -> bool:
        """Wait for a place and return True; return False once all work is done."""
        if self._over:
            return False
        if self.working < self.size:
            self.working += 1
            return True
        place: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._resting.append(place)
        return await place

    def leave_if_crowded(self) -> bool:
        """Give up a place if too many workers are running; return whether it did."""
        if self.working <= self.size:
            return False
        self.working -= 1
        return True

    def resize(self, size: int) -> None:
        """Change how many workers may run."""
        self.size = size
        while self._resting and self.working < size:
            place = self._resting.popleft()
            if not place.done():  # Otherwise the waiting worker was cancelled.
                self.working += 1
                place.set_result(True)

    def dismiss(self) -> None:
        """End all work: workers waiting for a place stop."""
        self._over = True
        for place in self._resting:
            if not place.done():
                place.set_result(False)


class Foreman:
    """Resizes a crew to what the machine can bear, while the context is open.

    Args:
        adaptive: Bounds and thresholds.
        crew: The crew to resize.
        pace: Returns the seconds per step since the last call; None if unknown.
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


def _cpus() -> int:
    """Return the number of CPUs that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # Not on Linux.
        return os.cpu_count() or 1
