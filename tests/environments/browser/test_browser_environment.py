"""dm_env's rules over pages, and what becomes of an environment when something fails."""

import asyncio
import os
import signal

import dm_env
import numpy as np
import pytest

import webtraj
from webtraj import errors
from webtraj.environments import actions as a
from webtraj.environments.browser import access as access_lib
from webtraj.environments.browser.observation import CHANNELS, Observe, refs_in
from webtraj.environments.browser.settle_policy import SettlePolicy

pytestmark = pytest.mark.asyncio(loop_scope="module")

BUTTON = "<button onclick='window.finished = 1'>finish</button><input>"


def assert_follows(value, spec):
    if isinstance(spec, dict):
        assert value.keys() == spec.keys()
        for key in spec:
            assert_follows(value[key], spec[key])
    else:
        spec.validate(value)


async def test_a_termination_has_discount_zero_and_the_page_s_reward(open_page):
    environment = open_page(BUTTON)
    await environment.reset()
    last = await environment.step(a.Click("1"))
    assert (last.step_type, last.reward, last.discount) == (dm_env.StepType.LAST, 1.0, 0.0)
    assert environment.episode_outcome() is webtraj.Outcome.SUCCESS


@pytest.mark.browser
async def test_episode_k_has_seed_plus_k_unless_it_is_set(open_page):
    environment = open_page(BUTTON, seed=10)
    seeds = []
    for set_seed in (None, None, 77, None):
        if set_seed is not None:
            environment.set_seed(set_seed)
        await environment.reset()
        seeds.append(await environment.session.page.evaluate("began.seed"))
        assert environment.describe_episode()["seed"] == seeds[-1]
    assert seeds == [10, 11, 77, 13]


async def test_an_episode_is_described(open_page):
    environment = open_page(BUTTON)
    environment.set_seed(5)
    coming = environment.describe_episode()
    assert (coming["goal"], coming["seed"]) == ("", 5)
    assert "metadata" not in coming
    await environment.reset()
    described = environment.describe_episode()
    assert described["seed"] == 5
    assert (described["task"], described["goal"]) == ("test/page", "Do it")
    assert set(described["versions"]) >= {"webtraj", "browser"}
    assert described["metadata"] == {"kind": "a page of its own"}
    webtraj.EpisodeInfo(**described)


@pytest.mark.smoke
async def test_every_channel_follows_its_spec(open_page):
    environment = open_page(
        BUTTON + "<script>console.error('bad'); alert('hello')</script>", observe=CHANNELS
    )
    spec = environment.observation_spec()
    first = await environment.reset()
    assert_follows(first.observation, spec)
    assert_follows((await environment.step(a.Fill("2", "x"))).observation, spec)
    assert list(first.observation["dialogs"]) == ["alert: hello"]
    assert list(first.observation["console"]) == ["error: bad"]
    assert first.observation["tabs"].shape == (1,)
    assert first.observation["text"].strip().startswith("finish")
    assert first.observation["scroll"]["width"] == 1280.0


@pytest.mark.browser
async def test_every_dialog_is_answered_and_told_and_a_flooded_console_stays_bounded(open_page):
    environment = open_page(
        """<button onclick="this.textContent = `${confirm('Sure?')} ${prompt('Name?', 'x')}`">Ask
        </button><button onclick="for (let i = 0; i < 999; i++) console.error(i)">Flood</button>
        <a href="?left">Leave</a>
        <script>addEventListener('beforeunload', event => event.preventDefault())</script>""",
        observe=("axtree", "dialogs", "console"),
    )
    await environment.reset()
    asked = (await environment.step(a.Click("1"))).observation
    assert list(asked["dialogs"]) == ["confirm: Sure?", "prompt: Name?"]
    assert 'button "true null"' in asked["axtree"]
    flooded = (await environment.step(a.Click("2"))).observation["console"]
    assert 0 < len(flooded) <= 101
    left = (await environment.step(a.Click("3"))).observation
    assert [dialog.partition(":")[0] for dialog in left["dialogs"]] == ["beforeunload"]
    assert 'button "Ask"' in left["axtree"]


