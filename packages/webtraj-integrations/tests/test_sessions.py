"""Episodes that a program of somebody else's plays."""

import re
from collections import Counter

import pytest

import webtraj
from installed import install
from processes import browsers
from rows import each
from webtraj import errors
from webtraj.agents.contexts import ContextSettings
from webtraj.environments import actions as a
from webtraj.environments.browser.environment import BrowserEnvironment
from webtraj.rollouts.episode_environment import Browsers
from webtraj.trajectory import EndReason, Outcome
from webtraj_integrations.sessions import EpisodeFailedError, Sessions

pytestmark = pytest.mark.browser


def button(turn):
    """Returns the action that solves click-test."""
    ref = re.search(r"\[(\w+)\] button", turn.page)[1]
    return f"click('{ref}')"


@pytest.mark.smoke
async def test_an_episode_is_played_and_recorded(tmp_path):
    presets = ["miniwob/click-test", "miniwob/enter-text"]
    async with Sessions(presets, sessions=2, out=tmp_path / "out", policy="mine") as sessions:
        session = sessions.session()
        first = await session.reset(seed=4, group_id="g", attempt=3)
        assert (first.task, first.reward, first.done, first.step) == ("click-test", None, False, 0)
        assert session.total_reward is None
        last = await session.step(f"Thought: There it is.\nAction: {button(first)}")
        assert (last.reward, last.done, last.outcome) == (1.0, True, Outcome.SUCCESS)
        assert session.total_reward == 1.0
        assert (await session.reset(seed=5)).task == "enter-text"
        assert (await session.reset(task="miniwob/enter-text")).task == "enter-text"
        await session.close()
    assert sessions.outcomes == Counter({Outcome.SUCCESS: 1})
    episodes = {one.info.episode_id: one for one in webtraj.open_dataset(tmp_path / "out")}
    assert len(episodes) == 3
    played = episodes[last.episode_id]
    assert (played.info.group_id, played.info.attempt, played.info.policy) == ("g", 3, "mine")
    assert (played.info.seed, played.end.outcome) == (4, Outcome.SUCCESS)
    decision = played.steps[1].decision
    assert decision.thought == "There it is."
    assert decision.metadata["reply"].startswith("Thought: There it is.")


async def test_a_seed_says_the_page_and_none_goes_through_all():
    presets = ["miniwob/enter-text", "miniwob/click-button"]
    async with Sessions(presets, sessions=2) as sessions:
        one, other = sessions.session(), sessions.session()
        turns = [await each.reset(seed=7) for each in (one, other)]
        assert turns[0].page == turns[1].page
        assert turns[0].goal == turns[1].goal
        drawn = [await one.reset() for _ in range(4)]
        assert [turn.task for turn in drawn] == ["enter-text", "click-button"] * 2
        assert len({turn.seed for turn in drawn}) == 4


async def test_a_reply_that_is_no_action_touches_nothing(tmp_path):
    async with Sessions("miniwob/click-test", out=tmp_path / "out") as sessions:
        session = sessions.session()
        first = await session.reset(seed=0)
        turn = await session.step("I would rather not.")
        assert turn.page == first.page
        assert turn.notices[0].startswith("Your last action was not carried out.")
        assert (turn.reward, turn.done) == (0.0, False)
        turn = await session.step("click('999')")
        assert "999" in turn.notices[0]
    (episode,) = webtraj.open_dataset(tmp_path / "out")
    assert episode.steps[1].decision.parse_error
    assert episode.end.reason is EndReason.CLOSED


