"""How oracles are registered, asked and ended. That each solves its task: test_oracles.py."""

import pytest

from webtraj import errors
from webtraj.environments.actions import Click, Wait
from webtraj.environments.miniwob import oracles
from webtraj.environments.miniwob.oracles import OracleError

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.smoke
@pytest.mark.browser
async def test_a_new_episode_begins_a_new_solution(play):
    environment = play("click-button-sequence")
    for _ in range(2):
        await environment.reset()
        action = await environment.cheat()
        assert isinstance(action, Click)
        await environment.step(action)


async def test_a_page_that_is_not_as_expected_is_an_oracle_error(play):
    environment = play("click-test")
    await environment.reset()
    await environment.session.page.evaluate("document.querySelector('#subbtn').remove()")
    await environment.step(Wait(0))
    with pytest.raises(OracleError, match="#subbtn"):
        await environment.cheat()


async def test_a_task_without_an_oracle_is_told():
    with pytest.raises(errors.InvalidInputError, match="solved_tasks"):
        oracles.solve("no-such-task", None)


async def test_an_evaluation_gets_its_argument_and_refs(play):
    environment = play("click-test")
    await environment.reset()
    view = oracles.PageView(environment.session, goal="")
    answer = await view.evaluate(
        "({sel}, refOf) => ({ref: refOf(document.querySelector(sel)), none: null})",
        {"sel": "#subbtn"},
    )
    assert answer == {"ref": (await view.one("#subbtn")).ref, "none": None}