async def test_changes_are_told_since_the_last_step(open_page):
    environment = open_page(
        "<p>same</p><button onclick=\"this.textContent = 'two'; this.after('new')\">one</button>",
        observe=("changes",),
    )
    assert list((await environment.reset()).observation["changes"]) == []
    changed = await environment.step(a.Click("2"))
    assert list(changed.observation["changes"]) == [
        '- [2] button "one"', '+ [2] button "two" focused', '+ text "new"',
    ]  # fmt: skip
    assert list((await environment.step(a.Wait(0))).observation["changes"]) == []


@pytest.mark.parametrize("channel", CHANNELS)
async def test_only_the_channels_asked_for_are_there(open_page, channel):
    timestep = await open_page(BUTTON, observe=[channel]).reset()
    assert set(timestep.observation) - {"active_tab"} == {channel}


@pytest.mark.smoke
@pytest.mark.browser
async def test_actions_come_as_records_strings_or_decisions(open_page):
    environment = open_page(BUTTON)
    for action in (
        a.Click("1"),
        "click('1')",
        webtraj.Decision(action=a.Click("1")),
        webtraj.Decision(action="click('1')"),
        np.array("click('1')", dtype=object),
    ):
        await environment.reset()
        assert (await environment.step(action)).last()


@pytest.mark.browser
async def test_what_is_no_action_at_all_is_an_error_that_harms_nothing(open_page):
    environment = open_page(BUTTON)
    await environment.reset()
    with pytest.raises(errors.InvalidInputError, match="click"):
        await environment.step(12)
    assert (await environment.step(a.Wait(0))).mid()


async def test_two_calls_at_once_are_refused(open_page):
    environment = open_page(BUTTON)
    await environment.reset()
    first = asyncio.ensure_future(environment.step(a.Wait(0.05)))
    await asyncio.sleep(0)
    with pytest.raises(errors.ConcurrentCallError):
        await environment.step(a.Wait(0))
    assert (await first).mid()


@pytest.mark.gate
@pytest.mark.smoke
@pytest.mark.browser
async def test_a_cancelled_step_ends_the_episode_and_the_next_is_clean(open_page):
    environment = open_page(BUTTON)
    await environment.reset()
    step = asyncio.ensure_future(environment.step(a.Wait(60)))
    await asyncio.sleep(0)
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    assert (await environment.step(a.Click("1"))).first()
    assert (await environment.step(a.Click("1"))).last()


async def _crash_page(session, page=None):
    crashed = asyncio.Event()
    page = page or session.page
    page.on("crash", lambda _: crashed.set())
    tool = await session.lease.context.new_cdp_session(page)
    crash = asyncio.ensure_future(tool.send("Page.crash"))  # It never answers.
    await crashed.wait()
    crash.cancel()


@pytest.mark.gate
@pytest.mark.smoke
@pytest.mark.browser
async def test_a_page_that_crashes_is_an_observation_and_the_next_episode_is_clean(open_page):
    environment = open_page(BUTTON)
    await environment.reset()
    await _crash_page(environment.session)
    timestep = await environment.step(a.Wait(0))
    assert timestep.mid()
    last_action = timestep.observation["last_action"]
    assert last_action["error_kind"] == "page_broke"
    assert last_action["error"] == "The page crashed and was closed."
    assert not (await environment.step(a.Wait(0))).observation["last_action"]["error"]
    timestep = await environment.reset()
    assert 'button "' in timestep.observation["axtree"]


@pytest.mark.gate
@pytest.mark.browser
async def test_another_tab_that_crashes_leaves_the_active_one_alone(open_page):
    environment = open_page(BUTTON, policy=access_lib.WebAccess())
    await environment.reset()
    await environment.step(a.NewTab())
    await environment.step(a.FocusTab(0))
    session = environment.session
    await _crash_page(session, session.tabs[1])
    timestep = await environment.step(a.Click("1"))
    assert timestep.last()
    assert timestep.reward == 1.0
    assert timestep.observation["last_action"]["error_kind"] == "tab_crashed"
    assert len(session.tabs) == 1


