"""Doing some things at the same time, so many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

__all__ = ["all_of"]

_T = TypeVar("_T")


async def all_of(jobs: Sequence[Callable[[], Awaitable[_T]]], most: int) -> list[_T]:
    """Returns the results of some jobs, in their order; at most so many are under way at once.

    The first that fails ends the others, and its error is raised. So does being cancelled. When
    this returns or raises, none of them runs any more.
    """
    turns = asyncio.Semaphore(most)

    async def one(job: Callable[[], Awaitable[_T]]) -> _T:
        async with turns:
            return await job()

    tasks = [asyncio.ensure_future(one(job)) for job in jobs]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
