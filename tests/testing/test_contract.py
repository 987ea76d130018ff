"""The contract, tested by expected failures: what is broken, and exactly which tests say so.

The first part of the table is dm_env's own (dm_env/test_utils_test.py).
"""

import asyncio
import unittest

import dm_env
import numpy as np
import pytest
from dm_env import specs

from rows import each
from webtraj.collectors.memory import MemoryTrajectoryCollector
from webtraj.environments import collecting_environment
from webtraj.testing import EnvironmentContract, fakes, messages

FIRST = dm_env.restart(observation=0.0)

MID = dm_env.transition(reward=0.0, observation=0.0, discount=0.0)

LAST = dm_env.truncation(reward=0.0, observation=0.0, discount=1.0)

END = dm_env.termination(reward=1.0, observation=0.0)

ALL = {name for name in dir(EnvironmentContract) if name.startswith("test_")}

OPTIONAL = {"test_invalid_action"}

ENDS = {
    "test_last_is_a_termination_or_a_truncation",
    "test_step_after_last_begins_an_episode",
}

# What checks timesteps after FIRST, and what checks FIRST itself.
STEPPING = {
    "test_cancelled_reset",
    "test_cancelled_step",
    "test_close_is_idempotent",
    "test_emitted_observations_do_not_change",
    "test_longer_action_sequence",
    "test_recording_leaves_no_open_episode",
    "test_reset_in_the_middle_of_an_episode",
    "test_step_after_reset",
    "test_step_on_fresh_environment",
    *ENDS,
}

STARTING = STEPPING | {
    "test_async_with_returns_an_environment_and_closes_it",
    "test_reset",
    "test_reset_after_close_begins_an_episode_or_raises",
}


def outcomes(contract):
    """Runs all tests of a contract; returns the names of those that failed, and were skipped."""
    failed, skipped = {}, set()
    for name in sorted(ALL):
        try:
            getattr(contract, name)()
        except unittest.SkipTest:
            skipped.add(name)
        except Exception as error:
            failed[name] = str(error)
    return failed, skipped


def contract_of(make, *, recorded=False, **attributes):
    class Contract(EnvironmentContract):
        time_limit = 20.0

        def make_environment(self):
            env = make()
            if not recorded:
                return env
            return collecting_environment.TrajectoryCollectingEnvironment(
                env, MemoryTrajectoryCollector()
            )

    for name, value in attributes.items():
        setattr(Contract, name, value)
    return Contract()


def scripted(*timesteps, **kwargs):
    return lambda: fakes.ScriptedEnvironment(timesteps, cycle=True, **kwargs)


class _Subclass(fakes.CatchEnvironment):
    """Catch with a fault."""


class _SwallowsCancellation(_Subclass):
    async def step(self, action):
        try:
            return await super().step(action)
        except asyncio.CancelledError:
            return MID._replace(observation=np.zeros((5, 3)))


class _LateTimestep(_Subclass):
    """A cancelled step is delivered by the next reset."""

    late = None

    async def step(self, action):
        try:
            return await super().step(action)
        except asyncio.CancelledError:
            self.late = MID._replace(observation=np.zeros((5, 3)))
            raise

    async def reset(self):
        late, self.late = self.late, None
        return late or await super().reset()


class _Hangs(_Subclass):
    async def reset(self):
        await asyncio.get_running_loop().create_future()


class _HangsWhenCancelled(_Subclass):
    """A cancelled reset leaves a lock behind."""

    def __init__(self):
        super().__init__()
        self.lock = asyncio.Lock()

    async def reset(self):
        await self.lock.acquire()
        timestep = await super().reset()
        self.lock.release()
        return timestep


class _ReusesItsBoard(_Subclass):
    def __init__(self):
        super().__init__()
        self.board = np.zeros((5, 3))

    def _reused(self, timestep):
        self.board[:] = timestep.observation
        return timestep._replace(observation=self.board)

    async def reset(self):
        return self._reused(await super().reset())

    async def step(self, action):
        return self._reused(await super().step(action))


class _ClosesOnce(_Subclass):
    async def close(self):
        if self.closed:
            raise RuntimeError("closed already")
        await super().close()


class _SwallowsExceptions(_Subclass):
    async def __aexit__(self, exc_type, exc, traceback):
        await self.close()
        return True


class _BadAfterClose(_Subclass):
    async def reset(self):
        timestep = await super().reset()
        return timestep._replace(reward=0.0) if self.was_closed else timestep

    was_closed = False

    async def close(self):
        self.was_closed = True
        await super().close()


class _RaisesAfterLast(_Subclass):
    over = True

    async def reset(self):
        self.over = False
        return await super().reset()

    async def step(self, action):
        if self.over:
            raise RuntimeError("reset first")
        timestep = await super().step(action)
        self.over = timestep.last()
        return timestep


