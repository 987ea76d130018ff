"""Handle SIGINT and SIGTERM: cancel a coroutine cleanly, or call a command's own handler."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

__all__ = ["SignalReceivedError", "handle_signals", "resumable", "run"]

_T = TypeVar("_T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class SignalReceivedError(Exception):
    """A signal ended the run, after a clean shutdown."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"ended by {signal.Signals(signum).name}")
        self.signal = signum
        """The signal's number."""


@contextlib.contextmanager
def handle_signals(handle: Callable[[int, Callable[[], None]], None]) -> Iterator[None]:
    """Call `handle` with each signal and a function that restores the signals' usual effect."""
    before = {signum: signal.getsignal(signum) for signum in _SIGNALS}

    def restore() -> None:
        for signum, handler in before.items():
            signal.signal(signum, handler)

    try:
        for signum in _SIGNALS:
            signal.signal(signum, lambda number, frame: handle(number, restore))
        yield
    finally:
        restore()


@contextlib.contextmanager
def resumable(how: str) -> Iterator[None]:
    """If a signal ends the work, print how to resume it."""
    try:
        yield
    except SignalReceivedError:
        said = f"Stopped. Finished work is kept. To resume, {how}."
        print(said, file=sys.stderr, flush=True)
        raise


def run(main: Coroutine[Any, Any, _T], *, stop: Callable[[], bool] | None = None) -> _T:
    """Run a coroutine as `asyncio.run` does; SIGINT and SIGTERM cancel it.

    A further signal, during the cleanup, has its usual effect.

    Args:
        main: The coroutine.
        stop: Called at the first signal. If it returns True, `main` ends by itself, and the next
            signal cancels it.

    Raises:
        SignalReceivedError: A signal cancelled it.
    """
    import asyncio  # Takes long to import; not every command runs a coroutine.

    return asyncio.run(_cancel_by_signals(main, stop))


async def _cancel_by_signals(main: Coroutine[Any, Any, _T], stop: Callable[[], bool] | None) -> _T:
    import asyncio

    loop = asyncio.get_running_loop()
    task = loop.create_task(main)
    received: list[int] = []

    def cancel(signum: int) -> None:
        nonlocal stop
        asked, stop = stop, None
        if asked is not None and asked():
            return
        received.append(signum)
        stop_listening()
        task.cancel()

    def stop_listening() -> None:
        for signum in _SIGNALS:
            loop.remove_signal_handler(signum)

    for signum in _SIGNALS:
        loop.add_signal_handler(signum, cancel, signum)
    try:
        return await task
    except asyncio.CancelledError:
        if received:
            raise SignalReceivedError(received[0]) from None
        raise
    finally:
        stop_listening()
