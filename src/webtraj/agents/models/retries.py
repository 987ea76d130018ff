"""When to ask again: how often, and how long to wait before."""

from __future__ import annotations

import dataclasses
import email.utils
from collections.abc import Mapping

from webtraj import errors
from webtraj.agents.models.clock import Clock

__all__ = ["RetryPolicy", "retry_after"]

_MAX_DOUBLINGS = 30


@dataclasses.dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a call that may heal is tried again: waits that double, and vary at random."""

    max_retries: int = 8
    """Attempts after the first. The default spans about a minute and a half: a server's restart."""
    first_delay: float = 0.5
    """Seconds before the first retry, at most; each further one waits twice as long."""
    max_delay: float = 30.0
    """Seconds that no wait exceeds, unless the server asks for more."""

    def __post_init__(self) -> None:
        if self.max_retries < 0 or self.first_delay < 0 or self.max_delay < 0:
            raise errors.InvalidInputError(f"A retry policy takes no negative numbers; got {self}.")

    def delay(self, retries: int, asked: float | None, clock: Clock) -> float:
        """Returns how many seconds to wait.

        Args:
            retries: How many retries there have been.
            asked: What the server asked for. It is waited for in full, and up to a tenth longer, so
                that not all clients come back in the same moment.
            clock: Gives the jitter.
        """
        longest = min(self.max_delay, self.first_delay * 2.0 ** min(retries, _MAX_DOUBLINGS))
        delay = longest * (0.5 + clock.jitter() / 2)
        if asked is not None:
            delay = max(delay, asked * (1 + clock.jitter() / 10))
        return delay


def retry_after(headers: Mapping[str, str], clock: Clock) -> float | None:
    """Returns the seconds that a server asks to wait; None if it does not say.

    It may say so by `retry-after-ms`, or by `Retry-After` in seconds or as a date.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or value is None:
        return seconds
    try:
        date = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, date.timestamp() - clock.time())


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None
