"""dm_env's own conformance tests over webtraj's environments, bare, recorded and recorded twice.

And over broken ones: what fails of them bare must fail of them recorded, no less and no more.
"""

import unittest

import dm_env
import gymnasium
import numpy as np
import pytest
from absl.testing import absltest
from dm_env import test_utils

from rows import each
from webtraj import as_async, as_sync, from_gymnasium
from webtraj.collectors.memory import MemoryTrajectoryCollector
from webtraj.environments import collecting_environment
from webtraj.testing import assert_no_open_episode, assert_valid_trajectory, fakes

_FIRST = dm_env.restart(observation=0.0)
_MID = dm_env.transition(reward=0.0, observation=0.0)
_LAST = dm_env.termination(reward=1.0, observation=0.0)

_TESTS = {
    "test_longer_action_sequence",
    "test_reset",
    "test_step_after_reset",
    "test_step_on_fresh_environment",
}
_STEPPING = _TESTS - {"test_reset"}


def _click_test():
    from webtraj.environments import miniwob

    return miniwob.MiniwobEnvironment("click-test", max_steps=3)


SOUND = {
    "catch": fakes.CatchEnvironment,
    "catch, through both bridges": lambda: as_async(fakes.Catch()),
    "catch, through both bridges twice": lambda: as_async(as_sync(fakes.CatchEnvironment())),
    "gymnasium: FrozenLake": lambda: from_gymnasium(gymnasium.make("FrozenLake-v1"), seed=3),
    "gymnasium: CartPole": lambda: from_gymnasium(gymnasium.make("CartPole-v1"), seed=3),
    "gymnasium: Blackjack": lambda: from_gymnasium(gymnasium.make("Blackjack-v1"), seed=3),
    "miniwob: click-test": pytest.param(
        _click_test, marks=pytest.mark.browser, id="miniwob: click-test"
    ),
}

BROKEN = {
    "two FIRST in a row": ([_FIRST, _FIRST, _MID, _LAST], _STEPPING),
    "starts with MID": ([_MID, _MID, _LAST], _TESTS),
    "MID after LAST": ([_FIRST, _MID, _LAST, _MID], {"test_longer_action_sequence"}),
    "FIRST after MID": ([_FIRST, _MID, _FIRST], {"test_longer_action_sequence"}),
    "FIRST has a reward": ([_FIRST._replace(reward=0.0), _MID, _LAST], _TESTS),
    "FIRST has a discount": ([_FIRST._replace(discount=1.0), _MID, _LAST], _TESTS),
    "reward of a wrong type": (
        [_FIRST, _MID._replace(reward=False), _LAST],
        _STEPPING,
    ),
    "discount out of range": (
        [_FIRST, _MID._replace(discount=1.5), _LAST],
        _STEPPING,
    ),
    "no observation": ([_FIRST, _MID._replace(observation=None), _LAST], _STEPPING),
    "observation of a wrong shape": ([_FIRST._replace(observation=np.zeros(2)), _MID], _TESTS),
}


def _recorded(environment, collector, times):
    for _ in range(times):
        environment = collecting_environment.TrajectoryCollectingEnvironment(environment, collector)
    return environment


def _outcomes(make, *, times):
    """Runs the mixin; returns its result, and the collector if the environment was recorded."""
    collector = MemoryTrajectoryCollector()

    class Conformance(test_utils.EnvironmentTestMixin, absltest.TestCase):
        def make_object_under_test(self):
            return as_sync(_recorded(make(), collector, times))

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Conformance).run(result)
    assert result.testsRun == len(_TESTS)
    return result, collector


@pytest.mark.gate
@pytest.mark.parametrize(
    "times",
    [
        pytest.param(0, id="bare", marks=pytest.mark.slow),
        pytest.param(1, id="recorded"),
        pytest.param(2, id="recorded twice", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    "make",
    [
        value if hasattr(value, "marks") else pytest.param(value, id=name)
        for name, value in SOUND.items()
    ],
)
def test_the_environment_conforms(make, times):
    result, collector = _outcomes(make, times=times)
    assert [text for _, text in result.failures + result.errors] == []
    assert_no_open_episode(collector)
    # Per test of the mixin: 2 resets; 1 step that resets; 2 resets; at least 2 more.
    assert len(collector.trajectories) >= 7 * times
    for trajectory in collector.trajectories:
        assert_valid_trajectory(trajectory)


@each("times", [0, 1, 2])
@each("name", BROKEN)
def test_a_broken_environment_fails_exactly_the_expected_tests(name, times):
    timesteps, expected = BROKEN[name]
    result, collector = _outcomes(
        lambda: fakes.ScriptedEnvironment(timesteps, cycle=True), times=times
    )
    failed = {case._testMethodName for case, _ in result.failures + result.errors}
    assert failed == expected
    assert_no_open_episode(collector)


@pytest.mark.parametrize("bridges", [lambda env: env, lambda env: as_async(as_sync(env))])
def test_timesteps_pass_through_recorder_and_bridges_by_identity(bridges):
    collector = MemoryTrajectoryCollector()
    inner = fakes.ScriptedEnvironment([_FIRST, _MID, _LAST])
    with as_sync(_recorded(bridges(inner), collector, 2)) as env:
        assert env.reset() is _FIRST
        assert env.step(0) is _MID
        assert env.step(0) is _LAST
    assert [trajectory.total_reward for trajectory in collector.trajectories] == [1.0, 1.0]
