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
