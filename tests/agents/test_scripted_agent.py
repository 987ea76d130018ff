"""The scripted agent does what it was given to do, and no more."""

import pytest

from webtraj import EndReason, MemoryTrajectoryCollector, errors
from webtraj.agents.scripted import ScriptedAgent, read_script
from webtraj.environments import actions as a
from webtraj.rollouts import RunSpec, collect


async def test_actions_come_in_order_whatever_is_seen():
    actor = ScriptedAgent(("click('1')", a.Click("2"))).begin_episode(None)
    assert [(await actor.act(None)).action for _ in range(2)] == ["click('1')", a.Click("2")]


async def test_episode_that_outlasts_the_script_is_given_up():
    actor = ScriptedAgent(("one",)).begin_episode(None)
    await actor.act(None)
    with pytest.raises(errors.EpisodeGivenUpError, match="script of 1 actions is done"):
        await actor.act(None)


@pytest.mark.slow
@pytest.mark.browser
async def test_giving_up_truncates_the_episode_with_its_reason():
    collector = MemoryTrajectoryCollector()
    agent = ScriptedAgent((a.Wait(0), "noop(0)"))
    await collect(RunSpec(preset="miniwob/click-test"), agent=agent, trajectory_collector=collector)
    (trajectory,) = collector.trajectories
    assert trajectory.end_reason is EndReason.TRUNCATED
    assert trajectory.end.detail == "the script of 2 actions is done, and the episode has not ended"
    assert trajectory.num_steps == 2
    assert trajectory.end.error is None
    assert trajectory.end.in_flight_decision is None


def test_script_is_read_from_a_file(tmp_path):
    path = tmp_path / "script.txt"
    path.write_text("# Log in.\nfill('1', 'anna # 1')\n\n  click('2')\n")
    assert read_script(path) == (a.Fill("1", "anna # 1"), a.Click("2"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"click('1')\nclick(2)\n", r"Line 2 of the script .* is not an action: click"),
        (b"\xff\xfe", "cannot be read"),
    ],
    ids=["no action", "no text"],
)
def test_file_that_is_no_script_is_refused(content, words, tmp_path):
    path = tmp_path / "script.txt"
    path.write_bytes(content)
    with pytest.raises(errors.InvalidInputError, match=words):
        read_script(path)
