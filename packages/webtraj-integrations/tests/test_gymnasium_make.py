"""Presets made by `gymnasium.make` and `gymnasium.make_vec`."""

import pytest

import webtraj
from webtraj.testing.fakes import CatchEnvironment

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from webtraj_integrations.gymnasium import gymnasium_id, register_presets  # noqa: E402

CLICK = "webtraj/miniwob.click-test-v0"


@pytest.fixture
def catch():
    """The id of a preset of one's own."""
    name = "gymnasium-test/catch"
    webtraj.register(name, CatchEnvironment, description="Catch.")
    register_presets()
    yield gymnasium_id(name)
    webtraj.unregister(name)
    del gymnasium.registry[gymnasium_id(name)]


def test_one_import_makes_the_id_known(catch):
    env = gymnasium.make(f"webtraj_integrations.gymnasium:{catch}")
    assert env.spec.id == catch
    env.close()


@pytest.mark.filterwarnings("error")
def test_a_collector_records_every_episode(catch):
    collector = webtraj.MemoryTrajectoryCollector()
    env = gymnasium.make(catch, trajectory_collector=collector)
    assert "trajectory_collector" not in env.spec.kwargs
    for _ in range(2):
        env.reset()
        ended = False
        while not ended:
            _, reward, terminated, truncated, _ = env.step(1)
            ended = terminated or truncated
    env.close()
    first, second = collector.trajectories
    assert second.steps[-1].reward == reward
    assert first.terminated
    assert first.num_steps == second.num_steps == 4


@pytest.mark.slow
@pytest.mark.browser
def test_a_browser_task_passes_gymnasiums_checker_and_runs_in_vectors():
    arguments = {"observe": ("goal", "axtree")}
    env = gymnasium.make(CLICK, **arguments)
    check_env(env.unwrapped, skip_render_check=True)
    env.close()
    for mode, options in (("sync", {}), ("async", {"shared_memory": False})):
        envs = gymnasium.make_vec(
            CLICK, num_envs=2, vectorization_mode=mode, vector_kwargs=options, **arguments
        )
        observations, info = envs.reset(seed=1)
        assert observations["goal"] == ("Click the button.",) * 2
        assert list(info["seed"]) == [1, 2]
        _, rewards, *_ = envs.step([webtraj.environments.actions.Click("1")] * 2)
        assert list(rewards) == [1.0, 1.0]
        envs.close()
