"""Whether a bucket takes requests, and if it does not, when one may be tried.

While it does not, only one request at a time may go, a probe, each after a longer pause: full
jitter, up to a cap. The first request that succeeds opens the gate again.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

__all__ = ["Gate", "Pauses"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """How long to leave a bucket alone that does not answer: full jitter, up to a cap."""

    first: float = 1.0
    """The longest first pause, in seconds; each further one may be twice as long."""
    cap: float = 60.0
    """The longest pause of all, in seconds."""
    uniform: Callable[[float, float], float] = random.uniform

    def after(self, failures: int) -> float:
        """Returns the seconds to wait after so many failures in a row, at least one."""
        return self.uniform(0.0, min(self.cap, self.first * 2.0 ** min(failures - 1, 30)))


class Gate:
    """The state of a bucket. Whoever shares it between threads holds a lock."""

    def __init__(self, pauses: Pauses, clock: Callable[[], float]) -> None:
        self.pauses = pauses
        self.open = True
        """Whether the last request that tells was answered; True before the first."""
        self.successes = 0
        self.failures = 0
        """Probes that failed, and requests that closed the gate."""
        self._clock = clock
        self._probing = False
        self._level = 0
        self._next_probe = 0.0

    def seconds_to_wait(self) -> float | None:
        """Returns for how long no request may go: 0 if one may, None until the probe is back."""
        if self.open:
            return 0.0
        return None if self._probing else max(self._next_probe - self._clock(), 0.0)

    def begin(self) -> bool:
        """Lets a request go that may; returns whether it is a probe."""
        if self.open:
            return False
        self._probing = True
        return True

    def end(self, probe: bool) -> None:
        """Takes a request back, whatever it told."""
        self._probing = self._probing and not probe

    def succeeded(self) -> bool:
        """Notes that a request was answered; returns whether that opened the gate."""
        self.successes += 1
        opened = not self.open
        self.open = True
        self._level = 0
        return opened

    def failed(self, probe: bool) -> bool:
        """Notes that a request was not answered; returns whether that closed the gate."""
        closed = self.open
        if closed or probe:  # Others were under way when it closed, and tell nothing new.
            self.open = False
            self.failures += 1
            self._level += 1
            self._next_probe = self._clock() + self.pauses.after(self._level)
        return closed

    def hurry(self) -> None:
        """Lets the next probe go now, and the pauses begin anew."""
        self._level = 0
        self._next_probe = 0.0
