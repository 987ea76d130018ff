"""Success by iteration: which datasets it is of, which numbers, and while a loop runs."""

import shutil
from pathlib import Path

import orjson
import pytest
from record_iteration import EPISODES, TASKS, episode, record
from viewer_server_support import Clock, get, served, write

from webtraj import errors
from webtraj.datasets.dataset import open_dataset
from webtraj.loop import load_loop_config
from webtraj.loop import run as run_loop
from webtraj.loop.phases import NullLoopObserver
from webtraj.metrics import measure
from webtraj.metrics.rates import mean_of_tasks
from webtraj.trajectory import Outcome
from webtraj.view.collection import datasets_in
from webtraj.view.viewer import Viewer

SCRIPT = Path(__file__).with_name("record_iteration.py")


@pytest.fixture(scope="module")
def loop_folder(tmp_path_factory):
    """What a loop has made that is in its second iteration."""
    out = tmp_path_factory.mktemp("looped") / "loop"
    for number in (1, 2):
        record(out / f"train_trajectories/iteration_000{number}", number)
        record(out / f"test_trajectories/iteration_000{number}", number, better=1)
        record(out / f"processed/iteration_000{number}", 3)
    (out / "state.jsonl").write_bytes(b"")
    (out / "logs").mkdir()
    (out / "model.pt").symlink_to(out)  # As the link to the latest model, but worse.
    return out


def points(series):
    return [(point["at"], point["dataset"]) for point in series["points"]]


def test_the_datasets_of_a_loop_are_found_and_say_what_they_are(loop_folder):
    assert [found.name for found in datasets_in(loop_folder)] == [
        "processed-iteration_0001",
        "processed-iteration_0002",
        "test-iteration_0001",
        "test-iteration_0002",
        "train-iteration_0001",
        "train-iteration_0002",
    ]
    assert [found.name for found in datasets_in(loop_folder, said=True)][-1] == (
        "loop-train-iteration_0002"
    )


async def test_training_on_groups_is_told_as_measured(tmp_path):
    out = tmp_path / "loop"
    record(out / "train_trajectories/iteration_0002", 2)
    async with served(out) as (client, _):
        assert (await get(client, "/api/iterations"))["gradient"] == []
    measured = {"groups": 4, "groups_kept": 3, "reward": 0.25, "ratio": 1.5, "unscored": 1}
    hostile = {"entropy": "<b>", "mismatch": None}
    lines = [{"iteration": 1}, {"iteration": 2, "policy_gradient": {**measured, **hostile}}]
    (out / "metrics.jsonl").write_bytes(b"\n".join(map(orjson.dumps, lines)))
    async with served(out) as (client, _):
        (told,) = (await get(client, "/api/iterations"))["gradient"]
    assert told["title"] == "policy gradient"
    del measured["unscored"]
    where = {"at": 2, "dataset": "train-iteration_0002", "iteration": 2}
    assert told["points"] == [{**where, **measured}]
    (out / "metrics.jsonl").write_bytes(b"{")
    async with served(out) as (client, _):
        assert (await get(client, "/api/iterations"))["gradient"] == []


async def test_success_is_that_of_the_metrics(loop_folder):
    async with served(loop_folder) as (client, _):
        data = await get(client, "/api/iterations")
    evaluation, train = data["series"]
    # An evaluation is one of the iteration before its number: what that has learned.
    assert points(evaluation) == [(0, "test-iteration_0001"), (1, "test-iteration_0002")]
    assert points(train) == [(1, "train-iteration_0001"), (2, "train-iteration_0002")]
    assert (evaluation["after"], train["after"], data["left_out"]) == (1, 0, 0)
    rates = {
        one["task"]: {tuple(rate[:2]): rate[2:] for rate in one["rates"]} for one in data["tasks"]
    }
    assert set(rates) == set(TASKS)
    for place, series in enumerate(data["series"]):
        for at, point in enumerate(series["points"]):
            split, _, rest = point["dataset"].partition("-")
            folder = loop_folder / f"{split}_trajectories" / rest
            report = measure(open_dataset(folder), steps=False, by=("task",))
            for task, metrics in report.by["task"].items():
                rate = metrics.success_rate
                expected = [rate.numerator, EPISODES, *rate.interval]
                assert rates[task][place, at] == pytest.approx(expected)
            whole = report.overall.success_rate
            low, high = whole.interval
            assert point["all"] == pytest.approx(
                {"successes": whole.numerator, "graded": 2 * EPISODES, "low": low, "high": high}
            )
            of_tasks = [
                (metrics.success_rate.numerator, metrics.success_rate.denominator)
                for metrics in report.by["task"].values()
            ]
            assert point["mean"] == pytest.approx(mean_of_tasks(of_tasks))


