"""The replay agent acts a recording out again, by description where refs have moved."""

import dataclasses

import pytest

from rows import each
from webtraj import EndReason, MemoryTrajectoryCollector, Outcome, errors
from webtraj.agents.replay import ReplayAgent
from webtraj.environments import actions as a
from webtraj.rollouts import RunSpec, collect
from webtraj.trajectory import EpisodeInfo, EpisodeTrajectory, StepRecord, StepType

THEN = '[1] textbox "Name"\n[2] button "Delete"\n[3] button "Delete"\n[4] button "Save"'

SWAPPED = '[1] textbox "Name"\n[3] button "Delete"\n[2] button "Delete"\n[4] button "Save"'


def seen(axtree, **last):
    return {"axtree": axtree, "last_action": last}


def recording(*actions, axtree=THEN, last=None, task="shop", seed=1):
    first = StepRecord(0, StepType.FIRST, seen(axtree))
    rest = [
        StepRecord(index, StepType.MID, seen(axtree, **(last or {})), action)
        for index, action in enumerate(actions, 1)
    ]
    return EpisodeTrajectory(EpisodeInfo(task=task, seed=seed), (first, *rest))


async def replayed(trajectory, *pages):
    actor = ReplayAgent.of([trajectory]).begin_episode(None)
    return [await actor.act(page if isinstance(page, dict) else seen(page)) for page in pages]


@each(("action", "page", "expected"), [
        (a.Click("4"), THEN, a.Click("4")),
        (a.Click("4"), THEN.replace("[4]", "[9]"), a.Click("9")),
        ("click('4', button='right')", THEN.replace("[4]", "[9]"), a.Click("9", button="right")),
        (a.Fill("1", "Anna"), '[7] textbox "Name"', a.Fill("7", "Anna")),
        (a.Click("3"), THEN.replace("[2]", "[5]").replace("[3]", "[6]"), a.Click("6")),
        # The refs have changed places: the second of those alike is still the second.
        (a.Click("3"), SWAPPED, a.Click("2")),
        (a.DragTo("1", "4"), THEN.replace("[1]", "[8]").replace("[4]", "[9]"), a.DragTo("8", "9")),
        (a.Scroll(0, 100), '[5] link "Else"', a.Scroll(0, 100)),
        (a.ClickAt(3, 4), THEN, a.ClickAt(3, 4)),
        (a.Click("3"), '[3] button "Delete"\n[9] button "Save"', a.Click("3")),
        (7, THEN, 7),
        ("up", THEN, "up"),
    ])  # fmt: skip
async def test_action_is_made_to_fit_the_page(action, page, expected):
    (decision,) = await replayed(recording(action), page)
    assert decision.action == expected


async def test_where_the_page_first_differs_is_told():
    other = THEN.replace("Name", "Surname")
    trajectory = recording(a.Click("4"), a.Click("4"), a.Click("4"))
    decisions = await replayed(trajectory, THEN, other, THEN)
    first, *later = (decision.metadata["replay"].get("first_difference") for decision in decisions)
    assert first is None
    assert later == ["before step 2: gone textbox 'Name', new textbox 'Surname'"] * 2


async def test_element_is_known_by_what_acting_recorded_of_it():
    last = {"ref": "4", "role": "button", "name": "Save"}
    trajectory = recording(a.Click("4"), axtree="", last=last)
    (decision,) = await replayed(trajectory, '[9] button "Save"')
    assert decision.action == a.Click("9")


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ('[4] button "Store"', r"no button 'Save', which step 1 acts on;.*: gone .* 'Store'"),
        ('[5] button "Save"\n[6] button "Save"', r"has 2 of button 'Save', of which step 1 .* 1"),
    ],
    ids=["gone", "doubtful"],
)  # fmt: skip
async def test_what_leaves_a_doubt_is_not_clicked(page, words):
    with pytest.raises(errors.EpisodeGivenUpError, match=words):
        await replayed(recording(a.Click("4")), page)


async def test_recording_that_ends_gives_the_episode_up():
    with pytest.raises(errors.EpisodeGivenUpError, match="recording ends after 1 actions"):
        await replayed(recording(a.Click("4")), THEN, THEN)


class Shop:
    def __init__(self, task="shop", seed=1):
        self._described = {"task": task, "seed": seed}

    def describe_episode(self):
        return self._described


async def chosen(agent, environment):
    decision = await agent.begin_episode(environment).act(seen(THEN))
    return decision.action


async def test_recording_is_that_of_the_same_task_and_seed():
    one, two = recording(a.Click("1"), seed=1), recording(a.Click("2"), seed=2)
    bar = recording(a.Click("3"), task="bar", seed=3)
    agent = ReplayAgent.of([one, two, bar])
    assert await chosen(agent, Shop(seed=2)) == a.Click("2")
    assert await chosen(agent, Shop(task="bar", seed=9)) == a.Click("3")
    with pytest.raises(errors.InvalidInputError, match=r"None of the 3.*'shop' and the seed 9"):
        agent.begin_episode(Shop(seed=9))
    assert await chosen(ReplayAgent.of([bar]), Shop()) == a.Click("3")


def test_nothing_recorded_is_nothing_to_act_out():
    with pytest.raises(errors.InvalidInputError, match="at least one recorded episode"):
        ReplayAgent.of([])


@pytest.mark.browser
@pytest.mark.parametrize("task", ["login-user", "click-checkboxes", "enter-text", "click-tab-2"])
async def test_what_an_oracle_did_is_acted_out_again_in_a_real_browser(task):
    """The replay sees pages whose refs have moved: the recording's are all given other names."""
    first = MemoryTrajectoryCollector()
    await collect(
        RunSpec(preset=f"miniwob/{task}", agent="oracle", episodes=2), trajectory_collector=first
    )
    assert [t.outcome for t in first.trajectories] == [Outcome.SUCCESS] * 2
    again = MemoryTrajectoryCollector()
    agent = ReplayAgent.of(map(with_other_refs, first.trajectories))
    await collect(
        RunSpec(preset=f"miniwob/{task}", episodes=2), agent=agent, trajectory_collector=again
    )
    assert [t.outcome for t in again.trajectories] == [Outcome.SUCCESS] * 2
    for then, now in zip(first.trajectories, again.trajectories, strict=True):
        assert touched(now) == touched(then)
        assert now.end_reason is EndReason.TERMINATED
        for step in now.steps[1:]:
            assert "first_difference" not in step.decision.metadata["replay"]


def touched(trajectory):
    """Returns what was done to which elements, whatever their refs."""
    done = []
    for step in trajectory.steps[1:]:
        last = step.observation["last_action"]
        done.append((type(step.action), last["role"], last["name"], last["selector"]))
    return done


def with_other_refs(trajectory):
    steps = []
    for step in trajectory.steps:
        observation = dict(step.observation)
        observation["axtree"] = observation["axtree"].replace("[", "[old")
        last = dict(observation["last_action"])
        last["ref"] = last["ref"] and f"old{last['ref']}"
        action = step.action
        if getattr(action, "ref", None):
            action = dataclasses.replace(action, ref=f"old{action.ref}")
        observation["last_action"] = last
        steps.append(dataclasses.replace(step, observation=observation, action=action))
    return dataclasses.replace(trajectory, steps=tuple(steps))
