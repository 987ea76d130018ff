"""Progress of long work, counted where it is done and reported to the caller's watcher.

Wrap a loop over episodes in `count_items`. Without a watcher, the default, it costs nothing.
Commands watch everything they call; see `webtraj.cli.progress_bar.WorkProgress`.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

__all__ = ["Progress", "count_items", "find_watcher", "watching"]

_Item = TypeVar("_Item")


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """The progress of some work.

    >>> Progress("Copying", 2, 3)
    Progress(what='Copying', done=2, total=3, size=0, ended=False)
    """

    what: str
    """The work, such as `Copying episodes`."""
    done: int
    """Items done."""
    total: int
    """Items in all; 0 if unknown."""
    size: int = 0
    """Bytes of the items done; 0 if unknown."""
    ended: bool = False
    """Whether the work has ended, completed or not."""


_watcher: contextvars.ContextVar[Callable[[Progress], object] | None] = contextvars.ContextVar(
    "webtraj_progress", default=None
)


@contextlib.contextmanager
def watching(watcher: Callable[[Progress], object]) -> Iterator[None]:
    """Call a function with the progress of work in this context.

    The function is called during the work and at its end, on any thread.

    >>> seen = []
    >>> with watching(seen.append):
    ...     copied = [size for size in count_items([3, 4], "Copying", 2, size=int)]
    >>> [(progress.done, progress.size, progress.ended) for progress in seen]
    [(0, 0, False), (1, 3, False), (2, 7, False), (2, 7, True)]
    """
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def find_watcher() -> Callable[[Progress], object] | None:
    """Return the function that `watching` set, if any."""
    return _watcher.get()


def count_items(
    items: Iterable[_Item],
    what: str,
    total: int,
    *,
    number: Callable[[_Item], int] = lambda item: 1,
    size: Callable[[_Item], int] = lambda item: 0,
) -> Iterator[_Item]:
    """Yield the items, and report how many are done.

    Args:
        items: The items.
        what: The work, such as `Copying episodes`.
        total: The number of items; 0 if unknown.
        number: Returns how many of `total` an item counts for. Default: one.
        size: Returns the size of an item in bytes. Default: 0, unknown.
    """
    watcher = _watcher.get()
    if watcher is None:
        yield from items
        return
    progress = Progress(what, 0, total)
    try:
        watcher(progress)
        for item in items:
            yield item
            progress = dataclasses.replace(
                progress, done=progress.done + number(item), size=progress.size + size(item)
            )
            watcher(progress)
    finally:
        watcher(dataclasses.replace(progress, ended=True))
