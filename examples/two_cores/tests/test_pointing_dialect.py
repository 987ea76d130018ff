"""The dialect `pointing`, as trainers speak it with `webtraj_integrations.sessions`."""

import re

import pytest

import webtraj
from webtraj import errors
from webtraj.trajectory import Outcome
from webtraj_integrations.sessions import Sessions

pytestmark = [pytest.mark.browser, pytest.mark.smoke]


async def test_a_tiny_model_points(tmp_path):
    async with Sessions(
        "miniwob/click-button-sequence", sessions=1, dialect="pointing", out=tmp_path / "out"
    ) as sessions:
        session = sessions.session()
        with pytest.raises(errors.EnvironmentMisuseError, match="No episode"):
            await session.step("<e1><w0>")
        turn = await session.reset(seed=2)
        assert turn.page.startswith("<task> Click button ONE, then click button TWO. <page> ")
        assert (turn.heading, turn.notices, turn.instructions) == ("", (), "")
        wrong = await session.step("<e1>")
        assert "names of an element and of a word" in wrong.error
        assert wrong.notices == ()
        one = re.search(r"button ONE (?:<\w+> )*?(<e\d+>)", wrong.page)[1]
        turn = await session.step(f"{one}<w0>")
        assert turn.page.endswith("<did> button ONE <act>")
        two = re.search(r"button TWO (?:<\w+> )*?(<e\d+>)", turn.page)[1]
        turn = await session.step(f"{two}<w0>")
        assert (turn.done, turn.outcome) == (True, Outcome.SUCCESS)
    (episode,) = webtraj.open_dataset(tmp_path / "out")
    assert episode.steps[2].decision.metadata["reply"] == f"{one}<w0>"


async def test_a_pointing_models_prompt_depends_on_the_seed_alone():
    async with Sessions("miniwob/click-option", sessions=2, dialect="pointing") as sessions:
        pages = [(await sessions.session().reset(seed=seed)).page for seed in (5, 5)]
    assert pages[0] == pages[1]