class _StuckAfterError(_Subclass):
    broken = False

    async def reset(self):
        if self.broken:
            raise RuntimeError("broken for good")
        return await super().reset()

    async def step(self, action):
        try:
            return await super().step(action)
        except ValueError:
            self.broken = True
            raise


class _MixedDiscount(fakes.ScriptedEnvironment):
    def discount_spec(self):
        return [specs.BoundedArray((), float, 0.0, 1.0), specs.BoundedArray((), float, 0.0, 1.0)]


def _mixed():
    return _MixedDiscount(
        [FIRST, MID._replace(discount=[1.0, 1.0]), LAST._replace(discount=[0.0, 1.0])], cycle=True
    )


SOUND = {
    "catch": fakes.CatchEnvironment,
    "synchronous catch": fakes.Catch,
    "ends by truncation": scripted(FIRST, MID, MID, LAST),
    "ends by termination": scripted(FIRST, MID, END),
    "no end within reach": scripted(FIRST, *[MID] * 40),
    "mid with discount 0": scripted(FIRST, MID._replace(discount=0.0), LAST),
}

BROKEN = {
    # The order of step types.
    "two FIRST in a row": (
        scripted(FIRST, FIRST, MID, MID, LAST),
        STEPPING
        - {"test_close_is_idempotent", "test_emitted_observations_do_not_change"}
        - {"test_last_is_a_termination_or_a_truncation"},
        messages.STEP_AFTER_FIRST_MUST_NOT_RETURN_FIRST,
    ),
    "starts with MID": (
        scripted(MID, MID, LAST),
        STARTING,
        messages.RESET_MUST_RETURN_FIRST.format(1),
    ),
    "MID after LAST": (
        scripted(FIRST, MID, LAST, MID),
        {"test_longer_action_sequence", "test_step_after_last_begins_an_episode"},
        messages.FIRST_MUST_COME_AFTER_LAST,
    ),
    "FIRST after MID": (
        scripted(FIRST, MID, FIRST),
        {"test_longer_action_sequence", "test_recording_leaves_no_open_episode"},
        messages.FIRST_MUST_ONLY_COME_AFTER_LAST,
    ),
    # The contents of timesteps.
    "FIRST has a reward": (
        scripted(FIRST._replace(reward=1.0), MID, MID, LAST),
        STARTING,
        messages.FIRST_MUST_NOT_HAVE_REWARD,
    ),
    "FIRST has a discount": (
        scripted(FIRST._replace(discount=1.0), MID, MID, LAST),
        STARTING,
        messages.FIRST_MUST_NOT_HAVE_DISCOUNT,
    ),
    "reward of a wrong type": (
        scripted(FIRST, MID._replace(reward=False), MID, LAST),
        STEPPING - {"test_recording_leaves_no_open_episode"},
        "failed validation",
    ),
    "discount out of range": (
        scripted(FIRST, MID._replace(discount=1.5), MID, LAST),
        STEPPING,
        "failed validation",
    ),
    "observation of a wrong shape": (
        scripted(FIRST._replace(observation=np.zeros(2)), MID, MID, LAST),
        STARTING - {"test_recording_leaves_no_open_episode"},
        "failed validation",
    ),
    "observation of another structure": (
        scripted(FIRST, MID, LAST, observation_spec={"text": specs.StringArray(())}),
        STARTING - {"test_recording_leaves_no_open_episode"},
        "must have the structure of its spec",
    ),
    "timestep of another type": (
        scripted(tuple(FIRST), MID, LAST),
        STARTING,
        "",
    ),
    "step type of another type": (
        scripted(FIRST._replace(step_type="FIRST"), MID, LAST),
        STARTING - {"test_recording_leaves_no_open_episode"},
        messages.MUST_HAVE_A_STEP_TYPE.format("FIRST"),
    ),
    "shape of ARES": (
        fakes.AresEnvironment,
        ALL - OPTIONAL - {"test_close_on_fresh_environment"},
        "",
    ),
    # How an episode ends.
    "termination for one, truncation for another": (
        _mixed,
        {"test_last_is_a_termination_or_a_truncation"},
        "throughout",
    ),
    "raises after LAST": (
        _RaisesAfterLast,
        {
            "test_longer_action_sequence",
            "test_step_after_last_begins_an_episode",
            "test_step_on_fresh_environment",
            "test_emitted_observations_do_not_change",
        },
        "reset first",
    ),
    "changes an emitted observation": (
        _ReusesItsBoard,
        {"test_emitted_observations_do_not_change"},
        messages.OBSERVATION_MUST_NOT_CHANGE,
    ),
    # Close.
    "close raises": (
        scripted(FIRST, MID, LAST, close_error=OSError("busy")),
        ALL,
        "busy",
    ),
    "close raises the second time": (
        _ClosesOnce,
        {
            "test_close_on_fresh_environment",
            "test_close_is_idempotent",
            "test_async_with_returns_an_environment_and_closes_it",
            "test_recording_leaves_no_open_episode",
        },
        "closed already",
    ),
    "swallows exceptions": (
        _SwallowsExceptions,
        {"test_async_with_returns_an_environment_and_closes_it"},
        messages.EXIT_MUST_LET_EXCEPTIONS_OUT.format("nothing"),
    ),
    "half alive after close": (
        _BadAfterClose,
        {"test_reset_after_close_begins_an_episode_or_raises"},
        messages.FIRST_MUST_NOT_HAVE_REWARD,
    ),
    # Cancellation and errors.
    "swallows cancellation": (
        _SwallowsCancellation,
        {"test_cancelled_step"},
        messages.CANCELLATION_MUST_NOT_BE_SWALLOWED,
    ),
    "delivers a late timestep": (
        _LateTimestep,
        {"test_cancelled_step"},
        messages.RESET_MUST_RETURN_FIRST.format(1),
    ),
}


