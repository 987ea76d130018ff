"""Judgements beside the episodes: added, merged when read, carried by copies."""

import asyncio
import dataclasses
import pickle
import re

import pytest

from rows import each
from webtraj import errors, open_dataset
from webtraj.datasets.judgements import Judgements
from webtraj.datasets.place import open_place
from webtraj.datasets.transfer import convert
from webtraj.datasets.verification import verify
from webtraj.datasets.writer import DatasetWriter
from webtraj.judging.environment import EnvironmentJudge
from webtraj.judging.judged import judge_dataset
from webtraj.judging.quality import evaluate, labels_of_dataset
from webtraj.trajectory import Judgement, ModelCall, Outcome

PICTURE = b"\x89PNG" + bytes(range(256)) * 40

PROMPT = "What do you see? " * 500


def verdict(outcome=Outcome.FAILURE, judge="anna", reason="Seen.", **fields):
    return Judgement(judge=judge, version="1", outcome=outcome, reason=reason, **fields)


def asked(outcome=Outcome.FAILURE):
    """Returns the verdict of a judge that has shown a model a picture."""
    shown = ({"role": "user", "content": [PROMPT, PICTURE]},)
    call = ModelCall(model="m", provider="openai", messages=shown, text="failure")
    return verdict(outcome, "model", model_calls=(call,), findings={"goal": "not met"})


@pytest.fixture
def dataset(place, episodes):
    with DatasetWriter(place) as writer:
        for each in episodes:
            writer.add(each)
    return place


def add(place, judged):
    with Judgements(open_place(place)) as book:
        book.add(judged.items())


def test_an_episode_has_the_judgements_beside_it(dataset, episodes):
    before = open_dataset(dataset)
    add(dataset, {"e1": asked(), "e2": verdict(Outcome.UNKNOWN)})
    found = open_dataset(dataset)
    assert [s.outcome.name for s in found.summaries] == ["SUCCESS", "FAILURE", *["SUCCESS"] * 3]
    assert found["e1"].end == episodes[1].end.with_judgement(asked())
    assert found["e2"].end.judgements == (verdict(Outcome.UNKNOWN),)
    assert found["e2"].outcome is Outcome.SUCCESS
    assert found["e0"] == episodes[0]
    # An open dataset shows what it has read; so do parts of it.
    assert before["e1"] == episodes[1]
    assert before.refresh().filter(outcome="failure")[0].end.judgements == (asked(),)
    assert found[1:2][0].outcome is Outcome.FAILURE
    if "://" not in dataset:  # Other processes read parts of it.
        part = pickle.loads(pickle.dumps(found.of(found.summaries[:2])))
        assert [episode.outcome.name for episode in part] == ["SUCCESS", "FAILURE"]
    assert verify(dataset).clean


def test_long_texts_and_pictures_are_blobs_and_lazy_where_asked_for(dataset):
    add(dataset, {"e1": asked()})
    (line,) = [
        line
        for entry in open_place(dataset).storage.list("judgements/")
        for line in open_place(dataset).storage.read(entry.key).splitlines()
    ]
    assert len(line) < 1500
    call = open_dataset(dataset, blobs="lazy")["e1"].end.judgements[0].model_calls[0]
    text, picture = call.messages[0]["content"]
    assert (text.load(), picture.load()) == (PROMPT, PICTURE)


def test_the_last_judgement_counts_whoever_wrote_it(dataset):
    one, two = Judgements(open_place(dataset)), Judgements(open_place(dataset), clock=lambda: 1.0)
    with one, two:
        one.add([("e1", verdict(Outcome.FAILURE))])
        assert two.refresh() == {"e1"}
        two.add([("e1", verdict(Outcome.BLOCKED, "ben"))])  # Its clock is far behind.
        assert one.refresh() >= {"e1"}
        for book in (one, two):
            assert [made.judge for made in book.of("e1")] == ["anna", "ben"]
            assert book.outcome_of("e1") is Outcome.BLOCKED
        assert one.has("e1", "anna", "1")
        assert not one.has("e1", "anna", "2")
    assert open_dataset(dataset)["e1"].outcome is Outcome.BLOCKED


def test_a_judge_that_failed_has_not_judged(dataset):
    with Judgements(open_place(dataset)) as book:
        book.add([("e1", verdict(Outcome.JUDGE_ERROR))])
        assert not book.has("e1", "anna", "1")


@pytest.mark.parametrize("written", ["json", "pb.zst"])
def test_a_copy_has_the_judgements_once(dataset, written, tmp_path):
    add(dataset, {"e1": asked(), "e3": verdict()})
    target = tmp_path / "copy"
    for _ in range(2):
        convert(dataset, target, format=written, where=lambda summary: summary.episode_id != "e3")
    found = open_dataset(target)
    assert found["e1"].end.judgements == (asked(),)
    assert found.judgements.episode_ids == {"e1"}
    assert verify(target).clean
    # Judged since: the copy takes over what it lacks.
    add(dataset, {"e1": verdict(Outcome.SUCCESS)})
    convert(dataset, target, format=written, where=lambda summary: summary.episode_id == "e1")
    assert open_dataset(target)["e1"].end.judgements == (asked(), verdict(Outcome.SUCCESS))


def test_lines_that_are_none_are_told_and_a_torn_one_does_not_count(tmp_path, episodes):
    with DatasetWriter(tmp_path / "d") as writer:
        writer.add(episodes[0])
    add(tmp_path / "d", {"e0": verdict(), "e9": verdict()})
    (path,) = (tmp_path / "d/judgements").glob("*.jsonl")
    whole = path.read_bytes()
    torn = (
        whole[: whole.index(b"\n") + 1] + b'{"episode_id": "../x", "judgement": {"judge": "a"}}\n'
    )
    path.write_bytes(torn + b"no json\n" + whole[:30])
    assert open_dataset(tmp_path / "d")["e0"].outcome is Outcome.FAILURE
    told = [problem.what for problem in verify(tmp_path / "d").problems]
    assert len(told) == 2
    assert all("not a judgement" in what for what in told)
    path.write_bytes(whole)
    assert ["which is not there" in p.what for p in verify(tmp_path / "d").problems] == [True]


