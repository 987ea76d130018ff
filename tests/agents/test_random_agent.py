"""The random agent: uniform, seeded, and never beyond what it sees."""

import collections

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rows import each
from webtraj import errors
from webtraj.agents.random import SHARES, RandomAgent
from webtraj.environments import actions
from webtraj.environments.browser.observation import refs_in

PAGE = """\
[1] generic
  [2] textbox "Name"
  [3] button "Submit"
  text "or"
  [4] combobox "Colour"
"""
GOAL = 'Enter "Anna Smith" as the name, then press Submit.'


class Page:
    """An environment as far as the agent asks it."""

    def __init__(self, task="form", seed=0):
        self._task = task
        self._seed = seed

    def describe_episode(self):
        return {"task": self._task, "seed": self._seed}


async def choices(agent, environment, n=200, axtree=PAGE, goal=GOAL):
    actor = agent.begin_episode(environment)
    return [(await actor.act({"axtree": axtree, "goal": goal})).action for _ in range(n)]


async def test_same_seed_task_and_episode_give_the_same_choices():
    assert await choices(RandomAgent(3), Page()) == await choices(RandomAgent(3), Page())


@pytest.mark.parametrize(
    ("agent", "page"),
    [
        (RandomAgent(4), Page()),
        (RandomAgent(3), Page(seed=1)),
        (RandomAgent(3), Page(task="other")),
    ],
)
async def test_another_seed_task_or_episode_gives_others(agent, page):
    assert await choices(agent, page) != await choices(RandomAgent(3), Page())


async def test_every_element_is_chosen_about_equally_often():
    chosen = collections.Counter(
        action.ref for action in await choices(RandomAgent(), Page(), n=2000)
    )
    assert set(chosen) == {"1", "2", "3", "4"}
    assert min(chosen.values()) > 400


async def test_untouched_elements_are_preferred_as_often_as_asked_for():
    again = 0
    for seed in range(400):
        first, second = await choices(RandomAgent(seed, untouched=0.5), Page(), n=2)
        again += first.ref == second.ref
    assert 25 <= again <= 80  # Half of a quarter of 400.


@each("option", SHARES)
@each("share", [-0.1, 1.1, float("nan")])
def test_a_share_that_is_none_is_refused(option, share):
    with pytest.raises(errors.InvalidInputError, match=f"{option} must be a number from 0 to 1"):
        RandomAgent(**{option: share})


@each(
    ("role", "verbs"),
    [
        ("button", {actions.Click}),
        ("generic", {actions.Click}),
        ("checkbox", {actions.Click}),
        ("textbox", {actions.Click, actions.Fill, actions.Press}),
        ("searchbox", {actions.Click, actions.Fill, actions.Press}),
        ("spinbutton", {actions.Click, actions.Fill}),
        ("combobox", {actions.Click, actions.Fill, actions.SelectOption}),
        ("listbox", {actions.Click, actions.SelectOption}),
    ],
)
async def test_verbs_fit_the_role(role, verbs):
    chosen = await choices(RandomAgent(), Page(), axtree=f'[7] {role} "x"\n')
    assert {type(action) for action in chosen} == verbs
    assert {action.ref for action in chosen} == {"7"}


async def test_words_of_the_goal_are_typed_as_they_stand_there():
    chosen = await choices(RandomAgent(), Page(), n=1000)
    typed = {action.value for action in chosen if isinstance(action, actions.Fill)}
    assert {"Anna", "Anna Smith", "Submit"} <= typed
    words = {"Enter", "Anna", "Smith", "as", "the", "name", "then", "press", "Submit"}
    assert set(" ".join(typed).split()) <= words


async def test_page_without_elements_is_scrolled():
    assert {type(action) for action in await choices(RandomAgent(), Page(), axtree="")} == {
        actions.Scroll
    }


@pytest.mark.parametrize(
    ("observation", "shape"),
    [
        ({"goal": "x", "url": "y"}, r"\['goal', 'url'\]"),
        (5, "a int"),
        (None, "a NoneType"),
    ],
)
async def test_observation_without_axtree_is_an_agent_error(observation, shape):
    actor = RandomAgent().begin_episode(Page())
    with pytest.raises(errors.AgentError, match=f"needs observations with an 'axtree'.*{shape}"):
        await actor.act(observation)


@given(goal=st.text(), seed=st.integers())
async def test_any_goal_gives_an_action_on_an_element_of_the_page(goal, seed):
    refs = {element.ref for element in refs_in(PAGE)}
    for action in await choices(RandomAgent(seed), Page(), n=5, goal=goal):
        assert action.ref in refs


class Waiting(RandomAgent):
    """A random agent that also waits."""

    def other_action(self, observation, source):
        return actions.Wait(1) if source.random() < 0.5 else None


async def test_a_subclass_adds_kinds_of_actions():
    kinds = [type(one).__name__ for one in await choices(Waiting(), Page(), n=400)]
    assert 150 < kinds.count("Wait") < 250
    assert {"Click", "Fill"} < set(kinds)
    filled = await choices(Waiting(fields=1.0), Page(), n=2)
    assert [one.ref for one in filled] == ["2", "4"] or [one.ref for one in filled] == ["4", "2"]