# The recorder's `async with` lets exceptions out, whatever the environment inside does.
MENDED_BY_RECORDING = {"swallows exceptions"}


@pytest.mark.parametrize("recorded", [False, True], ids=["bare", "recorded"])
@pytest.mark.parametrize("name", SOUND)
def test_a_sound_environment_passes(name, recorded):
    failed, skipped = outcomes(contract_of(SOUND[name], recorded=recorded))
    assert failed == {}
    assert skipped == OPTIONAL | (ENDS if name == "no end within reach" else set())


@each("recorded", [False, True])
@each("name", BROKEN)
def test_a_broken_environment_fails_exactly_the_expected_tests(name, recorded):
    make, expected, message = BROKEN[name]
    failed, _ = outcomes(contract_of(make, recorded=recorded))
    if recorded and name in MENDED_BY_RECORDING:
        assert failed == {}
        return
    assert set(failed) == expected
    assert any(message in text for text in failed.values())


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (_Hangs, "test_reset"),
        (_Hangs, "test_recording_leaves_no_open_episode"),
        (_HangsWhenCancelled, "test_cancelled_reset"),
    ],
)
def test_what_hangs_fails(make, name):
    with pytest.raises(AssertionError, match=r"did not finish within 0\.1 s"):
        getattr(contract_of(make, time_limit=0.1), name)()


def test_an_environments_own_timeout_is_not_taken_for_a_hang():
    contract = contract_of(scripted(TimeoutError("no answer from the page")))
    with pytest.raises(TimeoutError, match="no answer from the page"):
        contract.test_reset()


@pytest.mark.parametrize(
    ("timesteps", "ends", "sound"),
    [
        ([FIRST, MID, LAST], "truncated", True),
        ([FIRST, MID, LAST], "terminated", False),
        ([FIRST, MID, END], "terminated", True),
        ([FIRST, MID, END], "truncated", False),
    ],
)
def test_the_way_an_episode_must_end_can_be_demanded(timesteps, ends, sound):
    failed, _ = outcomes(contract_of(scripted(*timesteps), ends=ends))
    assert set(failed) == (set() if sound else {"test_last_is_a_termination_or_a_truncation"})


@pytest.mark.parametrize(
    ("make", "failing"),
    [(fakes.CatchEnvironment, set()), (_StuckAfterError, {"test_invalid_action"})],
)
def test_an_invalid_action_must_leave_the_environment_usable(make, failing):
    failed, skipped = outcomes(contract_of(make, make_invalid_action=lambda _, __: 7))
    assert set(failed) == failing
    assert skipped == set()


class _Ladder:
    """No base class, specs or `close`."""

    over = True

    def reset(self):
        self.rung, self.over = 0, False
        return dm_env.restart({"rung": 0})

    def step(self, action):
        if self.over:
            return self.reset()
        self.rung += 1
        self.over = self.rung == 3
        made = dm_env.termination if self.over else dm_env.transition
        return made(float(self.over), {"rung": self.rung})


class _AsyncLadder(_Ladder):
    async def reset(self):
        return super().reset()

    async def step(self, action):
        return super().reset() if self.over else super().step(action)


def test_specs_and_close_are_optional():
    for environment in (_Ladder, _AsyncLadder):

        class Contract(EnvironmentContract, unittest.TestCase):
            make_environment = staticmethod(environment)
            ends = "terminated"

            def make_action(self, environment):
                return "up"

        class WithoutActions(Contract):
            make_action = EnvironmentContract.make_action

        for tests in (Contract, WithoutActions):
            result = unittest.TestResult()
            unittest.defaultTestLoader.loadTestsFromTestCase(tests).run(result)
            assert not result.errors + result.failures
        reasons = [reason for _, reason in result.skipped]
        assert messages.NO_ACTION_SPEC in reasons
