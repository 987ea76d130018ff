"""to_gymnasium: Gymnasium's rules hold over dm_env and webtraj environments."""

import dm_env
import numpy as np
import pytest
from dm_env import specs
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

import webtraj
from rows import each
from webtraj import errors
from webtraj.environments.gymnasium import SpecSpace, to_gymnasium, to_gymnasium_space
from webtraj.testing import fakes
from webtraj.trajectory import EndReason


class SeededCatch(fakes.Catch):
    """Catch whose episodes can be seeded."""

    def set_seed(self, seed):
        self._random = np.random.default_rng(seed)

    def describe_episode(self):
        return {"task": "catch"}

    def episode_outcome(self):
        return webtraj.trajectory.Outcome.SUCCESS


class Scripted(dm_env.Environment):
    """Gives the timesteps it is told to."""

    def __init__(self, *timesteps):
        self._timesteps = iter(timesteps)

    def reset(self):
        return dm_env.restart(0.0)

    def step(self, action):
        timestep = next(self._timesteps)
        if isinstance(timestep, Exception):
            raise timestep
        return timestep

    def observation_spec(self):
        return specs.Array((), float)

    def action_spec(self):
        return specs.DiscreteArray(2)


@pytest.mark.parametrize("bridge", [lambda env: env, webtraj.as_async], ids=["sync", "async"])
def test_gymnasiums_own_checker_passes(bridge):
    env = to_gymnasium(bridge(SeededCatch()))
    check_env(env, skip_render_check=True)
    env.close()


@pytest.mark.parametrize(
    ("timestep", "terminated", "truncated"),
    [
        (dm_env.transition(0.5, 1.0), False, False),
        (dm_env.termination(0.5, 1.0), True, False),
        (dm_env.truncation(0.5, 1.0), False, True),
        (dm_env.truncation(0.5, 1.0, discount=0.3), False, True),
    ],
)
def test_the_discount_of_last_says_whether_it_terminated(timestep, terminated, truncated):
    env = to_gymnasium(Scripted(timestep))
    env.reset()
    observation, reward, *ended, info = env.step(0)
    assert (observation, reward) == (1.0, 0.5)
    assert ended == [terminated, truncated]
    assert info["discount"] == timestep.discount


def test_info_carries_what_is_not_in_the_observation():
    env = to_gymnasium(SeededCatch(rows=2))
    _, info = env.reset(seed=1)
    assert info == {"task": "catch", "discount": None}
    *_, info = env.step(1)
    assert info == {"task": "catch", "discount": 0.0, "outcome": "success"}


@pytest.mark.parametrize("spoil", ["fresh", "ended", "raised"])
def test_a_step_without_an_episode_is_refused(spoil):
    env = to_gymnasium(
        Scripted(ValueError("boom") if spoil == "raised" else dm_env.termination(0, 0))
    )
    if spoil != "fresh":
        env.reset()
    if spoil == "ended":
        env.step(0)
    if spoil == "raised":
        with pytest.raises(ValueError, match="boom"):
            env.step(0)
    with pytest.raises(errors.EnvironmentMisuseError, match=r"call reset\(\)"):
        env.step(0)


def test_a_recorded_environment_records():
    collector = webtraj.MemoryTrajectoryCollector()
    env = to_gymnasium(webtraj.TrajectoryCollectingEnvironment(fakes.CatchEnvironment(), collector))
    env.reset()
    terminated = False
    while not terminated:
        _, _, terminated, _, _ = env.step(env.action_space.sample())
    env.close()
    (episode,) = collector.trajectories
    assert episode.end.reason is EndReason.TERMINATED


@each(
    ("spec", "space"),
    [
        (specs.DiscreteArray(3), spaces.Discrete(3)),
        (
            specs.BoundedArray((2,), np.float32, -1, [0, 1]),
            spaces.Box(np.array([-1, -1], np.float32), np.array([0, 1], np.float32)),
        ),
        (specs.Array((), float), spaces.Box(-np.inf, np.inf, (), np.float64)),
        (specs.Array((), bool), spaces.Discrete(2)),
        (specs.Array((4,), bool), spaces.MultiBinary((4,))),
        (
            {"a": [specs.DiscreteArray(2), specs.DiscreteArray(3)]},
            spaces.Dict({"a": spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)])}),
        ),
        (specs.StringArray(()), SpecSpace(specs.StringArray(()))),
    ],
)
def test_specs_become_spaces(spec, space):
    assert to_gymnasium_space(spec) == space


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(5),
        spaces.Sequence(spaces.Discrete(2)),
        spaces.Discrete(3),
        spaces.Box(0, 1, (2,)),
    ],
    ids=lambda space: type(space).__name__,
)
def test_spaces_survive_the_way_to_specs_and_back(space):
    from webtraj.environments import gymnasium

    assert to_gymnasium_space(gymnasium.to_spec(space, "value")) == space