async def test_a_killed_browser_ends_its_episode_alone_and_has_no_reward(tmp_path):
    apart = Browsers(contexts=1)
    async with Sessions(
        "miniwob/click-test", sessions=2, out=tmp_path / "out", browsers=apart
    ) as sessions:
        session = sessions.session()
        await session.reset(seed=0)
        doomed = browsers()
        other = sessions.session()
        safe = await other.reset(seed=1)
        for process in doomed:
            process.kill()
        with pytest.raises(EpisodeFailedError, match="without a reward") as failed:
            await session.step("click('1')")
        assert failed.value.outcome is Outcome.ENV_ERROR
        assert session.total_reward is None
        with pytest.raises(errors.EnvironmentMisuseError, match="Reset first"):
            await session.step("click('1')")
        assert (await other.step(button(safe))).reward == 1.0
        again = await session.reset(seed=0)
        assert (await session.step(button(again))).reward == 1.0
    ends = Counter(one.end.outcome for one in webtraj.open_dataset(tmp_path / "out"))
    assert ends == Counter({Outcome.SUCCESS: 2, Outcome.ENV_ERROR: 1})
    assert sessions.outcomes == ends


async def test_a_task_without_a_judge_gives_no_reward():
    task = webtraj.WebTask(name="look", goal="Look.", start_url="about:blank")
    webtraj.register(
        "test/look",
        lambda tasks, **options: BrowserEnvironment(tasks, **options),
        tasks=(task,),
        uses_browser=True,
    )
    try:
        async with Sessions("test/look") as sessions:
            session = sessions.session()
            await session.reset()
            turn = await session.step("answer('nothing')")
            assert (turn.done, turn.reward, turn.outcome) == (True, None, Outcome.UNKNOWN)
            assert session.total_reward is None
    finally:
        webtraj.unregister("test/look")


async def test_coordinates_are_those_of_the_page(tmp_path):
    """MiniWoB's pages are 332 by 214 pixels."""
    mode = ContextSettings(mode="coordinates")
    click = {"action": "left_click", "coordinate": [500, 500]}
    for dialect, call, kind in [
        ("webgym", {"name": "computer_use", "arguments": click}, a.ClickAt),
        ("anthropic", click, a.InvalidAction),  # It is outside of the picture.
    ]:
        out = tmp_path / dialect
        async with Sessions(
            "miniwob/click-test", dialect=dialect, context=mode, out=out
        ) as sessions:
            session = sessions.session()
            first = await session.reset(seed=5)
            assert "1280" not in first.instructions
            assert (await session.step(call)).instructions == ""
        (episode,) = webtraj.open_dataset(out)
        action = episode.steps[1].decision.action
        assert type(action) is kind
        if kind is a.ClickAt:
            assert (action.x, action.y) == (166, 107)


async def test_an_episode_has_as_many_pictures_as_are_allowed(tmp_path):
    with_text = {"context": {"images": True}, "pictures": 2}
    async with Sessions("miniwob/click-test", **with_text) as sessions:
        session = sessions.session()
        turns = [await session.reset(seed=1), *[await session.step("noop()") for _ in range(2)]]
    assert [bool(turn.image) for turn in turns] == [True, True, False]
    assert turns[2].page
    assert not turns[2].done
    alone = {"context": {"mode": "coordinates"}, "pictures": 2, "max_steps": 9}
    async with Sessions("miniwob/click-test", out=tmp_path / "out", **alone) as sessions:
        session = sessions.session()
        turns = [await session.reset(seed=1), *[await session.step("noop()") for _ in range(2)]]
    assert [(bool(turn.image), turn.done) for turn in turns] == [
        (True, False),
        (True, False),
        (False, True),
    ]
    (episode,) = webtraj.open_dataset(tmp_path / "out")
    assert episode.end.reason is EndReason.TRUNCATED


async def test_a_full_disk_is_an_error_of_the_call_that_ends_an_episode(tmp_path, monkeypatch):
    full = errors.CollectorError("No space left on device.")

    async def flush(collector):
        raise full

    async with Sessions("miniwob/click-test", out=tmp_path / "out") as sessions:
        session = sessions.session()
        with monkeypatch.context() as patched:
            patched.setattr(type(sessions._collector), "flush", flush)
            for end in (session.reset, session.close):
                await session.reset(seed=0)
                with pytest.raises(errors.CollectorError, match="No space left"):
                    await end()


