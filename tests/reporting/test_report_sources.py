"""What reports are made of: datasets, runs, iterations, and how two differ."""

import asyncio
import dataclasses
import json

import pytest

from webtraj import Outcome, errors, open_dataset
from webtraj.judging.base import Judgement
from webtraj.metrics.comparison import compare, subjects_of
from webtraj.metrics.metrics_report import plain
from webtraj.metrics.report import make_report
from webtraj.rollouts.judging import judge_rollout
from webtraj.runs.iterations import Iterations

TASKS = ("one", "two")


class Strict:
    name = "strict"
    version = "1"

    async def judge(self, trajectory):
        return Judgement(judge="strict", version="1", outcome=Outcome.FAILURE, reward=0.0)


def test_a_dataset_is_measured_with_what_broke_in_it(play):
    once = set()

    def ends(task, seed):
        broke = task == "two" and seed not in once
        once.add(seed)
        return "crash" if broke else "success"

    place = play("data", TASKS, ends, attempts=3, retries=1)
    (subject,) = subjects_of(place)
    (point,) = subject.points
    assert subject.main is subject.first is point
    overall = point.report.overall
    assert (overall.total, overall.success_rate.numerator, overall.crashed) == (9, 6, 3)
    assert point.faults == {"BrowserCrashedError": 3}
    assert set(point.report.by["level"]) == {"easy", "medium"}
    assert len(point.graded) == 6
    assert all(point.graded.values())
    (unread,) = subjects_of(place, steps=False)
    assert unread.main.faults == {"env_error": 3}
    assert unread.main.report.overall.success_rate == overall.success_rate


def test_runs_and_conditions_pick_episodes(play):
    place = play("data", TASKS, lambda task, seed: "success", attempts=2)
    play("data", TASKS, lambda task, seed: "failure", attempts=3)
    first, second = subjects_of(place, each_run=True)
    assert [one.main.report.overall.total for one in (first, second)] == [4, 6]
    assert [one.main.report.overall.successes for one in (first, second)] == [4, 0]
    (last,) = subjects_of(place, run="last")
    assert last.main.graded == second.main.graded
    (some,) = subjects_of(place, condition=lambda summary: summary.task == "one")
    assert some.main.report.overall.total == 5
    with pytest.raises(errors.InvalidInputError, match=r"No episode in .* matches"):
        subjects_of(place, condition=lambda summary: False)
    with pytest.raises(errors.InvalidInputError, match="No run 'none' in"):
        subjects_of(place, run="none")


def test_episodes_of_one_task_and_seed_are_pairs(play):
    def worse(task, seed):
        return "success" if task == "one" else "failure"

    def better(task, seed):
        return "success" if task == "two" or seed % 2 else "failure"

    first = subjects_of(play("first", TASKS, worse, attempts=10))[0]
    second = subjects_of(play("second", TASKS, better, attempts=10))[0]
    (comparison,) = make_report([first, second]).comparisons
    pairs = comparison.pairs
    odd = sum(seed % 2 for (task, seed, _) in first.main.graded if task == "one")
    assert pairs.number == 20
    assert (pairs.both, pairs.first_only, pairs.second_only, pairs.neither) == (
        odd, 10 - odd, 10, 0
    )  # fmt: skip
    assert dict(pairs.gained) == {"two": 10}
    assert dict(pairs.lost) == {"one": 10 - odd}
    assert pairs.value == pytest.approx(odd / 20)
    low, high = pairs.interval
    assert low < pairs.value < high
    (tasks, levels) = (comparison.groups["task"], comparison.groups["level"])
    assert [one.name for one in tasks] == ["two", "one"]  # The largest difference first.
    assert tasks[0].value == 1.0
    assert tasks[0].is_clear
    assert {one.name for one in levels} == {"easy", "medium"}
    data = json.loads(json.dumps(plain(comparison.to_data())))
    assert data["verdict"] == comparison.verdict == "no clear difference"
    assert data["pairs"]["pairs"] == 20
    assert data["rates"][0]["difference"] == pytest.approx(odd / 20)


def test_other_seeds_are_no_pairs(play, ends_by):
    first = subjects_of(play("first", TASKS, ends_by(0.5), seed=1))[0]
    second = subjects_of(play("second", TASKS, ends_by(0.5), seed=2))[0]
    (comparison,) = make_report([first, second]).comparisons
    assert comparison.pairs is None
    assert comparison.rates[0].interval is not None
    assert comparison.success is comparison.rates[0]


