"""A live BrowserGym environment, wrapped and recorded: `make test-peers`.

All its environments share one Playwright, which belongs to one thread; so one environment plays
four episodes, and the tests look at what was recorded of them.
"""

import asyncio
import dataclasses
import re
from typing import Any

import gymnasium
import numpy as np
import pytest
import pytest_asyncio

import webtraj
from processes import browsers
from webtraj import EndReason
from webtraj.datasets.verification import verify

SEED = 40
MAX_STEPS = 4
EPISODES = ("solved", "cancelled", "truncated", "closed")

# BrowserGym and its pins are not ours to warn of.
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.asyncio(loop_scope="module")]


@dataclasses.dataclass
class Played:
    """What the player saw, and where it was recorded."""

    folder: Any
    timesteps: dict[str, list[Any]] = dataclasses.field(default_factory=dict)
    infos: list[Any] = dataclasses.field(default_factory=list)
    observation_spec: Any = None
    title: str = ""
    cancelled: bool = False
    browsers_while_open: int = 0
    browsers_after_close: int = 0

    def episode(self, number: int) -> webtraj.EpisodeTrajectory:
        return webtraj.open_dataset(self.folder)[number]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def played(tmp_path_factory) -> Played:
    """Plays four episodes: solved, cancelled in a step, truncated, closed in the middle."""
    import browsergym.miniwob  # noqa: F401 (registers the tasks)

    told = Played(tmp_path_factory.mktemp("browsergym") / "dataset")
    environment = webtraj.from_gymnasium(
        gymnasium.make(
            "browsergym/miniwob.login-user",
            headless=True,
            disable_env_checker=True,
            max_episode_steps=MAX_STEPS,
            pre_observation_delay=0.05,
            slow_mo=0,
        ),
        seed=SEED,
    )
    async with webtraj.JsonTrajectoryCollector(told.folder) as collector:
        env = webtraj.TrajectoryCollectingEnvironment(environment, collector)
        told.timesteps["solved"] = [await play_step(told, env, None)]
        for action in login(told.timesteps["solved"][0].observation):
            told.timesteps["solved"].append(await play_step(told, env, action))
        told.title = await env.call(lambda: env.unwrapped.page.title())
        told.browsers_while_open = len(browsers())

        told.timesteps["cancelled"] = [await env.reset(), await env.step("noop()")]
        step = asyncio.ensure_future(env.step("noop(1500)"))
        await acting(env)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        told.cancelled = True

        told.timesteps["truncated"] = [await env.step("this action belongs to a lost episode")]
        while not told.timesteps["truncated"][-1].last():
            told.timesteps["truncated"].append(await env.step("noop()"))

        told.timesteps["closed"] = [await env.reset(), await env.step("noop()")]
        told.observation_spec = env.observation_spec()
        await env.close()
    told.browsers_after_close = len(browsers())
    return told


async def play_step(told: Played, env: Any, action: str | None) -> Any:
    timestep = await (env.reset() if action is None else env.step(action))
    told.infos.append(env.last_info)
    return timestep


def login(observation: Any) -> list[str]:
    """Returns the actions that solve login-user, from the observation alone."""
    user, password = re.findall(r'"([^"]*)"', observation["goal"])
    fields = bids(observation, "textbox")
    (button,) = bids(observation, "button")
    return [
        f"fill('{fields[0]}', '{user}')",
        f"fill('{fields[1]}', '{password}')",
        f"click('{button}')",
    ]


def bids(observation: Any, role: str) -> list[str]:
    return [
        node["browsergym_id"]
        for node in observation["axtree_object"]["nodes"]
        if node["role"]["value"] == role and "browsergym_id" in node
    ]


async def acting(env: Any) -> None:
    """Waits until BrowserGym's thread is in the middle of the action."""
    while env.unwrapped.last_action != "noop(1500)":
        await asyncio.sleep(0.01)


async def test_the_dataset_is_sound_and_complete(played):
    report = verify(played.folder)
    assert report.clean, report.problems
    dataset = webtraj.open_dataset(played.folder)
    assert not dataset.open_episodes
    assert [trajectory.end_reason for trajectory in dataset] == [
        EndReason.TERMINATED,
        EndReason.CANCELLED,
        EndReason.TRUNCATED,
        EndReason.CLOSED,
    ]
    assert not any(trajectory.end.violations for trajectory in dataset)


async def test_string_actions_solve_a_task_and_are_recorded(played):
    solved = played.episode(0)
    assert [step.action for step in solved.steps[1:]] == login(solved.steps[0].observation)
    assert solved.total_reward == 1
    assert solved.steps[-1].discount == 0
    assert not solved.steps[-1].observation["last_action_error"]


@pytest.mark.parametrize("name", EPISODES)
async def test_every_value_is_read_back_as_it_was(played, name):
    steps = played.episode(EPISODES.index(name)).steps
    assert len(steps) == len(played.timesteps[name])
    for step, timestep in zip(steps, played.timesteps[name], strict=True):
        assert step.step_type == timestep.step_type
        assert step.reward == timestep.reward
        assert step.discount == timestep.discount
        assert step.observation.keys() == timestep.observation.keys()
        for key, value in timestep.observation.items():
            np.testing.assert_equal(step.observation[key], value, err_msg=key)


async def test_screenshots_and_trees_are_real(played):
    observation = played.episode(0).steps[0].observation
    assert observation["screenshot"].dtype == np.uint8
    # The task's 332 by 214 pixels, which BrowserGym renders at one and a half times their size.
    assert observation["screenshot"].shape == (321, 498, 3)
    assert len(np.unique(observation["screenshot"])) > 10
    assert len(observation["axtree_object"]["nodes"]) > 5
    assert observation["dom_object"]["documents"]
    assert isinstance(observation["extra_element_properties"], dict)


async def test_seeds_goals_and_names_are_recorded(played):
    for number, name in enumerate(EPISODES):
        info = played.episode(number).info
        assert info.seed == SEED + number
        assert info.goal == played.timesteps[name][0].observation["goal"]
        assert info.goal.startswith("Enter the username")
        assert info.task == "browsergym/miniwob.login-user"
        assert info.versions["gymnasium"] == gymnasium.__version__
    goals = {played.episode(number).info.goal for number in range(4)}
    assert len(goals) == 4


async def test_the_info_of_each_timestep_can_be_reached(played):
    assert len(played.infos) == 4
    assert all("task_info" in info for info in played.infos)
    assert len({id(info) for info in played.infos}) == 4
    assert played.infos[-1]["action_exec_stop"] >= played.infos[-1]["action_exec_start"]


async def test_what_is_bound_to_its_thread_can_be_reached_there(played):
    assert played.title == "Login User Task"


async def test_a_cancelled_step_leaves_no_late_timestep(played):
    assert played.cancelled
    cancelled, following = played.episode(1), played.episode(2)
    assert len(cancelled.steps) == 2
    assert cancelled.end.action_in_flight
    assert cancelled.end.in_flight_action == "noop(1500)"
    assert following.steps[0].first
    assert following.steps[0].ignored_action == "this action belongs to a lost episode"


async def test_a_time_limit_truncates(played):
    truncated = played.episode(2)
    assert truncated.num_steps == MAX_STEPS
    assert truncated.steps[-1].discount == 1


async def test_the_spec_names_every_part_of_an_observation(played):
    assert played.observation_spec.keys() == played.timesteps["solved"][0].observation.keys()


async def test_no_browser_is_left(played):
    assert played.browsers_while_open > 0
    assert played.browsers_after_close == 0