@each(
    ("arguments", "words"),
    [
        ({"sessions": 0}, "sessions is a whole number from 1; got 0"),
        ({"sessions": True}, "sessions is a whole number from 1; got True"),
        ({"max_steps": 0}, "max_steps is a whole number from 1"),
        ({"seed": "x"}, "seed is a whole number from 0; got 'x'"),
        ({"seed": 1.5}, "seed is a whole number from 0"),
        ({"out": 5}, "out takes a folder, or a bucket's URL; got 5"),
        ({"pictures": 0}, "pictures is a whole number from 1"),
        ({"context": {"mod": "aria"}}, "no option 'mod'. Did you mean 'mode'"),
        ({"context": {"mode": "x"}}, "context"),
        ({"context": "text"}, "context takes ContextSettings, or a mapping of its fields; got"),
        ({"presets": None}, "presets takes 'miniwob/all' or a list of selectors; got None"),
        ({"presets": [5]}, "presets takes selectors or tasks; got 5"),
        ({"dialect": 5}, "dialect takes a dialect's name, such as 'webtraj'; got 5"),
        ({"dialect": "french"}, "Unknown dialect"),
        ({"dialect": "openai"}, "'openai' needs pictures, but the mode is 'text' without"),
        ({"dialect": "webgym"}, "'webgym' needs pictures"),
        ({"dialect": "webgym_marks"}, "'webgym_marks' needs the mode 'marks', but .* 'text'"),
    ],
)
@pytest.mark.smoke
def test_arguments_are_checked(arguments, words):
    with pytest.raises(errors.InvalidInputError, match=words):
        Sessions(**{"presets": "miniwob/click-test", **arguments})


DIALECT = """
from webtraj.environments import actions

class Terse:
    channels = ("goal", "axtree")

    def __init__(self, seed):
        self.seed, self.shown = seed, 0

    def show(self, observation):
        assert "screenshot" not in observation
        self.shown += 1
        return f"{self.seed}.{self.shown} {observation['goal']} {observation['axtree']}"

    def read(self, reply):
        if reply.isdigit():
            return actions.Click(reply)
        return actions.InvalidAction(reason="Not a number.", text=reply, kind="malformed")
"""


async def test_another_package_may_bring_a_dialect(tmp_path, monkeypatch):
    dialects = {"terse": "stranger_dialect:Terse", "webtraj": "no_such:One"}
    install(tmp_path, {"stranger_dialect": DIALECT}, dialects=dialects)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert Sessions("miniwob/click-test").page_dialect is None  # Built-in ones are not replaced.
    with pytest.raises(errors.InvalidInputError, match="Did you mean 'terse'"):
        Sessions("miniwob/click-test", dialect="ters")
    async with Sessions(
        "miniwob/click-test", sessions=1, dialect="terse", out=tmp_path / "out"
    ) as sessions:
        session = sessions.session()
        assert "No episode" in str(await _refused(session.step("1")))
        turn = await session.reset(seed=2)
        assert turn.page.startswith("2.1 Click the button. ")
        assert (turn.heading, turn.notices, turn.instructions) == ("", (), "")
        wrong = await session.step("press")
        assert (wrong.error, wrong.notices) == ("Not a number.", ())
        assert wrong.page.startswith("2.2 ")
        turn = await session.step(re.search(r"\[(\w+)\] button", wrong.page)[1])
        assert (turn.done, turn.outcome) == (True, Outcome.SUCCESS)
        assert (await session.reset(seed=3)).page.startswith("3.1 ")
    episode = next(one for one in webtraj.open_dataset(tmp_path / "out") if one.outcome)
    assert episode.steps[1].decision.metadata["reply"] == "press"


async def _refused(call):
    with pytest.raises(errors.EnvironmentMisuseError) as caught:
        await call
    return caught.value
