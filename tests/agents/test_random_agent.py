"""The random agent: uniform, seeded, and never beyond what it sees."""

import collections

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


async def test_environment_that_describes_nothing_is_played_too():
    assert await choices(RandomAgent(), object()) == await choices(RandomAgent(), object())


async def test_every_element_is_chosen_about_equally_often():
    chosen = collections.Counter(
        action.ref for action in await choices(RandomAgent(), Page(), n=2000)
    )
    assert set(chosen) == {"1", "2", "3", "4"}
    assert min(chosen.values()) > 400


async def test_untouched_elements_come_first_if_asked_for():
    for seed in range(20):
        chosen = [
            action.ref for action in await choices(RandomAgent(seed, untouched=1.0), Page(), n=8)
        ]
        assert sorted(chosen[:4]) == ["1", "2", "3", "4"]
        assert set(chosen[4:]) <= {"1", "2", "3", "4"}  # Nothing is left: all are as likely.


async def test_untouched_elements_are_preferred_as_often_as_asked_for():
    again = 0
    for seed in range(400):
        first, second = await choices(RandomAgent(seed, untouched=0.5), Page(), n=2)
        again += first.ref == second.ref
    assert 25 <= again <= 80  # Half of a quarter of 400.


async def test_forms_are_filled_in_before_they_are_sent_if_asked_for():
    form = """
[1] paragraph
  text "Name"
  [2] textbox
  [3] textbox readonly
[4] combobox "Colour"
  [5] option "Red"
[6] searchbox
[7] button "Send"
"""
    for seed in range(20):
        made = await choices(RandomAgent(seed, fields=1.0), Page(), n=4, axtree=form)
        assert sorted(action.ref for action in made[:3]) == ["2", "4", "6"]
        kinds = {"2": {actions.Fill}, "6": {actions.Fill}}
        for action in made[:3]:
            assert type(action) in kinds.get(action.ref, {actions.Fill, actions.SelectOption})


async def test_episodes_end_as_often_as_asked_for():
    chosen = await choices(RandomAgent(ends=0.2), Page(), n=2000)
    counts = collections.Counter(map(type, chosen))
    assert 200 <= counts[actions.Answer] <= 400  # Three of four ends.
    assert 50 <= counts[actions.ReportInfeasible] <= 150
    answers = {action.text for action in chosen if isinstance(action, actions.Answer)}
    assert answers == {"Name", "Submit", "Colour"}
    (end,) = await choices(RandomAgent(ends=1), Page(), n=1, axtree="")
    assert end in (actions.Answer("done"), actions.ReportInfeasible("It cannot be done."))


async def test_fields_are_clicked_as_often_as_asked_for():
    field = '[1] textbox "Name"'
    made = await choices(RandomAgent(clicks=0.7), Page(), n=1000, axtree=field)
    assert 700 <= collections.Counter(map(type, made))[actions.Click] <= 800  # And 1 in 6 others.
    made = await choices(RandomAgent(clicks=1.0), Page(), n=20, axtree=field)
    assert made == [actions.Click("1")] * 20


@pytest.mark.parametrize("option", SHARES)
@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_that_is_none_is_refused(option, share):
    with pytest.raises(errors.InvalidInputError, match=f"{option} must be a number from 0 to 1"):
        RandomAgent(**{option: share})


@pytest.mark.parametrize(
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


async def test_what_is_quoted_is_typed_about_half_of_the_time():
    chosen = await choices(RandomAgent(), Page(), n=3000, axtree='[7] textbox "x"\n')
    typed = [action.value for action in chosen if isinstance(action, actions.Fill)]
    assert 0.45 < typed.count("Anna Smith") / len(typed) < 0.65


async def test_without_a_goal_letters_are_typed():
    chosen = await choices(RandomAgent(), Page(), goal="")
    typed = {action.value for action in chosen if isinstance(action, actions.Fill)}
    assert typed
    assert all(len(text) == 1 and text.islower() for text in typed)


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
