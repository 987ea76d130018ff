"""From coarse tasks to concrete ones that are then played: a real site, browser and server."""

import asyncio
import itertools
import json
import os
import re
import shutil
import signal
import sys

import pytest

from fixture_site.site import FixtureSite
from webtraj import EndReason, open_dataset
from webtraj.agents.model import ModelAgent
from webtraj.agents.models import OpenAICompatibleClient
from webtraj.datasets.verification import verify
from webtraj.environments.browser.pool import BrowserPool
from webtraj.environments.browser.settle_policy import SERVED_PAGE
from webtraj.environments.tasks import Fact, TaskSpec, spec_of_row
from webtraj.exploring import ModelProposer, propose
from webtraj.rollouts import RunSpec, collect, read_tasks
from webtraj.rollouts.configuration.builder import resume_run
from webtraj.testing.model_server import FakeModelServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]

QUICK = {"settle": SERVED_PAGE}


def coarse(site, *paths):
    return [
        {"url": f"{site.origin}{path}", "description": f"See what {path} is for."} for path in paths
    ]


def explorer(request):
    """A model that opens the first link of the page that it has not tried there."""
    tried = set(re.findall(r'- click "link (.*)"', request.text))
    page = request.text.partition("] main")[2]
    for ref, name in re.findall(r'\[(\w+)\] link "(.*?)"', page):
        if name not in tried:
            return f"Thought: New.\nMemory: {name}.\nAction: click('{ref}')"
    return "Action: answer('done')"


def proposer(request):
    """A model that has pages found, and is sometimes wrong."""
    blocks = re.split(r"<<<\w{16} step (\d+)>>>\n", request.text)[1:]
    steps = [
        {
            "step": int(number),
            **dict(re.findall(r"^\| (did|url|title): (.*)$", block, re.MULTILINE)),
        }
        for number, block in zip(blocks[::2], blocks[1::2], strict=True)
    ]
    tasks = [
        {
            "goal": f'Open "{re.search("link (.*)[)]", step["did"])[1]}".',
            "start_url": before["url"],
            "kind": "navigation",
            "facts": [{"fact": f'The page "{step["title"]}" is open.', "evidence": [step["step"]]}],
        }
        for before, step in itertools.pairwise(steps)
        if before["url"] != step["url"] and "link " in step.get("did", "")
    ]
    wrong = {**tasks[0], "goal": "Go away.", "start_url": "http://evil.example/"}
    return json.dumps({"tasks": [wrong, *tasks]})


def player(request):
    """A model that does what the goals say: it opens what they quote, and is done."""
    goal = re.search(r"Task: (.*)", request.parts(1)[0]["text"])[1]
    link = re.search(r'open "(.*?)"', goal, re.IGNORECASE)[1]
    said = [str(m["content"]) for m in request.messages if m["role"] == "assistant"]
    if any("click(" in reply for reply in said):
        return "Action: answer('done')"
    ref = re.search(rf"\[(\w+)\] link {re.escape(json.dumps(link))}", request.text)
    return f"Action: click('{ref[1]}')" if ref else "Action: wait()"  # For a page that is late.


