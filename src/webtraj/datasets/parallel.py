"""Doing slow things, such as reading from a bucket, several at once and in order."""

from __future__ import annotations

import collections
import concurrent.futures
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

__all__ = ["map_in_order"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def map_in_order(
    function: Callable[[_Item], _Result], items: Iterable[_Item], *, workers: int
) -> Iterator[_Result]:
    """Yields `function(item)` of each item, in order, computed by threads ahead of time.

    At most `workers` results are waiting or being computed, so that memory stays bounded. An error
    is raised when its turn has come; what follows it is not computed.

    >>> list(map_in_order(str.upper, ["a", "b", "c"], workers=2))
    ['A', 'B', 'C']
    """
    executor = concurrent.futures.ThreadPoolExecutor(workers, "webtraj-parallel")
    waiting: collections.deque[concurrent.futures.Future[_Result]] = collections.deque()
    try:
        for item in items:
            waiting.append(executor.submit(function, item))
            if len(waiting) >= workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        executor.shutdown(cancel_futures=True)
