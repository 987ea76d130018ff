"""Signals end a coroutine in good order."""

import asyncio
import os
import signal

import pytest

from webtraj.cli import signals


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_signal_cancels_and_waits_for_the_cleanup(signum):
    events = []

    async def work():
        try:
            os.kill(os.getpid(), signum)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            events.append("cleaned up")

    with pytest.raises(signals.SignalReceivedError) as caught:
        signals.run(work())
    assert caught.value.signal == signum
    assert str(caught.value) == f"ended by {signum.name}"
    assert events == ["cleaned up"]


def test_second_interrupt_is_not_held_back():
    async def work():
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        signals.run(work())


def test_handlers_are_as_they_were_afterwards():
    before = [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)]

    async def work():
        return 5

    assert signals.run(work()) == 5
    after = [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)]
    assert after == before


def test_error_of_the_coroutine_is_raised_as_itself():
    async def work():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        signals.run(work())


def test_cancellation_without_a_signal_is_a_cancellation():
    async def work():
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        signals.run(work())
