"""The rules of `as_sync`, one test a rule."""

import asyncio
import contextvars
import copy
import pickle
import signal
import subprocess
import sys
import threading

import dm_env
import pytest

from webtraj import as_sync, errors
from webtraj.testing import fakes

_FIRST = dm_env.restart(0.0)
_MID = dm_env.transition(0.0, 1.0)

_SETTING = contextvars.ContextVar("_SETTING", default="unset")


class _Probe(fakes.CatchEnvironment):
    """Notes where it runs."""

    def __init__(self):
        super().__init__()
        self.loops = set()
        self.threads = set()
        self.entered = 0
        self.exited = []
        self.color = "green"

    async def reset(self):
        self.loops.add(asyncio.get_running_loop())
        self.threads.add(threading.current_thread())
        return await super().reset()

    async def step(self, action):
        self.loops.add(asyncio.get_running_loop())
        self.threads.add(threading.current_thread())
        return await super().step(action)

    async def close(self):
        self.loops.add(asyncio.get_running_loop())
        await super().close()

    async def __aenter__(self):
        self.entered += 1
        return self

    async def __aexit__(self, exc_type, exc, traceback):
        self.exited.append(exc)
        await self.close()

    async def setting(self, *, suffix=""):
        return _SETTING.get() + suffix

    def plain(self):
        return "plain"


def _interrupt_main_thread():
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def _threads_of_bridges():
    return [thread for thread in threading.enumerate() if thread.name.startswith("as_")]


@pytest.fixture(autouse=True)
def _no_thread_is_left_behind():
    yield
    assert _threads_of_bridges() == []


def test_it_is_a_dm_env_environment_with_the_inner_specs():
    with as_sync(fakes.CatchEnvironment()) as env:
        assert isinstance(env, dm_env.Environment)
        assert env.observation_spec().shape == (5, 3)
        assert env.action_spec().num_values == 3
        assert env.reward_spec().shape == ()
        assert env.discount_spec().maximum == 1.0


def test_timesteps_pass_through_by_identity():
    inner = fakes.ScriptedEnvironment([_FIRST, _MID])
    with as_sync(inner) as env:
        assert env.reset() is _FIRST
        assert env.step("left") is _MID
    assert inner.calls[1] == fakes.Call("step", "left")


def test_the_environment_sees_one_loop_and_one_thread_from_first_call_to_close():
    inner = _Probe()
    with as_sync(inner) as env:
        env.reset()
        for _ in range(5):
            env.step(1)
    assert len(inner.loops) == 1
    assert len(inner.threads) == 1
    assert threading.current_thread() not in inner.threads


def test_exceptions_of_the_environment_are_raised_as_they_are():
    error = ValueError("no such button")
    with as_sync(fakes.ScriptedEnvironment([_FIRST, error, _MID])) as env:
        env.reset()
        with pytest.raises(ValueError) as caught:
            env.step(0)
        assert caught.value is error
        assert env.step(0) is _MID


class _SlowToCancel(fakes.ScriptedEnvironment):
    """Signals this process once its step waits, and cleans up in several turns when cancelled."""

    def __init__(self, script):
        super().__init__(script)
        self.cleaned_up = False

    async def step(self, action):
        asyncio.get_running_loop().call_soon(_interrupt_main_thread)
        try:
            return await super().step(action)
        finally:
            for _ in range(20):
                await asyncio.sleep(0.001)  # Waits, unlike a bare turn of the loop.
            self.cleaned_up = True


def test_an_interrupt_cancels_the_call_and_waits_until_it_has_ended():
    inner = _SlowToCancel([_FIRST, fakes.HANG, _MID])
    with as_sync(inner) as env:
        env.reset()
        with pytest.raises(KeyboardInterrupt):
            env.step("a")
        assert inner.cleaned_up, "the caller went on before the call had ended"


class _Stubborn(fakes.ScriptedEnvironment):
    """Signals twice: once when its step waits, once when that is cancelled and it goes on."""

    def __init__(self, script):
        super().__init__(script)
        self.release = threading.Event()
        self.busy = 0

    async def step(self, action):
        assert self.busy == 0, "two calls at once"
        self.busy += 1
        try:
            if action != "hang":
                return await super().step(action)
            asyncio.get_running_loop().call_soon(_interrupt_main_thread)
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                _interrupt_main_thread()
                while not self.release.is_set():
                    await asyncio.sleep(0)
                raise
        finally:
            self.busy -= 1


def test_a_second_interrupt_is_raised_at_once_and_the_next_call_waits_for_the_first():
    inner = _Stubborn([_FIRST, _MID])
    with as_sync(inner) as env:
        env.reset()
        with pytest.raises(KeyboardInterrupt):
            env.step("hang")
        assert inner.busy == 1
        threading.Timer(0.01, inner.release.set).start()
        assert env.step("left") is _MID
        assert inner.busy == 0


def test_a_call_from_its_own_loop_is_refused():
    class Reentrant(fakes.CatchEnvironment):
        async def reset(self):
            return bridge.reset()

        async def step(self, action):
            bridge.close()

    bridge = as_sync(Reentrant())
    with pytest.raises(errors.EnvironmentMisuseError, match="from its own event loop"):
        bridge.reset()
    with pytest.raises(errors.EnvironmentMisuseError, match="from its own event loop"):
        bridge.step(0)
    bridge.close()


def test_attributes_are_reachable_and_coroutine_functions_become_functions():
    with as_sync(_Probe()) as env:
        assert env.color == "green"
        assert env.plain() == "plain"
        assert env.setting(suffix="!") == "unset!"
        with pytest.raises(AttributeError, match="no attribute 'colour'"):
            _ = env.colour


def test_close_is_idempotent_and_reset_after_it_is_the_environments_affair():
    inner = _Probe()
    env = as_sync(inner)
    env.reset()
    env.close()
    env.close()
    assert inner.closed
    assert env.reset().first()
    assert len(inner.loops) == 2
    env.close()


def test_with_enters_and_leaves_the_environment_and_tells_it_of_an_exception():
    inner = _Probe()
    error = ValueError("in the body")
    with pytest.raises(ValueError, match="in the body"), as_sync(inner):
        raise error
    assert inner.entered == 1
    assert inner.exited == [error]
    assert inner.closed


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_copies_are_refused_with_advice(duplicate):
    with pytest.raises(TypeError, match="Send a function that builds the environment"):
        duplicate(as_sync(fakes.CatchEnvironment()))


_FORGETFUL = """
import webtraj
from webtraj.testing import fakes

class Loud(fakes.CatchEnvironment):
    async def close(self):
        await super().close()
        print("closed", flush=True)

class LoudCatch(fakes.Catch):
    def close(self):
        super().close()
        print("closed", flush=True)

env = {bridge}
{use}
"""


@pytest.mark.parametrize(
    ("bridge", "use"),
    [
        ("webtraj.as_sync(Loud())", "env.reset()"),
        ("webtraj.as_async(LoudCatch())", "import asyncio; asyncio.run(env.reset())"),
    ],
)
def test_python_closes_what_is_still_open_when_it_exits(bridge, use):
    done = subprocess.run(
        [sys.executable, "-c", _FORGETFUL.format(bridge=bridge, use=use)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "closed\n", "")
