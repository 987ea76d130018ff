"""An episode that ended is told of, also if its rollout is cancelled while it is being closed."""

import asyncio

import pytest

from webtraj import EndReason, Outcome
from webtraj.rollouts import RunSpec, collect, plan_episodes
from webtraj.rollouts.episode import EpisodePlay


class Observer:
    def __init__(self):
        self.results = []

    def rollout_planned(self, plan):
        pass

    def episode_ended(self, result):
        self.results.append(result)


@pytest.fixture
def closing(ladder, monkeypatch):
    """An event that is set when the first close of a played ladder begins, which never ends."""
    begun = asyncio.Event()

    async def close(self):
        if self.seeds and not begun.is_set():
            begun.set()
            await asyncio.Event().wait()

    monkeypatch.setattr(ladder, "close", close)
    return begun


async def test_an_error_s_end_is_told_of_though_its_close_is_cancelled(climber, closing, tmp_path):
    observer = Observer()
    rollout = asyncio.ensure_future(
        collect(
            RunSpec(preset="ladder/crash", out=tmp_path / "dataset"),
            agent=climber(),
            observer=observer,
        )
    )
    await closing.wait()
    rollout.cancel()
    with pytest.raises(asyncio.CancelledError):
        await rollout
    (result,) = observer.results
    assert (result.end_reason, result.outcome) == (EndReason.ERRORED, Outcome.ENV_ERROR)


async def test_a_cancelled_end_is_told_of_though_its_close_is_cancelled_too(climber, closing):
    results = []
    (planned,) = plan_episodes("ladder/hang")
    environment = planned.selection.make()
    playing = asyncio.ensure_future(
        EpisodePlay(planned=planned, environment=environment, agent=climber()).run(results.append)
    )
    while not environment.rung:
        await asyncio.sleep(0)
    playing.cancel()
    await closing.wait()
    playing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await playing
    (result,) = results
    assert (result.end_reason, result.outcome) == (EndReason.CANCELLED, Outcome.CANCELLED)
