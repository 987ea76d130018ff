"""The rules of `from_gymnasium`, one test a rule."""

import subprocess
import sys
import threading

import dm_env
import gymnasium
import numpy as np
import pytest
from dm_env import specs
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from rows import each
from webtraj import EndReason, errors, from_gymnasium
from webtraj.collectors.memory import MemoryTrajectoryCollector
from webtraj.environments import collecting_environment
from webtraj.environments import gymnasium as conversion
from webtraj.testing import assert_ended, assert_valid_trajectory, assertions


class _Walk(gymnasium.Env):
    """Walks right; the last place terminates; the given step truncates."""

    observation_space = spaces.Dict({"place": spaces.Discrete(9), "goal": spaces.Text(20)})
    action_space = spaces.Discrete(2)

    def __init__(self, *, terminate_at=3, truncate_at=100, fail_at=-1):
        self.terminate_at = terminate_at
        self.truncate_at = truncate_at
        self.fail_at = fail_at
        self.seeds = []
        self.actions = []
        self.threads = set()
        self.closed = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.threads.add(threading.current_thread())
        self.seeds.append(seed)
        self.place = self.taken = 0
        return self._observation(), {"fresh": True}

    def step(self, action):
        self.threads.add(threading.current_thread())
        self.actions.append(action)
        self.taken += 1
        if self.taken == self.fail_at:
            raise RuntimeError("the simulator died")
        self.place += int(action)
        terminated = self.place >= self.terminate_at
        return (
            self._observation(),
            np.float32(0.5),
            terminated,
            self.taken >= self.truncate_at,
            {"taken": self.taken},
        )

    def close(self):
        self.closed += 1

    def _observation(self):
        return {"place": self.place, "goal": "walk right"}


@pytest.mark.parametrize(
    ("limits", "discount", "reason"),
    [
        ({"terminate_at": 2}, 0.0, EndReason.TERMINATED),
        ({"truncate_at": 2}, 1.0, EndReason.TRUNCATED),
        ({"terminate_at": 2, "truncate_at": 2}, 0.0, EndReason.TERMINATED),
    ],
    ids=["terminated", "truncated", "both"],
)
async def test_ends_become_discounts(limits, discount, reason):
    collector = MemoryTrajectoryCollector()
    env = collecting_environment.TrajectoryCollectingEnvironment(
        from_gymnasium(_Walk(**limits)), collector
    )
    async with env:
        first = await env.reset()
        assert first == dm_env.restart(first.observation)
        middle = await env.step(1)
        assert middle == dm_env.transition(0.5, middle.observation, discount=1.0)
        last = await env.step(1)
        assert last == dm_env.truncation(0.5, last.observation, discount=discount)
        assert type(last.reward) is float
    assert_ended(collector.trajectories[0], reason)
    assert_valid_trajectory(collector.trajectories[0])


async def test_step_on_a_fresh_or_finished_environment_resets_and_ignores_its_action():
    inner = _Walk(terminate_at=1)
    async with from_gymnasium(inner) as env:
        assert (await env.step(1)).first()
        assert (await env.step(1)).last()
        assert (await env.step(1)).first()
    assert inner.actions == [1]


async def test_every_call_is_made_on_one_thread_and_close_closes_once():
    inner = _Walk()
    env = from_gymnasium(inner)
    await env.reset()
    await env.step(1)
    await env.close()
    await env.close()
    assert len(inner.threads) == 1
    assert threading.current_thread() not in inner.threads
    assert inner.closed == 1


@pytest.mark.parametrize(("seed", "seeds"), [(7, [7, 8, 9]), (0, [0, 1, 2]), (None, [None] * 3)])
async def test_episode_k_is_reset_with_seed_plus_k(seed, seeds):
    inner = _Walk(terminate_at=1)
    collector = MemoryTrajectoryCollector()
    env = collecting_environment.TrajectoryCollectingEnvironment(
        from_gymnasium(inner, seed=seed), collector
    )
    async with env:
        await env.reset()
        await env.reset()
        await env.step(1)
        await env.step(0)
    assert inner.seeds == seeds
    assert [trajectory.info.seed for trajectory in collector.trajectories] == seeds


