"""Work that is cut in pieces, which idle threads may help with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

__all__ = ["ByteBudget", "SharedWork"]

_T = TypeVar("_T")


class SharedWork(Generic[_T]):
    """One call for each of some items. Whoever began it also works, so it needs no other thread."""

    def __init__(self, call: Callable[[_T], None], items: Iterable[_T]) -> None:
        self._call = call
        self._items = iter(items)
        self._condition = threading.Condition()
        self._active = 0
        self._error: BaseException | None = None

    def help(self) -> None:
        """Makes calls until none is left to begin, or one has failed. Raises nothing."""
        while True:
            with self._condition:
                try:
                    item = next(self._items)
                except StopIteration:
                    return
                self._active += 1
            try:
                self._call(item)
            except BaseException as error:
                with self._condition:
                    self._error = self._error or error
                    self._items = iter(())
            finally:
                with self._condition:
                    self._active -= 1
                    self._condition.notify_all()

    def finish(self) -> None:
        """Works too, and waits until all calls that were begun have returned.

        Raises:
            BaseException: What the first call that failed has raised; no call was begun after it.
        """
        self.help()
        with self._condition:
            while self._active:
                self._condition.wait()
        if self._error is not None:
            raise self._error


class ByteBudget:
    """Keeps the bytes that threads hold in memory together below a limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._condition = threading.Condition()

    def take(self, size: int) -> None:
        """Waits until there is room for `size` bytes, or until nobody else holds any."""
        with self._condition:
            while self._held and self._held + size > self._limit:
                self._condition.wait()
            self._held += size

    def give_back(self, size: int) -> None:
        """Makes room again."""
        with self._condition:
            self._held -= size
            self._condition.notify_all()
