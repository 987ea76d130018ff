"""How oracles are registered, asked and ended. That each solves its task: test_oracles.py."""

import pytest

from webtraj.environments.actions import Click, Wait
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