async def test_a_seed_that_is_set_is_that_of_the_next_episode_alone():
    inner = _Walk()
    async with from_gymnasium(inner, seed=7) as env:
        env.set_seed(100)
        assert env.describe_episode()["seed"] == 100
        await env.reset()
        assert env.describe_episode()["seed"] == 100
        await env.reset()
    assert inner.seeds == [100, 8]


async def test_the_record_names_environment_goal_and_versions():
    collector = MemoryTrajectoryCollector()
    frozen_lake = gymnasium.make("FrozenLake-v1")
    for inner in (_Walk(), frozen_lake):
        env = collecting_environment.TrajectoryCollectingEnvironment(
            from_gymnasium(inner), collector
        )
        async with env:
            await env.reset()
    walk, lake = (trajectory.info for trajectory in collector.trajectories)
    assert (walk.environment, walk.goal) == ("_Walk", "walk right")
    assert (lake.environment, lake.task, lake.goal) == ("FrozenLake-v1", "FrozenLake-v1", "")
    assert lake.versions["gymnasium"] == gymnasium.__version__


@pytest.mark.parametrize("given", ["FrozenLake-v1", None, gymnasium.make_vec("FrozenLake-v1")])
def test_what_is_no_gymnasium_environment_is_refused(given):
    with pytest.raises(errors.InvalidInputError, match=r"takes a gymnasium\.Env instance"):
        from_gymnasium(given)


def test_without_gymnasium_the_error_names_the_extra():
    code = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "import webtraj\n"
        "try: webtraj.from_gymnasium(object())\n"
        "except webtraj.errors.MissingDependencyError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert errors.install_command("gymnasium") in done.stdout


SPACES = {
    "box": (spaces.Box(-1.0, 1.0, (2, 3), np.float32), specs.BoundedArray),
    "unbounded box": (spaces.Box(-np.inf, np.inf, (4,), np.float64), specs.BoundedArray),
    "image": (spaces.Box(0, 255, (8, 8, 3), np.uint8), specs.BoundedArray),
    "discrete": (spaces.Discrete(5), specs.DiscreteArray),
    "discrete from -2": (spaces.Discrete(5, start=-2), specs.BoundedArray),
    "multi-discrete": (spaces.MultiDiscrete([3, 4]), specs.BoundedArray),
    "multi-discrete from 1": (spaces.MultiDiscrete([3, 4], start=[1, 2]), specs.BoundedArray),
    "multi-binary": (spaces.MultiBinary(4), specs.BoundedArray),
    "text": (spaces.Text(12), conversion.TextSpec),
    "dict": (spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Text(3)}), dict),
    "tuple": (spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1, (2,))]), tuple),
    "nested": (spaces.Dict({"a": spaces.Tuple([spaces.Dict({"b": spaces.Discrete(3)})])}), dict),
    "sequence": (spaces.Sequence(spaces.Discrete(3)), conversion.SpaceSpec),
    "graph": (spaces.Graph(spaces.Discrete(3), None), conversion.SpaceSpec),
    "one of": (spaces.OneOf([spaces.Discrete(3), spaces.Text(3)]), conversion.SpaceSpec),
}


@each("name", SPACES)
@given(seed=st.integers(0, 2**31))
def test_what_a_space_contains_its_spec_accepts_and_back(name, seed):
    space, kind = SPACES[name]
    spec = conversion.to_spec(space, "observation")
    assert isinstance(spec, kind)
    space.seed(seed)
    assertions.validate(space.sample(), spec)
    assert conversion.to_space(assertions.generate(spec), space) in space


@each(
    ("space", "value"),
    [
        (spaces.Discrete(5), 5),
        (spaces.Discrete(5, start=-2), 3),
        (spaces.Box(0.0, 1.0, (2,)), np.full(2, 1.5, np.float32)),
        (spaces.MultiDiscrete([3, 4]), np.array([3, 0])),
        (spaces.Text(3), 7),
        (spaces.Text(3), "four"),
        (spaces.Text(3, charset="ab"), "abc"),
        (spaces.Sequence(spaces.Discrete(3)), (0, 3)),
    ],
)
def test_what_a_space_does_not_contain_its_spec_refuses(space, value):
    with pytest.raises(ValueError, match="for spec observation"):
        conversion.to_spec(space, "observation").validate(value)
