"""Signals end a coroutine in good order."""

import asyncio
import os
import signal

import pytest
from typer.testing import CliRunner

from webtraj.cli import signals
from webtraj.cli.app import make_app
from webtraj.datasets import verification


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


def test_ctrl_c_says_that_the_command_can_be_run_again(tmp_path, monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(verification, "verify", interrupted)
    ended = CliRunner().invoke(make_app(), ["verify", str(tmp_path)])
    assert ended.exit_code == 130
    assert "run the same command again" in ended.output


def test_a_signal_says_how_to_resume(capsys):
    async def work():
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()

    with pytest.raises(signals.SignalReceivedError), signals.resumable("run: it --resume"):
        signals.run(work())
    assert capsys.readouterr().err.endswith("To resume, run: it --resume.\n")
