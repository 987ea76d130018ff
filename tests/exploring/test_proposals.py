"""Proposing for a dataset: each episode once, whatever dies meanwhile, in folders and buckets."""

import asyncio
import dataclasses
import signal
import subprocess
import sys
import textwrap

import orjson
import pytest

from webtraj import EndReason, errors
from webtraj.agents.models import OpenAICompatibleClient, RetryPolicy
from webtraj.datasets.verification import verify
from webtraj.exploring.drafts import DUPLICATE, Claim, Draft, Drafts
from webtraj.exploring.hindsight import HindsightProposer
from webtraj.exploring.model_proposer import ModelProposer
from webtraj.exploring.proposals import Proposals, propose, proposer_key
from webtraj.rollouts import read_tasks
from webtraj.store.places import open_storage
from webtraj.testing.model_server import FakeModelServer, Reply


@dataclasses.dataclass
class Namer:
    """Proposes a task that names the episode, and keeps count of what it was asked for."""

    name: str = "namer"
    version: str = "1"
    model: str = ""
    prompt_sha256: str = ""
    same: str = ""
    asked: list = dataclasses.field(default_factory=list)

    @property
    def settings(self):
        return {"same": self.same}

    async def propose(self, seen, limit):
        self.asked.append(seen.episode_id)
        await asyncio.sleep(0)
        goal = self.same or f"Open the page of {seen.episode_id}."
        facts = (Claim("It is open.", (1,)),)
        start = seen.sights[0].url
        bad = Draft(goal="Elsewhere.", start_url="http://b.example", kind="navigation", facts=facts)
        return Drafts(
            drafts=(Draft(goal=goal, start_url=start, kind="navigation", facts=facts), bad)
        )


@pytest.fixture
async def folder(tmp_path, write, walk):
    """A dataset of five exploring episodes, and one that an error ended."""
    episodes = [walk(episode_id=f"e{number}") for number in range(5)]
    await write(tmp_path / "data", *episodes, walk(episode_id="bad", reason=EndReason.ERRORED))
    return tmp_path / "data"


async def test_tasks_lie_beside_the_episodes_and_say_where_they_come_from(folder):
    proposer = Namer()
    proposed = await propose(folder, proposer)
    assert (proposed.episodes, proposed.new, proposed.unfinished) == (5, 5, 1)
    assert proposed.rejections == {"start_url: not a page of shop.example": 5}
    assert proposed.tasks_key == f"tasks/all/proposed-{proposer_key(proposer, 3)}.jsonl"
    tasks = list(read_tasks(proposed.tasks_place))
    assert tasks == list(proposed.tasks)
    assert [task.goal for task in tasks] == [f"Open the page of e{n}." for n in range(5)]
    assert len({task.name for task in tasks}) == 5
    origins = [task.metadata["provenance"] for task in tasks]
    assert [origin["episode_id"] for origin in origins] == [f"e{n}" for n in range(5)]
    assert {origin["policy"] for origin in origins} == {"curious"}
    lines = (folder / proposed.rejections_key).read_bytes().splitlines()
    rejected = [orjson.loads(line) for line in lines]
    assert {row["proposal"]["start_url"] for row in rejected} == {"http://b.example"}
    assert verify(folder).clean


async def test_no_episode_is_proposed_for_twice_and_new_ones_are_added(folder, write, walk):
    proposer = Namer()
    await propose(folder, proposer, parallel=3)
    before = (folder / f"tasks/all/proposed-{proposer_key(proposer, 3)}.jsonl").read_bytes()
    again = await propose(folder, proposer)
    assert sorted(proposer.asked) == [f"e{n}" for n in range(5)]
    assert again.new == 0
    assert (folder / again.tasks_key).read_bytes() == before
    await write(folder, walk(episode_id="e5-late"))
    late = await propose(folder, proposer)
    assert (late.new, late.episodes, len(late.tasks)) == (1, 6, 6)
    assert (folder / late.tasks_key).read_bytes().startswith(before)


async def test_tasks_that_say_the_same_are_there_once(folder):
    proposed = await propose(folder, Namer(same="Open it."), parallel=5)
    (task,) = proposed.tasks
    assert task.metadata["provenance"]["episode_id"] == "e0"
    assert proposed.rejections[DUPLICATE] == 4


async def test_proposers_and_their_settings_do_not_mix(folder):
    one = await propose(folder, Namer())
    other = await propose(folder, Namer(same="Open it."))
    more = await propose(folder, Namer(), proposals=2)
    assert len({one.tasks_key, other.tasks_key, more.tasks_key}) == 3
    assert len(list(read_tasks(one.tasks_place))) == 5