def test_a_changed_judgement_is_told_and_does_not_count(tmp_path, episodes):
    with DatasetWriter(tmp_path / "d") as writer:
        writer.add(episodes[0])
    recorded = open_dataset(tmp_path / "d")["e0"].outcome
    add(tmp_path / "d", {"e0": verdict()})
    assert open_dataset(tmp_path / "d")["e0"].outcome is Outcome.FAILURE
    assert verify(tmp_path / "d").clean
    (path,) = (tmp_path / "d/judgements").glob("*.jsonl")
    changed = path.read_bytes().replace(b'"failure"', b'"success"')
    path.write_bytes(changed)
    assert open_dataset(tmp_path / "d")["e0"].outcome is recorded
    (problem,) = verify(tmp_path / "d").problems
    assert "has changed since it was written" in problem.what
    # On purpose, or by a webtraj that knew no checksums.
    path.write_bytes(re.sub(rb',"crc32":"[0-9a-f]{8}"}', b"}", changed))
    assert open_dataset(tmp_path / "d")["e0"].outcome is Outcome.SUCCESS
    assert verify(tmp_path / "d").clean


def test_a_judgement_that_cannot_be_read_is_told(tmp_path, episodes):
    with DatasetWriter(tmp_path / "d") as writer:
        writer.add(episodes[0])
    add(tmp_path / "d", {"e0": verdict()})
    (path,) = (tmp_path / "d/judgements").glob("*.jsonl")
    line = re.sub(rb',"crc32":"[0-9a-f]{8}"}', b"}", path.read_bytes())
    path.write_bytes(line.replace(b'"Seen."', b'{"$":"bytes","v":"not base64"}'))
    (problem,) = verify(tmp_path / "d").problems
    assert problem.where == "e0"
    assert "a judgement cannot be read" in problem.what


# Judging a dataset.


class Judge:
    """Says failure, or what it was told to; slow, if it is to wait."""

    name, version = "anna", "1"

    def __init__(self, says=None, hangs_after=None):
        self._says = says or {}
        self._hangs_after = hangs_after
        self.hangs = asyncio.Event()
        self.asked = []

    async def judge(self, trajectory):
        self.asked.append(trajectory.episode_id)
        if len(self.asked) == self._hangs_after:
            self.hangs.set()
            await asyncio.Event().wait()
        said = self._says.get(trajectory.episode_id, Outcome.FAILURE)
        if isinstance(said, str):
            return verdict(Outcome.JUDGE_ERROR, findings={"unanswered": True}, reason=said)
        return verdict(said)


async def test_each_episode_is_judged_once(dataset):
    judge = Judge({"e0": Outcome.SUCCESS, "e3": "The model is away."})
    shown = []
    done = await judge_dataset(
        dataset, judge, when="always", observer=lambda *numbers: shown.append(numbers)
    )
    assert (done.verdicts, done.complete) == (4, False)
    assert done.failures == {"e3": "The model is away."}
    assert [o.name for o in done.outcomes.values()].count("FAILURE") == 3
    assert shown[-1] == (5, 5)
    again = Judge()
    done = await judge_dataset(dataset, again, when="always")
    assert (again.asked, done.complete) == (["e3"], True)
    assert done.outcomes["e3"] is Outcome.FAILURE
    assert not (await judge_dataset(dataset, Judge())).verdicts  # All outcomes are known.


async def test_a_judge_sees_what_was_recorded_and_not_what_others_said(dataset):
    add(dataset, {"e1": verdict(Outcome.BLOCKED, "ben")})
    found = open_dataset(dataset)
    assert found.as_recorded()["e1"].end.judgements == ()
    assert {label.outcome for label in labels_of_dataset(found).values()} == {Outcome.SUCCESS}
    report = await evaluate(EnvironmentJudge(), found, labels_of_dataset(found))
    assert report.overall.agreement.value == 1.0
    done = await judge_dataset(dataset, EnvironmentJudge(), when="always")
    assert done.outcomes["e1"] is Outcome.SUCCESS
    assert [made.judge for made in open_dataset(dataset)["e1"].end.judgements] == [
        "ben", "environment",
    ]  # fmt: skip


async def test_verdicts_are_kept_when_judging_is_cancelled(dataset):
    judge = Judge(hangs_after=3)
    task = asyncio.create_task(judge_dataset(dataset, judge, when="always", parallel=1))
    await judge.hangs.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(open_dataset(dataset).judgements.episode_ids) == 2


@each(
    "returned",
    [
        None,
        True,
        verdict(Outcome.AGENT_ERROR),
        verdict(Outcome.CANCELLED),
        verdict(judge="ben"),
        dataclasses.replace(verdict(), version="2"),
        verdict(Outcome.SUCCESS, reward=float("nan")),
    ],
)
async def test_what_is_no_judgement_is_refused_by_name(dataset, returned):
    class Odd(Judge):
        async def judge(self, trajectory):
            return returned

    class AtOnce(Judge):
        def judge(self, trajectory):
            return returned

    for judge in (Odd(), AtOnce()):
        with pytest.raises(errors.InvalidInputError) as refused:
            await judge_dataset(dataset, judge, when="always")
        told = str(refused.value)
        assert told.startswith(f"The judge 'anna' returned {returned!r:.300} for the episode 'e")
    assert not open_dataset(dataset).judgements.episode_ids