def test_few_pairs_do_not_decide(play, ends_by):
    first = subjects_of(play("first", TASKS, ends_by(0.2), attempts=10))[0].main
    second = subjects_of(play("second", TASKS, ends_by(0.9), attempts=10))[0].main
    shared = list(first.graded)
    for number, is_used in ((10, True), (9, False), (1, False)):
        others = {(task, -seed - 1, 0): won for (task, seed, _), won in second.graded.items()}
        kept = {key: second.graded[key] for key in shared[:number]}
        some = dataclasses.replace(second, graded=kept | dict(list(others.items())[number:]))
        comparison = compare("first", first, "second", some)
        assert (comparison.pairs is not None) is is_used, number
        assert (comparison.success is comparison.pairs) is is_used
    assert comparison.verdict == "better"


def test_iterations_are_points_judged_where_they_were_judged(play, tmp_path, ends_by):
    saved = tmp_path / "saved"
    for split, shares in (("train", (0.2, 0.9)), ("test", (0.1, 0.8))):
        iterations = Iterations(str(saved), split)
        for share in shares:
            number = iterations.claim()
            play(f"saved/{split}_trajectories/iteration_{number:04d}", TASKS, ends_by(share))
    train = Iterations(str(saved), "train")
    Iterations(str(saved), "test").claim()  # Begun, and nothing was played.
    lines = [{"iteration": 1, "loss": 2.0, "times": {"train": 3}, "done": True,
              "success": {"value": 0.5, "low": 0.1}, "mean": {"value": None}, "by_task": {"a": 1}},
             {"iteration": 2, "loss": float("inf")}]  # fmt: skip
    content = "".join(f"{json.dumps(line)}\n" for line in lines) + '{"iteration": 3, "lo'
    (saved / "metrics.jsonl").write_text(content)
    (subject,) = subjects_of(str(saved))
    assert [point.label for point in subject.points] == ["train 1", "test 1", "train 2", "test 2"]
    assert (subject.main.label, subject.first.label) == ("test 2", "test 1")
    assert subject.numbers[0] == {
        "iteration": 1, "loss": 2.0, "times.train": 3, "success": 0.5
    }  # fmt: skip
    report = make_report([subject])
    series = report.iterations()["series"]
    assert [one["title"] for one in series] == ["evaluation", "episodes to train on"]
    shown = [point["all"] for one in series for point in one["points"]]
    rates = [point.report.overall.success_rate for point in subject.points]
    counts = [(one["successes"], one["graded"]) for one in shown]
    assert counts == [rates[index].counts for index in (1, 3, 0, 2)]
    (comparison,) = report.comparisons
    assert (comparison.first_name, comparison.second_name) == ("test 1", "test 2")
    assert comparison.pairs.number == 8
    run_id = open_dataset(train.dataset(2)).summaries[0].episode_id.rsplit("-", 2)[0]
    asyncio.run(judge_rollout(train.dataset(2), run_id, Strict(), when="always"))
    (subject,) = subjects_of(str(saved))
    judged = {point.label: point for point in subject.points}["train 2"]
    assert (judged.note, judged.report.overall.failures) == ("judged", 8)
    assert set(judged.report.by["level"]) == {"easy", "medium"}  # By the recorded run's plan.
    with pytest.raises(errors.InvalidInputError, match="--each-run need a dataset"):
        subjects_of(str(saved), each_run=True)


def test_what_holds_nothing_is_refused(tmp_path, play, ends_by):
    with pytest.raises(errors.NotADatasetError):
        subjects_of(str(tmp_path / "nowhere"))
    with pytest.raises(errors.InvalidInputError, match="No dataset given"):
        make_report([])
    (subject,) = subjects_of(play("data", TASKS, ends_by(1)))
    with pytest.raises(errors.InvalidInputError, match="was given twice"):
        make_report([subject, dataclasses.replace(subject)])


@pytest.mark.parametrize("s3_server", ["rclone"], indirect=True)
def test_a_bucket_is_reported_of_like_a_folder(
    play, ends_by, tmp_path, bucket_url, bucket_options, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    there = play(f"{bucket_url}/run", TASKS, ends_by(0.5), options=bucket_options)
    here = play("run", TASKS, ends_by(0.5))
    (bucket,) = subjects_of(there, storage_options=bucket_options)
    (folder,) = subjects_of(here)
    assert bucket.main.graded == folder.main.graded
    numbers = [one.main.report.overall.success_rate for one in (bucket, folder)]
    assert numbers[0] == numbers[1]