async def test_an_episode_without_pages_is_done_with_nothing(folder, write, walk):
    await write(folder, walk((), episode_id="empty-one"))
    proposed = await propose(folder, HindsightProposer())
    assert proposed.episodes == 6
    assert not any(
        task.metadata["provenance"]["episode_id"] == "empty-one" for task in proposed.tasks
    )


async def test_a_model_that_is_away_leaves_episodes_for_another_time(folder, task, reply):
    def rule(request):
        return next(answers)

    good = reply(task())
    answers = iter([good, Reply.error(500), Reply.error(500), good, good, good, good])
    with FakeModelServer(rule) as server:
        async with OpenAICompatibleClient(
            "fake-model", server.url, retries=RetryPolicy(max_retries=0)
        ) as client:
            proposer = ModelProposer(client=client)
            first = await propose(folder, proposer, parallel=1)
            assert (first.new, list(first.failures)) == (3, ["e1", "e2"])
            second = await propose(folder, proposer, parallel=1)
            assert (second.new, second.failures, second.episodes) == (2, {}, 5)
            files = Proposals(open_storage(folder), "all", proposer_key(proposer, 3))
            record = await asyncio.to_thread(files.read, "e1")
    assert len(server.requests) == 7
    assert record.model_calls[0].text == good
    assert record.tasks[0].metadata["provenance"]["model"] == "openai/fake-model"
    assert len(record.tasks[0].metadata["provenance"]["prompt_sha256"]) == 64


async def test_ten_failures_in_a_row_end_it(tmp_path, write, walk):
    await write(tmp_path / "data", *(walk(episode_id=f"e{n:02}") for n in range(20)))
    with FakeModelServer(lambda request: Reply.error(500)) as server:
        async with OpenAICompatibleClient(
            "fake-model", server.url, retries=RetryPolicy(max_retries=0)
        ) as client:
            with pytest.raises(errors.ModelUnavailableError):
                await propose(tmp_path / "data", ModelProposer(client=client), parallel=2)
    assert 10 <= len(server.requests) <= 12


async def test_a_damaged_record_is_told_and_not_passed_over(folder):
    proposed = await propose(folder, Namer())
    (record,) = (folder / "tasks").rglob("e3.json")
    record.write_bytes(record.read_bytes()[:40])
    with pytest.raises(errors.CorruptDataError, match="Delete it to propose for its episode"):
        await propose(folder, Namer())
    record.unlink()
    assert (await propose(folder, Namer())).tasks == proposed.tasks


KILLED = """
    import asyncio, os, pathlib, signal, sys
    from webtraj.exploring import HindsightProposer, propose
    from webtraj.store.storage import FolderStorage

    folder, at = sys.argv[1], int(sys.argv[2])
    write, calls = FolderStorage.write, []

    def dying(self, key, data, **options):
        calls.append(key)
        if len(calls) == at:
            os.kill(os.getpid(), signal.SIGKILL)
        write(self, key, data, **options)

    FolderStorage.write = dying
    asyncio.run(propose(folder, HindsightProposer(), parallel=1))
"""


@pytest.mark.parametrize("at", [3, 7], ids=("middle", "tasks"))
async def test_who_goes_on_after_sigkill_has_the_same_tasks(folder, at, tmp_path, write, walk):
    killed = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", textwrap.dedent(KILLED), str(folder), str(at)],
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    records = len(list((folder / "tasks").rglob("e*.json"))) if at > 1 else 0
    assert records == min(at - 1, 5)
    resumed = await propose(folder, HindsightProposer())
    assert resumed.new == 5 - records
    undisturbed = tmp_path / "other"
    await write(undisturbed, *(walk(episode_id=f"e{number}") for number in range(5)))
    whole = await propose(undisturbed, HindsightProposer())
    assert (folder / resumed.tasks_key).read_bytes() == (undisturbed / whole.tasks_key).read_bytes()
    assert resumed.rejections == whole.rejections


@pytest.mark.parametrize("s3_server", ["rclone", "moto"], indirect=True)
async def test_buckets_have_it_all_the_same(folder, bucket_url, bucket_options, tmp_path):
    from webtraj.datasets.transfer import copy

    place = f"{bucket_url}/data"
    copy(folder, place, target_options=bucket_options)
    proposer = Namer()
    there = await propose(place, proposer, storage_options=bucket_options)
    again = await propose(place, proposer, storage_options=bucket_options)
    here = await propose(folder, proposer)
    assert there.tasks == again.tasks == here.tasks
    assert (there.new, again.new) == (5, 0)
    found = list(read_tasks(there.tasks_place, storage_options=bucket_options))
    assert found == list(here.tasks)
