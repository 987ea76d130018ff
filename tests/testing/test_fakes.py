"""The fakes do what tests rely on. That the sound ones are sound, tests/conformance says."""

import asyncio

import dm_env
import pytest

from webtraj.testing import fakes

_FIRST = dm_env.restart(0.0)
_MID = dm_env.transition(0.0, 1.0)


def test_a_ball_can_be_caught_and_missed():
    rewards = set()
    for action in (0, 1, 2):
        env = fakes.Catch(seed=4)
        timestep = env.reset()
        while not timestep.last():
            timestep = env.step(action)
        rewards.add(timestep.reward)
    assert rewards == {1.0, -1.0}


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


async def test_a_cycling_script_begins_anew_at_reset_and_at_its_end():
    env = fakes.ScriptedEnvironment([_FIRST, _MID], cycle=True)
    assert [await env.reset(), await env.reset()] == [_FIRST, _FIRST]
    assert [await env.step(0), await env.step(0)] == [_MID, _FIRST]


async def test_a_hang_lasts_until_it_is_cancelled():
    env = fakes.ScriptedEnvironment([fakes.HANG, _FIRST])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(env.reset(), 0.01)
    assert await env.reset() is _FIRST
