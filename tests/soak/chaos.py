"""Faults at random moments: what a long rollout meets in a month, in minutes.

The faults come from where real ones come from: signals to processes that the operating system finds
under this one, scripts that run in pages, cancellation from outside. Nothing knows the pool's
inside.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import random
import signal
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import psutil

from webtraj import errors
from webtraj.environments.browser.lease import Lease
from webtraj.environments.browser.pool import BrowserPool

_BUSY = "() => { for (;;); }"
_FLOOD = "() => { const all = []; for (;;) all.push(new Array(1 << 16).fill(all.length)); }"


class WatchedPool(BrowserPool):
    """A pool that knows its leases by sight, so that chaos can reach into their pages."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.seen: weakref.WeakSet[Lease] = weakref.WeakSet()

    async def lease(self, **options: Any) -> Lease:
        lease = await super().lease(**options)
        self.seen.add(lease)
        return lease


def processes_of(kind: str) -> list[psutil.Process]:
    """Returns our descendants of a kind: driver, browser, renderer, helper (zombies aside)."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and kind_of(process) == kind:
                found.append(process)
    return found


def kind_of(process: psutil.Process) -> str:
    """Says what a process is, by its command line."""
    command = process.cmdline()
    if process.name().startswith("node"):
        return "driver"
    if "python" in process.name() or process.name() == "sh":
        return "python"
    types = [word.removeprefix("--type=") for word in command if word.startswith("--type=")]
    if not types:
        return "browser"
    return "renderer" if types == ["renderer"] else "helper"


class Chaos:
    """Does one thing after another to the processes under this one, to pages, and to tasks.

    Args:
        pool: Whose pages it reaches into.
        source: Picks what, whom and when.
        gap: Fewest and most episodes that end between two faults.
    """

    def __init__(self, pool: WatchedPool, source: random.Random, *, gap: tuple[int, int]) -> None:
        self.done: collections.Counter[str] = collections.Counter()
        """How often each fault found a victim."""
        self.cancellable: set[asyncio.Task[Any]] = set()
        """Tasks that may be cancelled."""
        self._pool = pool
        self._random = source
        self._gap = gap
        self._scripts: set[asyncio.Task[Any]] = set()

    @property
    def faults(self) -> Mapping[str, tuple[int, Callable[[], bool]]]:
        """Each fault's weight, and what does it and says whether there was a victim."""
        return {
            "kill a browser": (4, lambda: self._signal("browser", signal.SIGKILL)),
            "kill a renderer": (6, lambda: self._signal("renderer", signal.SIGKILL)),
            "kill a helper process": (2, lambda: self._signal("helper", signal.SIGKILL)),
            "stop a browser": (3, lambda: self._signal("browser", signal.SIGSTOP)),
            "stop a helper process": (1, lambda: self._signal("helper", signal.SIGSTOP)),
            "stop a renderer": (2, lambda: self._signal("renderer", signal.SIGSTOP)),
            "kill the driver": (3, lambda: self._signal("driver", signal.SIGKILL)),
            "stop the driver": (1, lambda: self._signal("driver", signal.SIGSTOP)),
            "hang a page": (3, lambda: self._run_in_page(_BUSY)),
            "flood a page's memory": (3, lambda: self._run_in_page(_FLOOD)),
            "cancel an episode": (8, self._cancel),
        }

    async def strike(self, episodes_ended: Callable[[], int], progress: asyncio.Condition) -> None:
        """Does one fault after another, until it is cancelled.

        The moments follow the rollout's progress, not the clock: a slow machine gets no more faults
        an episode than a fast one.
        """
        while True:
            due = episodes_ended() + self._random.randint(*self._gap)
            async with progress:
                await progress.wait_for(lambda due=due: episodes_ended() >= due)
            names, weighted = zip(*self.faults.items(), strict=True)
            weights = [weight for weight, _ in weighted]
            (name,) = self._random.choices(names, weights)
            self.done[name] += self.faults[name][1]()

    async def end(self) -> None:
        """Waits for the scripts that still run in pages: those end with their pages."""
        await asyncio.gather(*self._scripts, return_exceptions=True)

    def _signal(self, kind: str, number: signal.Signals) -> bool:
        victims = processes_of(kind)
        if not victims:
            return False
        with contextlib.suppress(psutil.NoSuchProcess):
            self._random.choice(victims).send_signal(number)
            return True
        return False

    def _run_in_page(self, script: str) -> bool:
        leases = [lease for lease in self._pool.seen if lease.healthy]
        if not leases:
            return False
        task = asyncio.create_task(self._evaluate(self._random.choice(leases), script))
        self._scripts.add(task)
        task.add_done_callback(self._scripts.discard)
        return True

    async def _evaluate(self, lease: Lease, script: str) -> None:
        with contextlib.suppress(errors.BrowserError):
            await lease.run(lease.page.evaluate(script), what="run a fault's script")

    def _cancel(self) -> bool:
        running = [task for task in self.cancellable if not task.done()]
        if not running:
            return False
        self._random.choice(running).cancel()
        return True
