"""Turns in the dataset's order, for what is worked on in any order."""

from __future__ import annotations

import asyncio

__all__ = ["Gate"]


class Gate:
    """Lets numbers pass one after the other, from 0, whenever they come. For one event loop.

    Each number must pass exactly once, also one that has no business there: the next waits for it.
    """

    def __init__(self) -> None:
        self._next = 0
        self._early: set[int] = set()
        self._waiting: dict[int, asyncio.Future[None]] = {}

    async def turn(self, number: int) -> None:
        """Waits until all numbers before have passed."""
        if number > self._next:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting[number] = waiter
            try:
                await waiter
            finally:
                self._waiting.pop(number, None)

    def passed(self, number: int) -> None:
        """Says that a number has passed, or will never come. Idempotent."""
        if number >= self._next:
            self._early.add(number)
        while self._next in self._early:
            self._early.remove(self._next)
            self._next += 1
        waiter = self._waiting.get(self._next)
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
