"""Waiting for the page's short timers that an action set, and for no others."""

import asyncio
import contextlib
import dataclasses
import re

import pytest

from webtraj import (
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    Outcome,
    StepRecord,
    errors,
)
from webtraj.environments.actions import Click, TypeInto, Wait
from webtraj.environments.browser.settle_policy import LOCAL_PAGE, SERVED_PAGE
from webtraj.environments.miniwob.environment import MiniwobEnvironment
from webtraj.rollouts.forks import ForkedEnvironment
from webtraj.trajectory import StepType

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.browser]

SHOW = "document.body.append('shown')"

# What the button does, until the page shows it.
WAITED_FOR = {
    "a timer": f"setTimeout(() => {SHOW}, 250)",
    "a timer with its delay in a string": f"setTimeout(() => {{ {SHOW} }}, '250')",
    "a timer that a timer sets": f"setTimeout(() => setTimeout(() => {SHOW}, 200), 200)",
    "timers that promises set": f"""
        const sleep = async ms => {{ await new Promise(resolve => setTimeout(resolve, ms)) }};
        (async () => {{ for (let i = 0; i < 5; i++) await sleep(60); {SHOW} }})()""",
    "a timer that a later task sets": f"""
        const channel = new MessageChannel();
        channel.port1.onmessage = () => setTimeout(() => {SHOW}, 200);
        channel.port2.postMessage(0)""",
    "a timer that an event sets": f"""
        addEventListener('moved', () => setTimeout(() => {SHOW}, 200));
        setTimeout(() => dispatchEvent(new Event('moved')), 100)""",
    "frames": f"""
        let left = 8;
        const draw = () => {{ if (left--) requestAnimationFrame(draw); else {SHOW} }};
        draw()""",
    "an interval that ends": f"""
        let left = 4;
        const timer = setInterval(() => {{
          if (--left) return;
          clearInterval(timer);
          {SHOW};
        }}, 60)""",
    "a debounce": f"""
        let timer;
        for (let i = 0; i < 5; i++) {{
          clearTimeout(timer);
          timer = setTimeout(() => {SHOW}, 250);
        }}""",
    "a transition that a timer begins": f"""
        this.style.transition = 'opacity 0.2s';
        this.ontransitionend = () => {SHOW};
        setTimeout(() => this.style.opacity = 0.5, 150)""",
}


@pytest.mark.parametrize("policy", [LOCAL_PAGE, SERVED_PAGE])
async def test_short_timers_of_an_action_are_waited_for(open_page, policy):
    patient = dataclasses.replace(policy, timers=15.0, cap=60.0)  # However busy the machine is.
    for what, script in WAITED_FOR.items():
        environment = open_page(f'<button onclick="{script}">go</button>', settle=patient)
        await environment.reset()
        timestep = await environment.step(Click("1"))
        assert "shown" in timestep.observation["axtree"], what
        assert timestep.observation["last_action"]["settled"] == "quiet", what


ENDLESS = {
    "an interval": "setInterval(() => {}, 50)",
    "a timer that sets itself again": "(function again() { setTimeout(again, 50) })()",
    "frames": "(function again() { requestAnimationFrame(again) })()",
    "timers that promises set": """
        (async () => { for (;;) await new Promise(resolve => setTimeout(resolve, 50)) })()""",
}


async def settled(open_page, script, *, steps=1, **policy):
    """Return how each step ended of which the first does this."""
    settle = dataclasses.replace(LOCAL_PAGE, **policy)
    environment = open_page(f'<button onclick="{script}">go</button>', settle=settle)
    await environment.reset()
    actions = [Click("1"), *[Wait(0.0)] * (steps - 1)]
    timesteps = [await environment.step(action) for action in actions]
    return [timestep.observation["last_action"]["settled"] for timestep in timesteps]


async def test_timers_without_an_end_hold_up_one_step_at_most(open_page):
    for what, script in ENDLESS.items():
        assert await settled(open_page, script, cap=60.0) == ["quiet"], what
        ends = await settled(open_page, script, steps=2, timers=3.0, cap=1.5)
        assert ends == ["cap", "quiet"], what


LONG = {
    "a timer": "setTimeout(() => {}, 600000)",
    "a timer that is set no more": "clearTimeout(setTimeout(() => {}, 9000))",
    "an interval that cannot come twice": "setInterval(() => {}, 6000)",
    "a timer that a timer sets": "setTimeout(() => setTimeout(() => {}, 9900), 200)",
}


async def test_long_timers_are_not_waited_for(open_page):
    for what, script in LONG.items():
        assert await settled(open_page, script, timers=10.0, cap=5.0) == ["quiet"], what
    assert await settled(open_page, "setTimeout(() => {}, 60000)", timers=61.0, cap=1.0) == ["cap"]


async def test_suggestions_of_jquery_ui_are_waited_for(pool):
    patient = dataclasses.replace(LOCAL_PAGE, timers=15.0, cap=60.0)
    async with MiniwobEnvironment("use-autocomplete", pool=pool, settle=patient) as environment:
        first = await environment.reset()
        (ref,) = re.findall(r"\[(\w+)\] textbox", first.observation["axtree"])
        # They come 0.3 s after the last key.
        timestep = await environment.step(TypeInto(ref, "Germ"))
    assert "Germany" in timestep.observation["axtree"]


