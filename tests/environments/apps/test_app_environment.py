"""The environment of applications, with the smallest of them in a real browser."""

import asyncio
import contextlib
import dataclasses
import json

import pytest

import webtraj
from webtraj import errors
from webtraj.environments import actions as a
from webtraj.environments.apps import AppEnvironment, Fault, checking, tasks
from webtraj.environments.apps.state import added, changed, contains, optional, removed
from webtraj.environments.apps.tasks import Assignment, find_template
from webtraj.environments.browser.oracles import PageView
from webtraj.judging.catalog import make_judge
from webtraj.judging.quality import evaluate, labels_of_dataset
from webtraj.metrics import measure
from webtraj.rollouts import collect
from webtraj.testing.model_server import FakeModelServer
from webtraj.trajectory import Outcome

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


@pytest.mark.smoke
async def test_oracles_succeed_and_nothing_else_does(errands):
    found = [
        row
        async for row in checking.check(
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

    monkeypatch.setitem(tasks._TEMPLATES, name, dataclasses.replace(template, assign=silent))
    (row,) = [row async for row in checking.check([name], seeds=(0,), quick=True)]
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


async def test_the_step_limit_truncates_without_success(errands):
    async with AppEnvironment("errands/add", max_steps=2, observe=TEXT) as environment:
        timestep = await play(environment, a.Wait(0.0), a.Wait(0.0))
        assert (timestep.last(), timestep.reward, timestep.discount) == (True, 0.0, 1.0)


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
    [Fault(slow=0.3), Fault(fails_after=1), Fault(logs_out_after=1)],
    ids=["slow", "fails", "logs-out"],
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


async def test_an_application_that_fails_at_the_start_is_no_failure_of_the_agent(errands):
    async with AppEnvironment("errands/add", fault=Fault(fails_after=0)) as environment:
        with pytest.raises(errors.PageLoadError, match="500"):
            await environment.reset()


async def test_a_server_that_is_killed_in_the_middle_costs_nothing(errands):
    async with AppEnvironment("errands/finish-all-of-a-kind", observe=TEXT) as environment:
        await environment.reset()
        timestep = await environment.step(await environment.cheat())
        (world,) = environment.app_task.worlds.values()
        process = world._host.start()
        process.kill()
        process.wait()
        assert (await finish(environment, timestep)).reward == 1.0


async def test_presets_are_rolled_out_and_recorded_like_any_others(errands, tmp_path):
    await collect("apps/errands/all", "oracle", episodes=6, parallel=3, out=tmp_path / "data")
    dataset = webtraj.open_dataset(tmp_path / "data")
    assert [summary.outcome for summary in dataset.summaries] == [Outcome.SUCCESS] * 6
    assert {summary.task for summary in dataset.summaries} == {
        "apps/errands/add",
        "apps/errands/finish-all-of-a-kind",
        "apps/errands/remind",
    }
    assert {summary.site for summary in dataset.summaries} == {"errands.test"}
    recorded = [episode.info.metadata for episode in dataset]
    assert {data["task"]["difficulty"] for data in recorded} == {2, 5}
    assert {data["task"].get("reference_answer") for data in recorded} == {None, "3"}
    assert {data["rollout"]["try"] for data in recorded} == {0}


async def test_worlds_are_gone_when_the_environment_is_closed(errands):
    environment = AppEnvironment("errands/add")
    await environment.reset()
    (world,) = environment.app_task.worlds.values()
    assert world.folder.exists()
    await asyncio.gather(environment.close())
    assert not world.folder.exists()


async def test_a_judge_of_records_is_asked_for_the_expected_changes_and_measured(errands, tmp_path):
    """The state decides; what it was to be is the judge's rubric."""
    asked = []

    def answer(request) -> str:
        asked.append(request.text)
        verdict = "success" if "action: click" in request.text.lower() else "failure"
        return json.dumps({"reasoning": "I looked.", "verdict": verdict})

    out = tmp_path / "played"
    for agent in ("oracle", lambda observation: a.Answer("done")):
        await collect("apps/errands/test", agent, episodes=4, out=out)
    dataset = webtraj.open_dataset(out)
    with FakeModelServer(answer, models=["judge-1"]) as server:
        judge = make_judge("model", options={"model": "judge-1", "base_url": server.url})
        async with judge:
            report = await evaluate(judge, dataset, labels_of_dataset(dataset))
    everything = "\n".join(asked)
    assert "An errand was changed" in everything, everything[:6000]
    assert "The agent reported that the task cannot be done." in everything
    assert report.overall.judged == 8


def test_a_rubric_names_what_pages_show():
    expect = (
        added("bill_bill", what="Pizza", amount=12.0, owner_id=3, date=lambda value: True),
        added("bill_bill", what="Pizza", amount=12.0, owner_id=4),
        changed("ticket", {"id": 3, "summary": contains("slow", "page")}, status="closed"),
        removed("note", id=4),
        optional(removed("draft")),
    )
    assert Assignment(goal="", expect=expect, answer=("2", "3")).rubric() == (
        "2 times: A bill was added: what 'Pizza', amount 12.0.",
        "A ticket with summary containing 'slow' and 'page' was changed: now status 'closed'.",
        "A note was removed.",
        "The agent answered: 2, 3",
        "Nothing else was changed.",
    )
    assert Assignment(goal="How many?", answer="2").rubric() == ()
    many = tuple(added("bill", what=str(number)) for number in range(30))
    facts = Assignment(goal="", expect={"budget": many}).rubric()
    assert facts[-2:] == (
        "There were 22 other changes like these, as the goal asks.",
        "Nothing else was changed.",
    )


async def test_thirty_two_worlds_in_browsers_at_once_do_not_meet(errands):
    """Each adds its own errand, after all have begun, and finds no other's."""
    async with contextlib.AsyncExitStack() as opened:
        environments = [
            await opened.enter_async_context(AppEnvironment("errands/add", seed=seed, observe=TEXT))
            for seed in range(32)
        ]
        begun = await asyncio.gather(*(environment.reset() for environment in environments))
        ended = await asyncio.gather(*map(finish, environments, begun))
    assert [timestep.reward for timestep in ended] == [1.0] * 32


async def test_metrics_by_level_read_the_episodes_task(errands, tmp_path):
    await collect("apps/errands/all", "oracle", episodes=3, out=tmp_path / "played")
    report = measure(webtraj.open_dataset(tmp_path / "played"), by=("level",))
    counts = {level: found.valid for level, found in report.by["level"].items()}
    assert counts == {"easy": 2, "medium": 1}