@pytest.mark.parametrize("s3_server", ["rclone"], indirect=True)
async def test_what_was_explored_into_a_bucket_is_proposed_for_and_can_be_played(
    tmp_path, bucket_url, bucket_options
):
    out, options = f"{bucket_url}/crawl", {"storage_options": bucket_options}
    async with FixtureSite() as site, BrowserPool(1, 3) as pool:
        spec = RunSpec(
            agent="curious", proposer="hindsight", seed=1, out=out, **options, proposals=4,
            parallel=3, max_steps=6, environment_options=QUICK,
        )  # fmt: skip
        explored = await collect(
            spec,
            tasks=[spec_of_row(row) for row in coarse(site, "/forum", "/help", "/products")],
            pool=pool,
        )
        assert {result.end_reason for result in explored.results} <= {
            EndReason.TERMINATED,
            EndReason.TRUNCATED,
        }
        assert (await asyncio.to_thread(verify, out, **options)).clean
        tasks = await asyncio.to_thread(
            lambda: list(read_tasks(explored.proposed.tasks_place, **options))
        )
        assert tasks == list(explored.proposed.tasks)
        assert len({task.name for task in tasks}) == len(tasks) >= 5
        dataset = await asyncio.to_thread(open_dataset, out, **options)
        episodes = {episode.episode_id: episode for episode in dataset}
        for task in tasks:
            origin = task.metadata["provenance"]
            steps = episodes[origin["episode_id"]].steps
            assert all(steps[index].observation["axtree"] for index in origin["steps"])
            assert task.start_url in {step.observation["url"] for step in steps}
        opening = [task for task in tasks if re.search('open "', task.goal)][:3]
        assert opening
        with FakeModelServer(player) as server:
            async with OpenAICompatibleClient("fake-model", server.url) as client:
                spec = RunSpec(parallel=3, out=tmp_path / "played", environment_options=QUICK)
                await collect(spec, tasks=opening, agent=ModelAgent(client=client), pool=pool)
            assert not server.errors
    played = list(open_dataset(tmp_path / "played"))
    assert len(played) == len(opening)
    for trajectory in played:
        assert trajectory.end_reason is EndReason.TERMINATED
        title = trajectory.steps[-1].observation["title"]
        task = TaskSpec.from_data(trajectory.info.metadata["task"])  # What judges go by.
        assert task in opening
        assert [group.facts for group in task.facts] == [(Fact(f'The page "{title}" is open.'),)]


@pytest.mark.gate
async def test_a_crawl_that_is_killed_before_it_proposes_is_gone_on_with(tmp_path):
    """SIGKILL comes with the first question of the proposer, over real HTTP."""
    victim = []

    def rule(request):
        if "Propose up to" not in request.text:
            return explorer(request)
        while victim:
            os.kill(victim.pop(), signal.SIGKILL)
        return proposer(request)

    async def command(*arguments):
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "webtraj", "rollout", *arguments, stdout=asyncio.subprocess.PIPE
        )

    out = tmp_path / "crawl"
    async with FixtureSite() as site:
        rows = coarse(site, "/forum", "/")
        (tmp_path / "coarse.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        with FakeModelServer(rule) as server:
            model = ("--model", "fake-model", "--base-url", server.url, "--parallel", "2")
            first = await command(
                *("--preset", str(tmp_path / "coarse.jsonl"), "--out", str(out), *model),
                *("--agent", "explorer", "--proposer", "model", "--max-steps", "2"),
                *("max_repetitive_actions=3", "--format", "pb"),
            )
            victim.append(first.pid)
            await first.communicate()
            assert first.returncode == -signal.SIGKILL
            assert len(list((out / "episodes").rglob("*.pb"))) == len(open_dataset(out)) == 2
            assert not (out / "tasks").exists()
            explored = len([r for r in server.requests if "Propose up to" not in r.text])

            second = await command("--out", str(out), "--resume")
            told = (await second.communicate())[0].decode()
            assert second.returncode == 0, told
            asked = [r for r in server.requests if "Propose up to" not in r.text]
            assert len(asked) == explored  # Nothing was explored again.
            (file,) = (out / "tasks").glob("*/proposed-model-*.jsonl")
            assert str(file) in told
            assert "start_url: not a page of" in told

            third = await resume_run({}, out=str(out)).play()
            assert third.proposed.new == 0
            assert len(third.results) == 2

            # Without any death it is the same.
            shutil.copytree(out, tmp_path / "again", ignore=shutil.ignore_patterns("tasks"))
            async with OpenAICompatibleClient("fake-model", server.url) as client:
                whole = await propose(tmp_path / "again", ModelProposer(client=client))
            assert not server.errors
    tasks = list(read_tasks(file))
    assert tasks == list(whole.tasks)
    assert len({task.goal for task in tasks}) == len(tasks) >= 3
    assert {task.metadata["provenance"]["episode_id"] for task in tasks} <= set(
        open_dataset(out).episode_ids
    )
    assert verify(out).clean