def test_iterations_of_no_loop_have_their_own_numbers(loop_folder, tmp_path):
    no_loop = tmp_path / "other"
    shutil.copytree(loop_folder, no_loop, ignore=shutil.ignore_patterns("state.jsonl", "model.pt"))
    for number in (3, 10):
        record(tmp_path / f"mine/iteration-{number}", number)
    record(tmp_path / "mine/other", 1)
    with Viewer([str(no_loop), str(tmp_path / "mine")]) as viewer:
        series = viewer.iterations()["series"]
    assert [one["title"] for one in series] == [
        "other: evaluation",
        "other: episodes to train on",
        "mine",
    ]
    assert [at for at, _ in points(series[0])] == [1, 2]
    assert points(series[2]) == [(3, "mine-iteration-3"), (10, "mine-iteration-10")]


def test_where_no_episode_is_graded_there_is_no_point(tmp_path):
    write(tmp_path / "d/iteration_1", episode("e", "t", Outcome.ENV_ERROR))
    write(tmp_path / "d/iteration_2", episode("e", "", Outcome.SUCCESS))
    with Viewer([str(tmp_path / "d")]) as viewer:
        data = viewer.iterations()
    assert [points(one) for one in data["series"]] == [[(2, "iteration_2")]]
    assert data["tasks"] == [
        {"task": "", "rates": [[0, 0, 1, 1, pytest.approx(0.2065, abs=1e-3), 1.0]]}
    ]


async def test_what_comes_while_one_looks_is_taken_in(tmp_path):
    out = tmp_path / "loop"
    out.mkdir()
    with pytest.raises(errors.NotADatasetError):
        Viewer([str(out)])
    (out / "state.jsonl").write_bytes(b"")
    clock = Clock()
    async with served(out, clock=clock) as (client, _):
        assert (await get(client, "/api/iterations"))["series"] == []
        before = await get(client, "/api/changes", since="")
        (out / "train_trajectories/iteration_0001").mkdir(parents=True)
        (out / "train_trajectories/iteration_0001/dataset.json").write_bytes(
            b"{}"
        )  # Not yet whole.
        record(out / "train_trajectories/iteration_0002", 2)
        clock.now += 10.0
        after = await get(client, "/api/changes", since=before["version"])
        assert after["changed"]
        data = await get(client, "/api/iterations")
        assert [points(one) for one in data["series"]] == [[(2, "train-iteration_0002")]]
        assert data["series"][0]["points"][0]["writing"] is True
        found = await get(client, "/api/episodes", dataset="train-iteration_0002", task="shop/hard")
        assert found["total"] == EPISODES + 1


MAKE = "import os, sys; os.makedirs(sys.argv[1]); open(sys.argv[1] + '/made', 'w').close()"


class Look(NullLoopObserver):
    """Looks at the loop's folder whenever it has measured an iteration."""

    def __init__(self, out):
        self.out = out
        self.viewer = None
        self.seen = []

    def measured(self, line):
        if self.viewer is None:
            self.viewer = Viewer([str(self.out)], clock=Ticking())
        self.seen.append((line, self.viewer.iterations()))


class Ticking:
    """A clock by which it always is time to look."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 100.0
        return self.now


@pytest.mark.slow
async def test_a_loop_that_runs_is_seen_as_it_measures_itself(tmp_path):
    step = {"command": ["{python}", str(SCRIPT), "{recorded}"], "retries": 0}
    config = load_loop_config(
        given={
            "out": str(tmp_path / "loop"),
            "iterations": 1,
            "rollout": step,
            "evaluation": {**step, "command": ["{python}", str(SCRIPT), "{evaluated}"]},
            "export": None,
            "train": {"model": "m", "command": ["{python}", "-IS", "-c", MAKE, "{model}"]},
        }
    )
    look = Look(tmp_path / "loop")
    await run_loop(config, observer=look)
    assert look.seen
    for line, data in look.seen:
        seen = {(one["split"], p["at"]): p for one in data["series"] for p in one["points"]}
        if "evaluation" in line:
            point = seen["test", line["iteration"]]
            assert point["mean"] == line["evaluation"]["mean"]
            tasks = {one["task"]: one["rates"] for one in data["tasks"]}
            assert set(tasks) == set(line["evaluation"]["by_task"]) == set(TASKS)
        if "success" in line:
            point = seen["train", line["iteration"]]
            assert point["all"]["successes"] == line["success"]["numerator"]
            assert point["all"]["graded"] == line["success"]["denominator"]
    assert {line["iteration"] for line, _ in look.seen} == {0, 1}
    assert any("success" in line for line, _ in look.seen)
    look.viewer.close()
