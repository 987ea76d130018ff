"""The environment of applications, with the smallest of them in a real browser."""

import dataclasses

import pytest

from webtraj.environments import actions as a
from webtraj.environments.browser.oracles import PageView
from webtraj.trajectory import Outcome
from webtraj_apps import AppEnvironment, Fault, names, template_checks
from webtraj_apps.tasks import find_template

pytestmark = pytest.mark.browser

TEXT = ("goal", "url", "axtree", "last_action")


async def play(environment, *actions):
    """Begin an episode and take these actions; return the last timestep."""
    timestep = await environment.reset()
    for action in actions:
        timestep = await environment.step(action)
    return timestep


async def finish(environment, timestep):
    """Let the oracle act until the episode ends; return the last timestep."""
    while not timestep.last():
        timestep = await environment.step(await environment.cheat())
    return timestep


@pytest.mark.gate
async def test_oracles_succeed_and_nothing_else_does(errands):
    found = [
        row
        async for row in template_checks.check(
            ["errands/add", "errands/finish-all-of-a-kind", "errands/remind"], seeds=(0, 1)
        )
    ]
    assert len(found) == 6
    assert not [row for row in found if row.problems]


async def test_a_goal_has_to_say_what_to_answer_with(errands, monkeypatch):
    name = "errands/finish-all-of-a-kind"
    template = find_template(name)

    def silent(facts, rng):
        made = template.assign(facts, rng)
        return dataclasses.replace(made, goal=made.goal.partition(" Answer with")[0])

    monkeypatch.setitem(names.TEMPLATES, name, dataclasses.replace(template, assign=silent))
    (row,) = [row async for row in template_checks.check([name], seeds=(0,), quick=True)]
    assert row.problems == ("the goal does not say what to answer with",)


async def test_the_same_seed_gives_the_same_pages_and_goal(errands):
    async with AppEnvironment("errands/add", seed=5, observe=TEXT) as environment:
        first = (await environment.reset()).observation
        environment.set_seed(5)
        assert (await environment.reset()).observation["axtree"] == first["axtree"]
        assert first["url"] == "http://errands.test/"
        assert environment.describe_episode()["goal"] == first["goal"]


async def test_an_unasked_change_fails_the_task_and_says_what_it_was(errands):
    async with AppEnvironment("errands/add", seed=1, observe=TEXT) as environment:
        await environment.reset()
        page = PageView(environment.session, goal="")
        other = (await page.one("button", "Done")).ref
        timestep = await finish(environment, await environment.step(a.Click(other)))
        assert timestep.reward == 0
        assert environment.episode_outcome() is Outcome.FAILURE
        assert "unexpected: changed errand" in environment.app_task.reason


async def test_what_is_undone_again_is_no_change(errands):
    async with AppEnvironment("errands/remind", observe=TEXT) as environment:
        refused = await play(environment, a.ReportInfeasible("There are no reminders."))
        assert (refused.reward, refused.last()) == (1.0, True)
        claimed = await play(environment, a.Answer("done"))
        assert claimed.reward == 0.0
    async with AppEnvironment("errands/add", observe=TEXT) as environment:
        refused = await play(environment, a.ReportInfeasible("I do not want to."))
        assert refused.reward == 0.0


async def test_an_agent_can_open_the_application_and_nothing_else(errands):
    async with AppEnvironment("errands/add", observe=TEXT) as environment:
        await environment.reset()
        for url in ("http://shop.test/", "http://127.0.0.1/"):
            refused = await environment.step(a.Goto(url))
            assert refused.observation["last_action"]["error"]
            assert refused.observation["url"] == "http://errands.test/"
        fine = await environment.step(a.Goto("http://errands.test/?again"))
        assert not fine.observation["last_action"]["error"]


@pytest.mark.parametrize(
    "fault",
    [Fault(slow=0.3), Fault(fails=1.0), Fault(fails_after=1), Fault(logs_out_after=1)],
    ids=["slow", "fails-once", "fails", "logs-out"],
)
async def test_faults_end_as_what_the_agent_made_of_them(errands, fault):
    async with AppEnvironment("errands/add", fault=fault, observe=TEXT) as environment:
        timestep = await environment.reset()
        if fault.fails_after:
            broken = await environment.step(a.Goto("http://errands.test/"))
            assert "Internal Server Error" in str(broken.observation["axtree"])
            assert (await environment.step(a.Answer("done"))).reward == 0.0
        else:
            assert (await finish(environment, timestep)).reward == 1.0


async def test_a_page_that_failed_loads_again_even_if_its_address_has_a_fragment(errands):
    async with AppEnvironment("errands/add", fault=Fault(fails=1.0), observe=TEXT) as environment:
        await environment.reset()
        await environment.step(a.Goto("about:blank"))  # The step after which pages may fail.
        failed = await environment.step(a.Goto("http://errands.test/?again#new"))
        assert "Service Unavailable" in str(failed.observation["axtree"])
        await environment.session.page.wait_for_selector("text=Errands", timeout=60_000)
