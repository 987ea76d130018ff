"""The random agent of this package: what it explores, and that it is webtraj's otherwise."""

import pytest

from two_cores.random_agent import RandomPointingAgent
from webtraj import errors
from webtraj.agents import RandomAgent
from webtraj.agents.catalog import make_agent
from webtraj.environments import actions

PAGE = '[1] textbox "x"\n[2] option "a"\n[3] listbox\n  [4] option "b"\n[5] circle\n[6] button "c"'


async def choices(agent, n=2000, axtree=PAGE):
    actor = agent.begin_episode(None)
    return [(await actor.act({"axtree": axtree, "goal": "Go."})).action for _ in range(n)]


async def test_it_explores_what_the_pointing_agent_can_do():
    chosen = await choices(make_agent("random_pointing"))
    assert {type(action) for action in chosen} == {
        actions.Click,
        actions.DragTo,
        actions.Fill,
        actions.Hover,
        actions.Press,
        actions.SelectOption,
    }
    some = await choices(make_agent("random_pointing", options={"pointing": 0.5}))
    assert 0 < sum(isinstance(action, actions.DragTo) for action in some) < 500
    alone = await choices(RandomPointingAgent(), n=200, axtree="")
    assert {type(action) for action in alone} == {actions.Scroll}


async def test_without_its_share_it_is_the_random_agent():
    shares = {"fields": 0.5, "untouched": 0.3, "clicks": 0.1}
    usual = await choices(RandomAgent(seed=3, **shares), n=300)
    assert await choices(RandomPointingAgent(seed=3, pointing=0.0, **shares), n=300) == usual


def test_its_share_is_a_probability():
    with pytest.raises(errors.InvalidInputError, match="pointing must be a number from 0 to 1"):
        make_agent("random_pointing", options={"pointing": 1.5})
