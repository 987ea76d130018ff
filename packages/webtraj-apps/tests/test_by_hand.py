"""Application tasks outside an environment: by hand, in a recording, and as exported scripts."""

import asyncio
import json
import os
import sys
from pathlib import Path

import httpx
import pytest

import other_user
import webtraj
from webtraj import Outcome
from webtraj.collectors.memory import MemoryTrajectoryCollector
from webtraj.datasets.exporters import export_dataset
from webtraj.demonstrating import Recorder
from webtraj.environments import actions as a
from webtraj.environments.actions.recorded import final_answer
from webtraj.environments.browser.pool import BrowserPool
from webtraj.environments.browser.processes import find_browser
from webtraj.rollouts import RunSpec, collect
from webtraj_apps.local_worlds import open_app, open_task
from webtraj_apps.tasks import AppTask, find_template

ROOT = Path(__file__).parents[3]
RUNNER = ROOT / "packages/webtraj-formats/scripts/run_playwright_scripts.py"
sys.path.insert(0, str(ROOT / "tests/demonstrating"))

from hand import Hand, replayed, until  # noqa: E402


async def get(address, path="/", **headers):
    """Ask for a page as a browser does, whose names under localhost are always this machine."""
    port = address.rpartition(":")[2]
    async with httpx.AsyncClient(headers={"Accept": "text/html", **headers}) as client:
        return await client.get(f"http://127.0.0.1:{port}{path}")


async def test_a_browser_without_cookies_is_logged_in(errands):
    task = AppTask(find_template("errands/add"))
    async with open_task(task, seed=3) as addresses:
        assert list(addresses) == ["errands"]
        assert addresses["errands"].startswith("http://errands.localhost:")
        first = await get(addresses["errands"], "/?a=b")
        user = task.assignment.user
        assert (first.status_code, first.headers["location"]) == (302, "/?a=b")
        assert first.cookies["user"] == user
        page = await get(addresses["errands"], Cookie=f"user={user}")
        assert "Buy stamps (1)" in page.text
        assert "missing: added errand" in await task.wrong_state()
    assert not task.worlds
    user = errands.facts(0)["user"]
    async with open_app(errands) as address:
        assert (await get(address)).cookies["user"] == user


@other_user.needs_root
async def test_another_user_of_the_machine_gets_no_answer(errands):
    task = AppTask(find_template("errands/add"))
    async with open_task(task, seed=3) as addresses:
        port = addresses["errands"].rpartition(":")[2]
        url = f"http://127.0.0.1:{port}"
        lines = ("GET /", "POST /add")
        assert await asyncio.to_thread(other_user.statuses, url, *lines) == [0, 0]
        assert 0 not in await asyncio.to_thread(other_user.statuses, url, *lines, user=0)


@pytest.mark.browser
async def test_a_demonstration_is_judged_by_the_task_and_replays_to_the_same_reward(errands):
    async with BrowserPool(1, 2) as pool:
        for outcome, text, reward in (
            (Outcome.SUCCESS, None, 1.0),
            (Outcome.SUCCESS, "done", 1.0),
            (Outcome.FAILURE, None, 0.0),
        ):
            episode = await demonstrated(pool, "apps/errands/add", outcome, text)
            assert (episode.total_reward, episode.info.policy) == (reward, "human")
            assert episode.outcome is (Outcome.SUCCESS if reward else Outcome.FAILURE)
            fill, click, said = (step.action for step in episode.steps[1:])
            assert isinstance(fill, a.Fill)
            assert isinstance(click, a.Click)
            assert isinstance(said, a.Answer if reward else a.ReportInfeasible)
            assert await replayed(episode, pool) == reward


async def demonstrated(pool, preset, outcome, text):
    """Returns the episode of a hand that does what the oracle would, and stops."""
    environment = webtraj.make(preset, seed=3, pool=pool, max_steps=None)
    collector, progress = MemoryTrajectoryCollector(), []
    recorder = Recorder(environment, collector, on_progress=progress.append)
    done = asyncio.ensure_future(recorder.record_episode())
    await until(lambda: progress or done.done())
    hand = await Hand.on(environment.session.page)
    while not isinstance(action := await environment.cheat(), a.Answer):
        number = progress[-1].steps
        await hand.do(environment, action)
        await until(lambda number=number: done.done() or progress[-1].steps > number)
        await until(lambda: recorder.is_settled)
    recorder.stop(outcome, answer=text)
    await done
    await recorder.close()
    (episode,) = collector.trajectories
    return episode


@pytest.mark.browser
async def test_an_exported_script_runs_without_webtraj_and_leaves_the_same_state(errands, tmp_path):
    tasks = ["apps/errands/add", "apps/errands/finish-all-of-a-kind"]
    await collect(RunSpec(preset=tasks, agent="oracle", episodes=4, out=tmp_path / "played"))
    played = webtraj.open_dataset(tmp_path / "played").filter(outcome="success")
    report = export_dataset(played, tmp_path / "scripts", format="playwright")
    assert not report.left_out
    for script in (tmp_path / "scripts").glob("test_*.py"):
        assert "# The pages are those of a real application." in script.read_text()
        assert "webtraj apps open apps/errands/" in script.read_text()
    browser = find_browser().path
    for episode in played:
        task = AppTask(find_template(episode.info.task.removeprefix("apps/")))
        async with open_task(task, seed=episode.info.seed) as addresses:
            running = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", str(RUNNER), str(tmp_path / "scripts")),
                *(("--executable", browser) if browser else ()),
                *("--only", episode.episode_id.replace("-", "_")),
                env={**os.environ, "BASE_URL": addresses["errands"]},
                stdout=asyncio.subprocess.PIPE,
            )
            (row,) = map(json.loads, (await running.communicate())[0].splitlines())
            assert row["error"] == ""
            assert await task.wrong_with(final_answer(episode)) == ""
