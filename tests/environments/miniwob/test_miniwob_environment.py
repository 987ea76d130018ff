"""MiniWoB++'s own rules: goals, rewards, time, seeds, what is hidden, names."""

import pytest
from absl.testing import absltest
from dm_env import test_utils

import webtraj
from webtraj import errors
from webtraj.environments.actions import Click, Wait
from webtraj.environments.browser.observation import refs_in
from webtraj.environments.browser.settle_policy import SettlePolicy
from webtraj.environments.miniwob import MiniwobEnvironment, tasks
from webtraj.environments.miniwob.environment import judge, success_rule

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def finish(environment):
    """Plays the oracle to the end and returns the last timestep."""
    timestep = await environment.reset()
    while not timestep.last():
        timestep = await environment.step(await environment.cheat())
    return timestep


def named(timestep, name):
    return next(e.ref for e in refs_in(timestep.observation["axtree"]) if e.name == name)


@pytest.mark.browser
async def test_the_first_observation_holds_goal_and_page(play):
    environment = play("click-test-2", observe=None)
    first = await environment.reset()
    assert first.observation["goal"] == "Click button ONE."
    assert first.observation["axtree"] == '[1] button "ONE"\n[2] button "TWO"'
    assert first.observation["screenshot"].startswith(b"\xff\xd8")


@pytest.mark.smoke
@pytest.mark.browser
async def test_a_solved_task_is_a_success_with_reward_one(play):
    environment = play("click-test")
    last = await finish(environment)
    assert (last.reward, last.discount) == (1.0, 0.0)
    assert environment.episode_outcome() is webtraj.Outcome.SUCCESS
    info = last.observation["info"]
    assert (info["raw_reward"], info["success"]) == (1.0, True)
    assert 0 < info["scaled_reward"] <= 1


async def test_wall_time_does_not_change_the_reward(play):
    environment = play("click-test")
    await environment.reset()
    # As if a day had passed since the episode began.
    await environment.session.page.evaluate("core.ept0 -= 86_400_000")
    last = await environment.step(await environment.cheat())
    assert last.reward == 1.0


async def test_an_episode_does_not_time_out(play):
    environment = play("click-test")
    await environment.reset()
    left = await environment.session.page.evaluate("core.EPISODE_MAX_TIME")
    assert 86_400_000 < left < 2**31  # Longer timers fire at once.


@pytest.mark.parametrize(
    ("reward", "success", "expected"),
    [("raw", "full", (0.2, False)), ("binary", "full", (0.0, False)),
     ("binary", "positive", (1.0, True)), ("raw", "positive", (0.2, True))],
)  # fmt: skip
async def test_reward_and_success_follow_the_named_rules(reward, success, expected):
    state = {"done": True, "raw": 0.2, "scaled": 0.1, "reason": "half done"}
    verdict = judge(state, reward=reward, success=success_rule(success))
    assert (verdict.reward, verdict.success) == expected
    assert (verdict.raw_reward, verdict.scaled_reward) == (0.2, 0.1)


@pytest.mark.browser
async def test_a_fraction_is_no_success_by_default(play):
    environment = play("click-checkboxes-soft")
    await environment.reset()
    await environment.session.page.evaluate("core.endEpisode(0.5, true, 'half')")
    last = await environment.step(Wait(0))
    assert last.reward == 0.5
    assert last.observation["info"]["reason"] == "half"
    assert environment.episode_outcome() is webtraj.Outcome.FAILURE


@pytest.mark.gate
async def test_score_query_and_cover_are_hidden(play):
    environment = play("click-test", observe=("text", "axtree"))
    first = await environment.reset()
    seen = await environment.session.page.evaluate(
        "[...document.querySelectorAll('#reward-display, #sync-task-cover, #query')]"
        ".filter(e => e.checkVisibility({visibilityProperty: true})).length"
    )
    assert seen == 0
    last = await environment.step(Click(named(first, "Click Me!")))
    assert last.last()
    for channel in ("text", "axtree"):
        for word in ("reward", "Time left", "Click the button.", "START"):
            assert word not in last.observation[channel]


@pytest.mark.gate
@pytest.mark.browser
@pytest.mark.parametrize(
    "way_out", ["location = 'about:blank'", "location.reload()", "location = 'http://example.com'"]
)
async def test_leaving_the_task_s_page_ends_the_episode_without_reward(play, way_out):
    environment = play("click-test", settle=SettlePolicy(quiet=0.2))
    await environment.reset()
    await environment.session.page.evaluate(f"setTimeout(() => {{ {way_out} }})")
    last = await environment.step(Wait(0))
    assert (last.last(), last.reward, last.discount) == (True, 0.0, 0.0)
    assert "left" in last.observation["info"]["reason"]
    assert (await environment.reset()).observation["axtree"] == '[1] button "Click Me!"'


@pytest.mark.gate
@pytest.mark.browser
@pytest.mark.parametrize("damage", ["document.body.remove()", "document.documentElement.remove()"])
async def test_a_wrecked_page_is_replaced_by_the_next_reset(play, damage):
    environment = play("click-test")
    await environment.reset()
    await environment.session.page.evaluate(damage)
    assert (await environment.step(Wait(0))).mid()
    assert (await environment.reset()).observation["axtree"] == '[1] button "Click Me!"'


@pytest.mark.gate
async def test_the_page_has_no_network(play):
    environment = play("click-test")
    await environment.reset()
    with pytest.raises(errors.PageLoadError, match="is not among the allowed origins"):
        await environment.session.open("http://127.0.0.1:8000/")


async def test_every_task_is_registered_and_has_its_page():
    known = {path.stem for path in (tasks.html_folder() / "miniwob").glob("*.html")}
    assert len(set(tasks.TASKS)) == 125
    assert set(tasks.TASKS) <= known
    assert known - set(tasks.TASKS) == {
        "button-delay", "chase-circle", "hover-shape", "moving-items", "simon-says",
    }  # fmt: skip
    registration = (tasks.html_folder().parent / "registration.py").read_text()
    assert all(f'"miniwob/{task}-v1"' in registration for task in tasks.TASKS)


async def test_the_split_leaves_nothing_out_and_shares_nothing():
    train, test = (set(tasks.SUBSETS[name]) for name in ("train", "test"))
    assert train | test == set(tasks.TASKS)
    assert not train & test


@pytest.mark.browser
class DmEnvContractTest(test_utils.EnvironmentTestMixin, absltest.TestCase):
    """dm_env's own contract, through the synchronous bridge."""

    def make_object_under_test(self):
        return webtraj.as_sync(
            MiniwobEnvironment(["click-test", "login-user"], max_steps=3, observe=None)
        )