@pytest.mark.gate
@pytest.mark.browser
async def test_a_dead_browser_is_a_typed_error_and_the_next_episode_is_clean(open_page):
    environment = open_page(BUTTON)
    await environment.reset()
    os.kill(environment.session.lease.browser.pid, signal.SIGKILL)
    with pytest.raises(errors.BrowserCrashedError):
        await environment.step(a.Wait(0))
    assert (await environment.step(a.Wait(0))).first()


@pytest.mark.gate
@pytest.mark.browser
async def test_a_page_that_never_settles_is_seen_at_the_cap(open_page):
    environment = open_page(
        "<p id=p>x<script>setInterval(() => p.textContent += '.', 5)</script>",
        settle=SettlePolicy(quiet=0.05, cap=0.2),
    )
    await environment.reset()
    timestep = await environment.step(a.Wait(0))
    assert timestep.observation["last_action"]["settled"] == "cap"


@pytest.mark.smoke
@pytest.mark.browser
async def test_what_a_click_starts_is_waited_for(open_page):
    environment = open_page(
        "<button onclick=\"setTimeout(() => document.body.append('later'), 30)\">go</button>",
        settle=SettlePolicy(quiet=0.1),
    )
    await environment.reset()
    timestep = await environment.step(a.Click("1"))
    assert "later" in timestep.observation["axtree"]
    assert timestep.observation["last_action"]["settled"] == "quiet"


EDITOR = """<div role=textbox aria-label=text contenteditable>some words</div><output></output>
<script>document.querySelector("div").onkeyup = () => setTimeout(() =>
document.querySelector("output").textContent = `heard ${getSelection()}`, 100)</script>"""


@pytest.mark.smoke
@pytest.mark.browser
@pytest.mark.parametrize("html", [EDITOR, f"<iframe srcdoc='{EDITOR}'></iframe>"])
async def test_an_editor_hears_of_a_selection_before_the_step_ends(open_page, html):
    environment = open_page(html)
    first = await environment.reset()
    (editor,) = (each for each in refs_in(first.observation["axtree"]) if each.role == "textbox")
    timestep = await environment.step(a.Press(editor.ref, "ControlOrMeta+a"))
    assert "heard some words" in timestep.observation["axtree"]


@pytest.mark.smoke
@pytest.mark.browser
@pytest.mark.parametrize("delay", [0, 50])
async def test_a_popup_becomes_the_active_tab_and_closing_it_goes_back(open_page, delay):
    environment = open_page(
        "<script>function pop() {w = window.open('about:blank'); w.document.body.innerHTML = "
        "'<button onclick=window.close()>close</button>'}</script>"
        f'<button onclick="setTimeout(pop, {delay})">open</button>',
        observe=("axtree", "tabs", "last_action"),
        settle=SettlePolicy(quiet=0.2),
    )

    async def look_until(timestep, tabs):
        """Returns the first observation with so many tabs; the tree is the active tab's in each."""
        while True:
            seen = timestep.observation
            (button,) = refs_in(seen["axtree"])
            assert button.name == ("open", "close")[seen["active_tab"]]
            if len(seen["tabs"]) == tabs:
                return seen["active_tab"], button
            timestep = await environment.step(a.Wait(0.1))

    await environment.reset()
    active, button = await look_until(await environment.step(a.Click("1")), tabs=2)
    while active == 0:
        active, button = await look_until(await environment.step(a.Wait(0.1)), tabs=2)
    active, _ = await look_until(await environment.step(a.Click(button.ref)), tabs=1)
    assert active == 0


@pytest.mark.parametrize(
    "options", [{"observe": ["smell"]}, {"max_steps": 0}, {"observe": Observe.of("axtree")}]
)
async def test_wrong_options_are_told_when_it_is_made(open_page, options):
    if isinstance(options.get("observe"), Observe):
        open_page(BUTTON, **options)
        return
    with pytest.raises(errors.InvalidInputError):
        open_page(BUTTON, **options)
