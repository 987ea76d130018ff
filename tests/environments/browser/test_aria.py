"""Playwright's ARIA snapshot as a channel: with refs that actions take, and without secrets."""

import pytest

import webtraj
from webtraj.agents.contexts import ContextSettings, page_of
from webtraj.environments import actions as a
from webtraj.environments.browser.observation import aria_refs_in, refs_in
from whole import whole

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGE = """
<title>t</title>
<main><h1>Log in</h1>
  <input aria-label=User value=bob>
  <input aria-label=Password type=password value=abc placeholder=secret>
  <input aria-label=Pin type=password value=wxyz>
  <p class=hidden-from-tree>Last reward: <b>1</b></p>
  <x-y><template shadowrootmode=open><button>In shadow</button></template></x-y>
  <iframe srcdoc="<button>In frame</button>"></iframe>
  <button onclick="window.finished = 1">Go: now</button></main>
"""


def ref_of(snapshot, name):
    line = next(line for line in snapshot.split("\n") if name in line)
    (ref,) = aria_refs_in(line)
    return ref


async def observed(open_page, **more):
    environment = open_page(PAGE, observe=("axtree", "aria", "goal"), **more)
    return environment, (await environment.reset()).observation


@pytest.mark.smoke
@pytest.mark.browser
async def test_its_refs_are_those_of_the_axtree_and_actions_take_them(open_page):
    environment, observation = await observed(open_page)
    snapshot = observation["aria"]
    environment.observation_spec()["aria"].validate(snapshot)
    by_name = {ref.name: ref.ref for ref in refs_in(observation["axtree"])}
    for name in ("Log in", "User", "Password", "In shadow", "In frame", "Go: now"):
        assert ref_of(snapshot, f'"{name}"') == by_name[name]
    assert "ref=e" not in snapshot
    await environment.step(a.Click(ref_of(snapshot, "In frame")))
    last = await environment.step(a.Click(ref_of(snapshot, "Go: now")))
    assert last.reward == 1.0


@pytest.mark.gate
async def test_passwords_are_bullets_for_the_agent_and_typed_ones_reach_no_record(open_page):
    environment = open_page(PAGE, observe=("aria", "goal"))
    collector = webtraj.MemoryTrajectoryCollector()
    async with webtraj.TrajectoryCollectingEnvironment(environment, collector) as env:
        snapshot = (await env.reset()).observation["aria"]
        for shown in ("abc", "wxyz"):
            assert shown not in snapshot
        assert snapshot.count("\u2022\u2022\u2022\u2022") == 2
        assert "User" in snapshot
        assert "bob" in snapshot
        ref = ref_of(snapshot, '"Pin"')
        after = await env.step(a.Fill(ref, "correct horse"))
        assert "correct horse" not in after.observation["aria"]
    (episode,) = collector.trajectories
    assert "correct horse" not in whole(episode)
    assert episode.steps[0].observation["aria"] == snapshot


async def test_given_secrets_are_redacted_in_it(open_page):
    environment = open_page(
        "<title>t</title><p>The key is 8431-XYZ-77.</p>",
        observe=("aria",),
        secrets={"key": "8431-XYZ-77"},
    )
    collector = webtraj.MemoryTrajectoryCollector()
    async with webtraj.TrajectoryCollectingEnvironment(environment, collector) as env:
        assert "8431-XYZ-77" in (await env.reset()).observation["aria"]
    (episode,) = collector.trajectories
    assert "8431-XYZ-77" not in whole(episode)
    assert "The key is" in episode.steps[0].observation["aria"]


async def test_a_prompt_shows_it_and_names_its_elements(open_page):
    settings = ContextSettings(mode="aria")
    environment = open_page(PAGE, observe=settings.channels)
    page = page_of((await environment.reset()).observation, settings)
    assert '- textbox "User" [ref=' in page.text
    assert ref_of(page.text, "Go: now") in page.names
    assert not page.image
