"""The fakes do what tests rely on. That the sound ones are sound, tests/conformance says."""

import asyncio

import dm_env
import pytest

import webtraj
from webtraj import errors
from webtraj.testing import fakes

_FIRST = dm_env.restart(0.0)
_MID = dm_env.transition(0.0, 1.0)


@pytest.mark.parametrize(
    "env",
    [fakes.CatchEnvironment(), fakes.ScriptedEnvironment([])],
    ids=lambda env: type(env).__name__,
)
def test_the_fakes_follow_the_protocol(env):
    assert isinstance(env, webtraj.Environment)


def test_a_ball_can_be_caught_and_missed():
    rewards = set()
    for action in (0, 1, 2):
        env = fakes.Catch(seed=4)
        timestep = env.reset()
        while not timestep.last():
            timestep = env.step(action)
        rewards.add(timestep.reward)
    assert rewards == {1.0, -1.0}


def test_games_of_one_seed_are_alike():
    games = [fakes.Catch(columns=9, seed=seed) for seed in (5, 5, 6)]
    balls = [[int(game.reset().observation[0].argmax()) for _ in range(8)] for game in games]
    assert balls[0] == balls[1]
    assert balls[0] != balls[2]


async def test_a_script_is_played_whatever_is_called():
    error = ValueError("as scripted")
    env = fakes.ScriptedEnvironment([_FIRST, _MID, error, _MID])
    assert await env.reset() is _FIRST
    assert await env.step("a") is _MID
    with pytest.raises(ValueError, match="as scripted"):
        await env.step("b")
    assert await env.reset() is _MID
    await env.close()
    assert env.calls == [
        fakes.Call("reset"),
        fakes.Call("step", "a"),
        fakes.Call("step", "b"),
        fakes.Call("reset"),
        fakes.Call("close"),
    ]


async def test_a_script_at_its_end_says_so():
    with pytest.raises(errors.EnvironmentMisuseError, match="the script's 0 entries were used up"):
        await fakes.ScriptedEnvironment([]).reset()


async def test_a_cycling_script_begins_anew_at_reset_and_at_its_end():
    env = fakes.ScriptedEnvironment([_FIRST, _MID], cycle=True)
    assert [await env.reset(), await env.reset()] == [_FIRST, _FIRST]
    assert [await env.step(0), await env.step(0)] == [_MID, _FIRST]


async def test_a_hang_lasts_until_it_is_cancelled():
    env = fakes.ScriptedEnvironment([fakes.HANG, _FIRST])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(env.reset(), 0.01)
    assert await env.reset() is _FIRST


async def test_the_shape_of_ares():
    env = fakes.AresEnvironment(length=2, truncate=True)
    with pytest.raises(RuntimeError, match="reset"):
        await env.step("answer")
    assert await env.reset() == ("FIRST", 0.0, 1.0, "question 0")
    assert await env.step("answer") == ("MID", 0.0, 1.0, "question 1")
    assert await env.step("answer") == ("LAST", 1.0, 1.0, None)
    with pytest.raises(RuntimeError, match="reset"):
        await env.step("answer")
