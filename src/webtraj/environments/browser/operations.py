"""Operation limits: the most concurrent browser work of each kind in a pool.

All pages of a pool may load, or be observed, at the same moment. A limit on a kind of work makes
the others wait for their turn, in order of arrival. Waiting does not count against the deadline of
the call.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Literal, get_args
from urllib.parse import urlsplit

from webtraj import errors as errors_lib
from webtraj.environments import actions as a

__all__ = ["Operation", "OperationLimits", "Operations", "Turns", "operation_of"]

Operation = Literal["allocate", "release", "navigate", "execute", "observe", "screenshot"]
"""The kinds of work. `observe` is the single call that reads a page: metadata, ac_tree and
page_metadata in one."""

_IN_HISTORY: Final = (a.GoBack, a.GoForward, a.Reload)
_OPENING: Final = (a.Goto, a.NewTab)
_IDLE: Final = (
    a.Answer,
    a.CursorPosition,
    a.InvalidAction,
    a.ReportInfeasible,
    a.Screenshot,
    a.SendMessage,
    a.Wait,
)
_MINUTE: Final = 60.0
_SITES_KEPT: Final = 1024
"""The number of remembered sites above which idle ones are forgotten."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OperationLimits:
    """The most concurrent operations of each kind; None or 0 for no limit.

    The names are those of WebGym's `http_pools`. Metadata, accessibility tree and page metadata are
    read in one call here, so the smallest of their limits applies.
    """

    metadata: int | None = None
    """Reading a page: its size;"""
    ac_tree: int | None = None
    """its tree of elements;"""
    page_metadata: int | None = None
    """its title, address and state."""
    navigate: int | None = None
    """Loading a page by its URL, and going back and forth."""
    allocate: int | None = None
    """Opening a context, and a browser if needed."""
    release: int | None = None
    """Closing a context."""
    screenshot: int | None = None
    """Capturing the viewport."""
    execute: int | None = None
    """Any other action on a page."""
    requests_per_minute: float | None = None
    """The most page loads by URL per site and minute, evenly spaced; None for no limit. The pages'
    own requests do not count."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            kind = int | float if field.name == "requests_per_minute" else int
            if value is not None and not (isinstance(value, kind) and value >= 0):
                raise errors_lib.InvalidInputError(
                    f"The operation limit {field.name!r} is {value!r}; expected a whole number, "
                    "or None or 0 for no limit."
                )

    def of(self, operation: Operation) -> int | None:
        """Return the limit of an operation; None for no limit.

        >>> OperationLimits(metadata=8, ac_tree=2).of("observe")
        2
        """
        if operation != "observe":
            limit: int | None = getattr(self, operation)
            return limit or None
        return min(filter(None, (self.metadata, self.ac_tree, self.page_metadata)), default=None)


class Operations:
    """The operations of one pool, which its leases share.

    Args:
        limits: The limit of each operation.
        clock: Gives the time in seconds.
        sleep: Waits for some seconds.
    """

    def __init__(
        self,
        limits: OperationLimits | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._sites: dict[str, _Site] = {}
        self._limits = OperationLimits()
        self._gates: dict[Operation, asyncio.Semaphore] = {}
        self.limit(limits or OperationLimits())

    @property
    def limits(self) -> OperationLimits:
        """The limits for new turns."""
        return self._limits

    def limit(self, limits: OperationLimits) -> None:
        """Change the limits for turns requested from now on."""
        if limits == self._limits:
            return  # Running turns still count.
        self._limits = limits
        self._gates = {}
        for operation in get_args(Operation):
            if (limit := limits.of(operation)) is not None:
                self._gates[operation] = asyncio.Semaphore(limit)

    def gate(self, operation: Operation) -> asyncio.Semaphore | None:
        """Return the gate of an operation; None if it has no limit."""
        return self._gates.get(operation)

    async def pace(self, url: str) -> float:
        """Wait until a page of a URL's site may be loaded; return the seconds waited."""
        rate = self._limits.requests_per_minute
        host = urlsplit(url).hostname if rate and url.startswith(("http:", "https:")) else None
        if not rate or not host:
            return 0.0
        self._forget_rested()
        site = self._sites.setdefault(host, _Site(free_at=self._clock()))
        asked = self._clock()
        async with site.line:
            while (rest := site.free_at - self._clock()) > 0:
                await self._sleep(rest)
            site.free_at = self._clock() + _MINUTE / rate
        return self._clock() - asked

    def _forget_rested(self) -> None:
        if len(self._sites) < _SITES_KEPT:
            return
        now = self._clock()
        self._sites = {
            host: site
            for host, site in self._sites.items()
            if site.line.locked() or site.free_at > now
        }


class Turns:
    """One lease's turns at its pool's operations, and its waiting time."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self.waited = 0.0
        """Seconds since they were last taken."""

    def at(self, operation: Operation | None) -> contextlib.AbstractAsyncContextManager[None]:
        """Return a context manager that waits for the lease's turn and ends it."""
        gate = None if operation is None else self._operations.gate(operation)
        return _NO_GATE if gate is None else _Turn(self, gate)

    async def pace(self, url: str) -> None:
        """Wait until a page of a URL's site may be loaded."""
        self.waited += await self._operations.pace(url)

    def take_waited(self) -> float:
        """Return the seconds that the lease has waited since the last call."""
        waited, self.waited = self.waited, 0.0
        return waited


_NO_GATE: Final = contextlib.nullcontext()


@dataclasses.dataclass(slots=True)
class _Turn(contextlib.AbstractAsyncContextManager[None]):
    """A place in the queue for a gate."""

    turns: Turns
    gate: asyncio.Semaphore

    async def __aenter__(self) -> None:
        if not self.gate.locked():
            await self.gate.acquire()
            return
        asked = time.perf_counter()
        try:
            await self.gate.acquire()
        finally:
            self.turns.waited += time.perf_counter() - asked

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.gate.release()


@dataclasses.dataclass(slots=True)
class _Site:
    """The time of a site's next load, and its waiting callers."""

    free_at: float
    line: asyncio.Lock = dataclasses.field(default_factory=asyncio.Lock)


def operation_of(action: a.Action) -> Operation | None:
    """Return the operation of an action; None if it does no work or takes its own turns.

    >>> operation_of(a.Click("12")), operation_of(a.GoBack()), operation_of(a.Wait(1))
    ('execute', 'navigate', None)
    """
    if isinstance(action, _IN_HISTORY):
        return "navigate"
    # A session takes its own turn when it opens a URL.
    return None if isinstance(action, _OPENING + _IDLE) else "execute"