async def test_timers_in_a_frame_are_waited_for(open_page):
    frame = f"<button onclick='setTimeout(() => {SHOW.replace(chr(39), '`')}, 250)'>go</button>"
    html = f'<iframe srcdoc="{frame}"></iframe>'
    environment = open_page(html, settle=dataclasses.replace(LOCAL_PAGE, timers=15.0, cap=60.0))
    first = await environment.reset()
    (ref,) = re.findall(r"\[(\w+)\] button", first.observation["axtree"])
    timestep = await environment.step(Click(ref))
    assert "shown" in timestep.observation["axtree"]


async def test_timers_of_a_document_that_was_written_anew_are_waited_for(open_page):
    script = """
        const later = setTimeout;
        document.open(); document.write('new'); document.close();
        later(() => document.body.append('shown'), 250)"""
    settle = dataclasses.replace(LOCAL_PAGE, timers=15.0, cap=60.0)
    environment = open_page(f'<button onclick="{script}">go</button>', settle=settle)
    await environment.reset()
    timestep = await environment.step(Click("1"))
    assert "shown" in timestep.observation["axtree"]


async def test_pages_see_the_functions_that_they_expect(open_page):
    script = """
        const names = ['setTimeout', 'clearTimeout', 'setInterval', 'requestAnimationFrame'];
        const told = names.map(name => {
          const {value, ...flags} = Object.getOwnPropertyDescriptor(window, name);
          const shape = [value.name, value.length, ...Object.values(flags)];
          return [...shape, /native code/.test(value)].join(' ');
        });
        setTimeout(function (...given) {
          told.push([this === window, ...given].join(' '));
          try { setTimeout() } catch (error) { told.push(error.name) }
          try { setTimeout.call({}, () => {}) } catch (error) { told.push(error.name) }
          document.body.append(told.join('; '));
        }, 0, 'a', 'b')"""
    for timers in (15.0, 0.0):
        settle = dataclasses.replace(LOCAL_PAGE, timers=timers, quiet=0.5, cap=60.0)
        environment = open_page(f'<button onclick="{script}">go</button>', settle=settle)
        await environment.reset()
        timestep = await environment.step(Click("1"))
        assert (
            "setTimeout 1 true true true true; clearTimeout 0 true true true true; "
            "setInterval 1 true true true true; requestAnimationFrame 1 true true true true; "
            "true a b; TypeError; TypeError"
        ) in timestep.observation["axtree"], timers


BUSY = """
    <button onclick="
      this.after('busy');
      setTimeout(() => {{ this.nextSibling.data = 'done' }}, {})">go</button>"""
NEVER, SOON, LATE = 600_000, 500, 900  # Milliseconds; a step waits for 600.


@pytest.mark.parametrize(
    ("recorded", "replayed", "at", "told"),
    [
        (["done", "done"], LATE, 2, ""),
        (["busy", "done"], SOON, 2, ""),
        (["busy", "done"], SOON, 1, "step 1: the page has the line .*done.*, but .*busy"),
        (["busy", "busy"], SOON, 2, "step 1: the page has the line .*done.*, but .*busy"),
    ],
)
async def test_a_replay_is_not_a_departure_because_of_a_timer(
    open_page, recorded, replayed, at, told
):
    """Its page may be before the timer where the record is after it, and the other way round."""
    shown = {}
    for delay in (NEVER, SOON):
        environment = open_page(BUSY.format(delay))
        first = await environment.reset()
        after = await environment.step(Click("1"))
        shown["busy" if delay == NEVER else "done"] = after.observation
    assert all(text in observation["axtree"] for text, observation in shown.items())
    observations = [first.observation, *(shown[text] for text in recorded)]
    records = [
        StepRecord(number, StepType.MID if number else StepType.FIRST, observation, reward=0.0)
        for number, observation in enumerate(observations)
    ]
    end = EpisodeEnd(reason=EndReason.TRUNCATED)
    parent = EpisodeTrajectory(EpisodeInfo(), tuple(records), end)
    world = ForkedEnvironment(open_page(BUSY.format(replayed)), parent, at)
    departs = pytest.raises(errors.ForkDepartedError, match=told or "at step")
    with departs if told else contextlib.nullcontext():
        await world.reset()
        for action in (Click("1"), Wait(0.0))[:at]:
            timestep = await world.step(action)
            assert recorded[0 if action == Click("1") else 1] in timestep.observation["axtree"]


async def test_the_last_observation_can_be_looked_at_again_too(open_page):
    html = f"""<button onclick="{SHOW}; window.finished = 1; blink()">end</button><p>caret</p>
        <script>
          const caret = document.querySelector('p');
          const blink = () => setInterval(() => {{ caret.hidden = !caret.hidden }}, 400);
        </script>"""
    environment = open_page(html)
    await environment.reset()
    last = await environment.step(Click("1"))
    assert (last.last(), last.reward) == (True, 1.0)
    phases = set()
    async with asyncio.timeout(60.0):
        while len(phases) < 2:
            again = await environment.look_again()
            assert (again.last(), again.reward) == (True, 1.0)
            phases.add("caret" in again.observation["axtree"])
    assert environment.episode_outcome() is Outcome.SUCCESS
    await environment.reset()
    assert (await environment.look_again()).first()
