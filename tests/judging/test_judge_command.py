"""`webtraj judge`, as a person runs it."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

from rows import each
from webtraj import errors
from webtraj.cli.app import make_app
from webtraj.datasets.dataset import open_dataset
from webtraj.datasets.writer import DatasetWriter
from webtraj.environments import actions
from webtraj.judging.base import name_judge, with_judgement
from webtraj.judging.catalog import make_judge, make_judge_of
from webtraj.judging.judged import judge_dataset
from webtraj.judging.quality import Label, write_labels
from webtraj.testing.model_server import FakeModelServer, Reply
from webtraj.trajectory import (
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    Judgement,
    Outcome,
    StepRecord,
    StepType,
)

RULES = {"rules": [{"tasks": "shop/*", "success": {"answer": "12"}}]}


@pytest.fixture
def run():
    def run(*arguments, code=0):
        result = CliRunner().invoke(make_app(), ["judge", *map(str, arguments)])
        if isinstance(result.exception, errors.WebtrajError):
            raise result.exception
        assert result.exit_code == code, result.output
        return result.output

    return run


def episode(name: str, answer: str, outcome: Outcome, task="shop/price") -> EpisodeTrajectory:
    seen = {"goal": "Say the price.", "url": "http://shop.example/", "text": "The price is 12."}
    steps = (
        StepRecord(0, StepType.FIRST, seen),
        StepRecord(1, StepType.LAST, seen, actions.Answer(answer), 0.0, 0.0),
    )
    info = EpisodeInfo(episode_id=name, task=task, goal="Say the price.")
    end = EpisodeEnd(reason=EndReason.TERMINATED, outcome=outcome)
    return EpisodeTrajectory(info, steps, end)


EPISODES = [
    episode("right", "12", Outcome.SUCCESS),
    episode("wrong", "13", Outcome.FAILURE),
    episode("also-right", "twelve", Outcome.SUCCESS),
    episode("elsewhere", "12", Outcome.SUCCESS, task="news/read"),
]


@pytest.fixture
def dataset(tmp_path):
    with DatasetWriter(tmp_path / "data") as writer:
        for each in EPISODES:
            writer.add(each)
    (tmp_path / "rules.json").write_text(json.dumps(RULES))
    return tmp_path / "data"


class Brief:
    """A judge that says no more than its verdict."""

    async def judge(self, trajectory):
        return Judgement(outcome=Outcome.SUCCESS)


class Versioned(Brief):
    name, version = "own", "2"


@each(
    ("judge", "name", "version"),
    [
        (name_judge(Brief(), "brief"), "brief", ""),
        (Brief(), "Brief", ""),
        (Versioned(), "own", "2"),
    ],
)
def test_a_judge_needs_no_name_and_says_no_more_than_its_verdict(judge, name, version, tmp_path):
    with DatasetWriter(tmp_path / name) as writer:
        writer.add(EPISODES[0])
    for verdicts in (1, 0):
        report = asyncio.run(judge_dataset(tmp_path / name, judge, when="always"))
        assert report.verdicts == verdicts
    (given,) = open_dataset(tmp_path / name)[0].end.judgements
    assert (given.judge, given.version, given.outcome, given.reward) == (
        name, version, Outcome.SUCCESS, 1.0,
    )  # fmt: skip


def test_run_judges_the_dataset_once(run, dataset, tmp_path) -> None:
    asked = ("run", dataset, "--judge", f"rules:{tmp_path}/rules.json", "--when", "always")
    told = run(*asked)
    assert "rules: 4 new verdicts." in told
    assert "All episodes: failure 2, success 2." in told
    judged = {episode.episode_id: episode for episode in open_dataset(dataset)}
    assert judged["also-right"].outcome is Outcome.FAILURE
    assert judged["elsewhere"].end.judgements[0].outcome is Outcome.UNKNOWN
    found = json.loads(run(*asked, "--json"))
    assert (found["verdicts"], found["outcomes"]) == (0, {"success": 2, "failure": 2})
    run("rerun", dataset, "also-right", "--judge", f"rules:{tmp_path}/rules.json")


def test_run_says_what_it_lacks(run, dataset) -> None:
    with pytest.raises(errors.InvalidInputError, match="Give --judge rules:FILE"):
        run("run", dataset)
    with pytest.raises(errors.InvalidInputError, match="when: must be 'unknown' or 'always'"):
        run("run", dataset, "when=never", "--judge", "environment", "--when", "always")
    asked = []

    def away(request):
        asked.append(request)
        return "ok" if len(asked) == 1 else Reply.error(400)  # It answers whether it is there.

    with FakeModelServer(away) as server:
        told = run(
            "run", dataset, "--model", "fake-model", "--base-url", server.url, "--when", "always",
            "--set", "timeout=5", code=1,
        )  # fmt: skip
    assert "was not judged" in told


def test_eval_tells_the_numbers(run, dataset, tmp_path) -> None:
    told = run("eval", dataset, "--judge", f"rules:{tmp_path}/rules.json", "--by-task")
    assert "agreement 66.7%" in " ".join(told.split())
    assert "coverage 75.0%" in " ".join(told.split())
    assert "precision 100.0%" in " ".join(told.split())
    assert "recall 33.3%" in " ".join(told.split())
    assert "also-right shop/price: failure, label success" in told
    assert "elsewhere news/read: unknown, label success" in told
    assert "shop/price 3 66.7%" in " ".join(told.split())


def test_eval_as_json_by_labels_of_ones_own(run, dataset, tmp_path) -> None:
    labels = [Label("right", Outcome.SUCCESS, "anna"), Label("gone", Outcome.FAILURE, "anna")]
    write_labels(tmp_path / "labels.jsonl", [*labels, Label("wrong", Outcome.SUCCESS, "anna")])
    data = json.loads(
        run("eval", dataset, "--labels", tmp_path / "labels.jsonl", "--json", "--parallel", 1)
    )
    assert data["judge"] == "environment"
    assert data["overall"]["confusion"]["success"]["success"] == 1
    assert data["overall"]["agreement"]["denominator"] == 2
    assert data["missing"] == ["gone"]
    assert [found["source"] for found in data["disagreements"]] == ["anna"]
    some = json.loads(run("eval", dataset, "--where", "task == 'news/read'", "--json"))
    assert some["overall"]["judged"] == 1
    assert some["missing"] == []


def test_judgement_of_one_of_several_is_made_again(run, dataset, tmp_path) -> None:
    specs = ["environment", f"rules:{tmp_path}/rules.json"]
    judge = make_judge_of(specs)
    unknown = episode("unknown", "12", Outcome.UNKNOWN)
    nobody = episode("nobody", "12", Outcome.UNKNOWN, task="news/read")
    with DatasetWriter(tmp_path / "judged") as writer:
        for one in (EPISODES[1], unknown, nobody):
            writer.add(with_judgement(one, asyncio.run(judge.judge(one))))
    for which in ("wrong", "-1"):  # A position counts from the end, and is no option.
        told = run("rerun", tmp_path / "judged", which)
        assert told.startswith("environment: failure, same as before.")
    told = run("rerun", tmp_path / "judged", "unknown", "--judge", specs[1])
    assert told.startswith("rules: success, same as before.")
    assert "version was" not in told
    told = run("rerun", tmp_path / "judged", "nobody")
    assert told.startswith("environment+rules: unknown, same as before.")


def test_a_model_is_measured_and_asked_again(run, dataset, tmp_path) -> None:
    """A model that finds the right answer in what it is shown, over real HTTP."""

    def rule(request) -> str:
        verdict = "open" if "keep the agent from its task" in request.text else "failure"
        if verdict == "failure" and ('"12"' in request.text or "answer('12')" in request.text):
            verdict = "success"
        return json.dumps({"reasoning": "I looked.", "verdict": verdict})

    with FakeModelServer(rule, models=["judge-1"]) as server:
        model = ("--model", "judge-1", "--base-url", server.url)
        data = json.loads(run("eval", dataset, "--judge", "model", *model, "--json"))
        assert data["judge"] == "model"
        assert data["overall"]["judged"] == 4
        assert data["overall"]["confusion"]["failure"]["success"] == 0
        judge = make_judge("model", options={"model": "judge-1", "base_url": server.url})
        whole = open_dataset(dataset)["wrong"]

        async def judged():
            async with judge:
                return await judge.judge(whole)

        found = asyncio.run(judged())
        assert found.outcome is Outcome.FAILURE
        with DatasetWriter(tmp_path / "judged") as writer:
            writer.add(with_judgement(whole, found))
        told = run("rerun", tmp_path / "judged", "wrong", "--base-url", server.url)
        assert "model: failure, same as before." in told
    # Its server is gone; what it said is on record.
    replayed = json.loads(run("rerun", tmp_path / "judged", "wrong", "--replay", "--json"))
    assert (replayed["same"], replayed["now"]) == (True, "failure")


@each(
    ("arguments", "told"),
    [
        (["eval", "--judge", "modle"], "Did you mean 'model'"),
        (["eval", "--judge", "model"], "needs a model. Give --model NAME"),
        (["eval", "--judge", "model", "--model", "m", "--set", "vote=3"], "not take 'vote'"),
        (["eval", "--judge", "model", "--model", "m", "--set", "votes=x"], "votes='x': Input"),
        (["eval", "--judge", "rules:no.yaml"], "No file of"),
        (["eval", "--judge", "environment", "--set", "success=1"], "not take 'success'"),
        (["eval", "--judge", "environment", "--set", "success_reward=x"], "expected a number"),
        (["eval", "--judge", "environment:x"], "takes no argument after a colon"),
        (["eval", "--where", "task == 'none'"], "There are no labels"),
        (["rerun", "right"], "No judgement to repeat in the episode 'right'. Its judges: none"),
        (["rerun", "none"], "the dataset has 4"),
    ],
)
def test_what_makes_no_sense_is_refused(run, dataset, arguments, told) -> None:
    action, *rest = arguments
    with pytest.raises(errors.WebtrajError) as refused:
        run(action, dataset, *rest)
    assert told in str(refused.value)


def test_labels_of_another_dataset_measure_nothing(run, dataset, tmp_path) -> None:
    line = {"episode_id": "zzz", "outcome": "success", "source": "anna"}
    (tmp_path / "labels.jsonl").write_text(json.dumps(line))
    with pytest.raises(errors.InvalidInputError, match="of 1 is for 'zzz'"):
        run("eval", dataset, "--labels", tmp_path / "labels.jsonl")


def test_a_model_that_takes_no_requests_is_told_before_any_judging(run, dataset) -> None:
    with FakeModelServer(lambda request: Reply.error(401), models=["judge-1"]) as server:
        model = ("--model", "judge-1", "--base-url", server.url)
        with pytest.raises(errors.WebtrajError, match="401"):
            run("eval", dataset, "--judge", "rules", "--judge", "model", *model)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"model": 3}, "The options of the judge 'model' are wrong. model"),
        ({"model": "m", "provider": "vlm"}, "The options of the judge 'model' are wrong. provider"),
        ({"model": "m", "voets": 3}, "The judge 'model' does not take 'voets'"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else None,
)
def test_wrong_options_are_told_as_a_judges(options, told) -> None:
    with pytest.raises(errors.InvalidInputError, match=told):
        make_judge("model", options=options)


def test_a_judge_that_cannot_decide_says_why_in_its_last_lines_and_in_the_metrics(
    run, dataset, tmp_path
):
    too_early = {"before": {"before": {"before": {"answered": False}}}}  # There is no such step.
    rules = tmp_path / "early.json"
    rules.write_text(json.dumps({"rules": [{"tasks": "*", "success": too_early}]}))
    said = run("run", dataset, "--judge", f"rules:{rules}", "--when", "always")
    why = next(line for line in said.splitlines() if "judge_error: " in line)
    reason = why.partition("judge_error: ")[2]
    assert reason
    shown = CliRunner().invoke(make_app(), ["metrics", str(dataset)]).output
    assert f"judge_error {len(EPISODES)}: {reason}" in shown
