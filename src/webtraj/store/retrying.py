"""Trying again what may heal: when, how often, how long in all."""

from __future__ import annotations

import dataclasses
import logging
import random
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from webtraj import errors

__all__ = ["RetryPolicy"]

_logger = logging.getLogger(__name__)

_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Tries again after `StorageUnavailableError`, with full jitter, until a deadline.

    The delay before the n-th retry is drawn evenly from 0 to `first_delay` · 2ⁿ⁻¹ seconds, at most
    `longest_delay`: many writers that were turned away together do not come back together.
    """

    deadline: float = 120.0
    """Seconds from the first attempt after which none is begun any more; 0 for one attempt only."""
    first_delay: float = 0.2
    """Longest delay, in seconds, before the first retry."""
    longest_delay: float = 20.0
    """Longest delay, in seconds, before any retry."""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        if self.deadline < 0 or self.first_delay <= 0 or self.longest_delay < self.first_delay:
            raise errors.InvalidInputError(
                "A retry policy takes deadline >= 0 and 0 < first_delay <= longest_delay; "
                f"got deadline={self.deadline!r}, first_delay={self.first_delay!r}, "
                f"longest_delay={self.longest_delay!r}."
            )

    @classmethod
    def of(cls, retry: RetryPolicy | Mapping[str, Any] | None) -> RetryPolicy:
        """Returns a policy that was given as such, by its fields, or not at all.

        Raises:
            InvalidInputError: It has other fields.
        """
        if isinstance(retry, RetryPolicy):
            return retry
        try:
            return cls(**(retry or {}))
        except TypeError:
            raise errors.InvalidInputError(
                "A retry policy takes deadline, first_delay and longest_delay, in seconds; "
                f"got {retry!r:.200}."
            ) from None

    def run(self, attempt: Callable[[], _T]) -> _T:
        """Returns what `attempt` returns, once it does.

        Raises:
            StorageUnavailableError: It raised that until the deadline; the last one, with a note.
            Exception: Whatever else it raises, at once.
        """
        start = self.clock()
        attempts = 0
        while True:
            attempts += 1
            try:
                return attempt()
            except errors.StorageUnavailableError as error:
                elapsed = self.clock() - start
                if elapsed >= self.deadline:
                    if not hasattr(error, "__notes__"):  # By an inner loop of the same call.
                        error.add_note(f"Given up after {attempts} attempts in {elapsed:.1f} s.")
                    raise
                longest = min(self.longest_delay, self.first_delay * 2.0 ** min(attempts - 1, 60))
                delay = min(self.random() * longest, self.deadline - elapsed)
                _logger.info("Trying again in %.1f s: %s", delay, error)
            self.sleep(delay)
