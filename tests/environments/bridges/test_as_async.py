"""The rules of `as_async`, one test a rule."""

import asyncio
import copy
import pickle
import subprocess
import sys
import threading

import dm_env
import gymnasium
import pytest

import webtraj
from webtraj import as_async, errors
from webtraj.testing import fakes


class _Gated(fakes.Catch):
    """Waits inside a call for as long as the test wants, and notes what was called where."""

    def __init__(self):
        super().__init__()
        self.calls = []
        self.threads = set()
        self.entered = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        self.color = "green"

    def _note(self, name):
        self.calls.append(name)
        self.threads.add(threading.current_thread())
        self.entered.set()
        assert self.gate.wait(60)

    def hold(self):
        self.entered.clear()
        self.gate.clear()

    async def reached(self):
        await asyncio.to_thread(self.entered.wait, 60)

    def reset(self):
        self._note("reset")
        return super().reset()

    def step(self, action):
        self._note(f"step {action}")
        return super().step(action)

    def observation_spec(self):
        self.threads.add(threading.current_thread())
        return super().observation_spec()

    def close(self):
        self._note("close")
        super().close()


class _Copied(_Gated):
    def snapshot(self):
        self._note("snapshot")
        return self._ball, self._paddle

    def restore(self, snapshot):
        self._note("restore")
        self._ball, self._paddle = snapshot
        return dm_env.transition(0.0, self._board())


@pytest.fixture(autouse=True)
def _no_thread_is_left_behind():
    yield
    assert [t for t in threading.enumerate() if t.name.startswith("as_")] == []


async def test_it_is_an_environment_with_the_inner_specs():
    async with as_async(fakes.Catch()) as env:
        assert isinstance(env, webtraj.Environment)
        assert env.observation_spec().shape == (5, 3)
        assert env.action_spec().num_values == 3
        assert env.reward_spec().shape == ()
        assert env.discount_spec().maximum == 1.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("miniwob/click-test", "got 'miniwob/click-test'"),
        (None, "got None"),
        (gymnasium.make("FrozenLake-v1"), "Use webtraj.from_gymnasium"),
    ],
)
def test_what_is_no_environment_is_refused(given, message):
    with pytest.raises(errors.InvalidInputError, match=message):
        as_async(given)


async def test_every_call_is_made_on_one_other_thread():
    inner = _Gated()
    async with as_async(inner) as env:
        env.observation_spec()
        await env.reset()
        await env.step(1)
        assert await env.call(threading.current_thread) in inner.threads
    assert len(inner.threads) == 1
    assert threading.current_thread() not in inner.threads


async def test_worlds_are_copied_on_that_thread_and_a_copy_begins_an_episode():
    inner = _Copied()
    async with as_async(inner) as env:
        await env.reset()
        copy = await env.snapshot()
        await _cancel_during(inner, env.step(0))
        inner.gate.set()
        assert (await env.restore(copy)).mid()
        assert (await env.step(1)).mid()
    assert inner.calls[:5] == ["reset", "snapshot", "step 0", "restore", "step 1"]
    assert len(inner.threads) == 1
    assert not hasattr(as_async(_Gated()), "snapshot")


async def _cancel_during(inner, call):
    inner.hold()
    task = asyncio.create_task(call)
    await inner.reached()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancelled_call_lets_its_task_go_at_once_and_the_next_waits_for_it():
    inner = _Gated()
    async with as_async(inner) as env:
        await env.reset()
        await _cancel_during(inner, env.step(0))
        reset = asyncio.create_task(env.reset())
        await asyncio.sleep(0)
        assert inner.calls == ["reset", "step 0"]
        inner.gate.set()
        assert (await reset).first()
        assert inner.calls == ["reset", "step 0", "reset"]
        assert (await env.step(1)).mid()


@pytest.mark.parametrize("cancelled", ["reset", "step"])
async def test_after_a_cancelled_call_step_resets_and_ignores_its_action(cancelled):
    inner = _Gated()
    async with as_async(inner) as env:
        await env.reset()
        await _cancel_during(inner, env.reset() if cancelled == "reset" else env.step(0))
        inner.gate.set()
        assert (await env.step(2)).first()
        assert "step 2" not in inner.calls
        assert (await env.step(2)).mid()


async def test_a_call_that_was_cancelled_before_its_turn_is_never_made_and_loses_the_episode():
    inner = _Gated()
    async with as_async(inner) as env:
        await env.reset()
        inner.hold()
        first = asyncio.create_task(env.step(0))
        await inner.reached()
        second = asyncio.create_task(env.step(1))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        inner.gate.set()
        assert (await first).mid()
        assert (await env.step(2)).first()
        assert inner.calls == ["reset", "step 0", "reset"]


async def test_exceptions_are_raised_as_they_are_and_the_environment_decides_what_follows():
    inner = fakes.Catch()
    async with as_async(inner) as env:
        await env.reset()
        with pytest.raises(ValueError, match="not all within bounds"):
            await env.step(7)
        assert (await env.step(1)).mid()


@pytest.mark.parametrize(
    ("raised", "seen"),
    [(StopIteration(5), RuntimeError), (KeyboardInterrupt(), KeyboardInterrupt)],
)
async def test_exceptions_that_futures_cannot_carry_arrive_nevertheless(raised, seen):
    class Raising(fakes.Catch):
        def reset(self):
            raise raised

    env = as_async(Raising())
    with pytest.raises(seen) as caught:
        await env.reset()
    assert raised in (caught.value, caught.value.__cause__)
    await env.close()


async def test_close_is_idempotent_and_reset_after_it_is_the_environments_affair():
    inner = _Gated()
    env = as_async(inner)
    await env.reset()
    await env.close()
    await env.close()
    assert inner.calls == ["reset", "close"]
    assert (await env.reset()).first()
    await env.close()
    assert inner.calls == ["reset", "close", "reset", "close"]


async def test_close_waits_for_a_call_that_was_cancelled():
    inner = _Gated()
    env = as_async(inner)
    await env.reset()
    await _cancel_during(inner, env.step(0))
    closing = asyncio.create_task(env.close())
    await asyncio.sleep(0)
    assert not inner.closed
    inner.gate.set()
    await closing
    assert inner.calls == ["reset", "step 0", "close"]


async def test_the_context_manager_tells_the_environment_of_an_exception_and_closes():
    class Guarded(fakes.Catch):
        seen = None

        def __exit__(self, exc_type, exc, traceback):
            self.seen = exc

    inner = Guarded()
    with pytest.raises(ValueError, match="in the body"):
        async with as_async(inner):
            raise ValueError("in the body")
    assert isinstance(inner.seen, ValueError)
    assert inner.closed


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_copies_are_refused_with_advice(duplicate):
    with pytest.raises(TypeError, match="Send a function that builds the environment"):
        duplicate(as_async(fakes.Catch()))


_HANGING = """
import asyncio, threading
import webtraj
from webtraj.environments import bridges
from webtraj.testing import fakes

bridges.EXIT_GRACE = 0.1

class Hanging(fakes.Catch):
    def step(self, action):
        threading.Event().wait()

async def main():
    env = webtraj.as_async(Hanging())
    await env.reset()
    try:
        await asyncio.wait_for(env.step(0), 0.1)
    except TimeoutError:
        print("gave up", flush=True)

asyncio.run(main())
"""


def test_an_environment_that_hangs_does_not_keep_python_from_exiting():
    done = subprocess.run(
        [sys.executable, "-c", _HANGING], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "gave up\n", "")
