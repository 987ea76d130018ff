"""Metrics of datasets, in folders and buckets: what is read, what plans add, what is kept."""

import json
import logging
import secrets

import pytest
from measured_episodes import make_trajectory, reply

from removal import remove
from rows import each
from webtraj import EndReason, Outcome, errors, open_dataset
from webtraj.datasets.writer import DatasetWriter
from webtraj.environments.actions import Answer, Click, GoBack
from webtraj.metrics import (
    EpisodeFacts,
    Measuring,
    Rate,
    Ratio,
    measure,
    measure_trajectories,
    read_metrics,
    write_metrics,
)
from webtraj.metrics.tally import HEALTH
from webtraj.rollouts import RunSpec, TaskSpec, collect, plan_tasks
from webtraj.runs.run import Run, run_ids
from webtraj.store.places import open_storage

LONG = "x" * 300_000
"""So long that it lies beside the episode, and is read only when asked for."""


def written(place, *episodes):
    with DatasetWriter(place) as writer:
        for episode in episodes:
            writer.add(episode)
    return open_dataset(place)


@pytest.fixture(params=["folder", "bucket"])
def place(request, tmp_path):
    if request.param == "folder":
        return str(tmp_path / "dataset")
    pytest.importorskip("obstore")
    return f"memory://{secrets.token_hex(8)}/dataset"


@pytest.fixture
def episodes():
    return [
        make_trajectory([Click("1"), Answer("7")], episode_id="e1", task="a", site="s1"),
        make_trajectory(
            [GoBack()],
            episode_id="e2",
            task="b",
            site="s2",
            outcome=Outcome.FAILURE,
            decisions=[reply(LONG, GoBack(), finish_reason=LONG)],
            observations=[{"screenshot": b"\xff" * 300_000}],
        ),
        make_trajectory(
            [Click("1")],
            episode_id="e3",
            task="b",
            outcome=Outcome.ENV_ERROR,
            reason=EndReason.ERRORED,
        ),
    ]


def test_a_dataset_has_the_numbers_of_its_episodes(place, episodes):
    report = measure(written(place, *episodes))
    assert report.overall == measure_trajectories(episodes).overall
    assert report.by == measure_trajectories(episodes).by
    assert report.overall.avg_chars_per_response == Ratio(300_000, 1)
    assert report.unreadable == ()
    assert report.source == open_dataset(place).url


def test_without_steps_the_index_is_enough(place, episodes):
    dataset = written(place, *episodes)
    report = measure(dataset, steps=False)
    whole = measure(dataset).overall
    assert measure(dataset.url).overall == whole
    assert report.overall.with_steps == 0
    assert report.overall.goback_rate.value is None
    for name in ("success_rate", "avg_steps", "outcomes", "reward", "throughput", "pass_at_k"):
        assert getattr(report.overall, name) == getattr(whole, name)
    measuring = Measuring()
    for summary in dataset.summaries:
        measuring.add(EpisodeFacts.of_summary(summary))
    assert report.overall == measuring.report().overall


def test_a_damaged_episode_counts_by_its_summary_and_is_named(tmp_path, episodes):
    dataset = written(tmp_path, *episodes)
    (tmp_path / "episodes" / "e2.json").write_bytes(b"{")
    report = measure(dataset)
    assert report.unreadable == ("e2",)
    assert report.overall.total == 3
    assert report.overall.with_steps == 2
    assert report.overall.success_rate == Rate(1, 2)
    assert report.overall.avg_steps == Ratio(3, 2)
    by_webgym = measure(dataset, crash_rule="webgym")
    assert by_webgym.unreadable == ("e2",)
    assert (by_webgym.overall.total, by_webgym.overall.crashed) == (2, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": ["colour"]}, "Cannot group episodes by 'colour'; expected one of task, group"),
        ({"ks": [0]}, "The k of pass@k and pass"),
        ({"crash_rule": "best"}, "Unknown crash_rule='best'"),
    ],
)
def test_wrong_options_are_told_at_once(options, message):
    with pytest.raises(errors.InvalidInputError, match=message):
        measure_trajectories([], **options)


# Runs: the ladder of rollouts/conftest.py, where `crash` never comes to its end.

SPECS = [
    TaskSpec(name="climb", preset="ladder/climb", difficulty=2, domain="shop", site="s1"),
    TaskSpec(name="slip", preset="ladder/slip", difficulty=5, domain="shop"),
    TaskSpec(name="crash", preset="ladder/crash", difficulty=9),
]
SETTINGS = {"max_retries": 1, "retry_pause": 0}


async def play(climber, out, run_id, attempts=2, specs=SPECS):
    plan = plan_tasks(specs, attempts=attempts, seed=3)
    return await collect(RunSpec(out=out, **SETTINGS), tasks=plan, agent=climber(), run_id=run_id)


async def test_a_run_is_measured_with_what_its_plan_knows(climber, tmp_path):
    summary = await play(climber, tmp_path, "one")
    await play(climber, tmp_path, "two", attempts=1)
    dataset = open_dataset(tmp_path)
    assert run_ids(dataset.place.storage) == ["one", "two"]
    report = measure(dataset, run="one", by=["task", "group", "level", "difficulty", "site", "run"])
    assert (report.run, report.planned, report.played) == (
        "one",
        6,
        4,
    )  # Both rows of `crash` failed.
    assert report.overall.total == len(summary.results) == 8
    assert report.overall.retries == 2
    assert report.overall.success_rate == Rate(2, 4)
    assert report.overall.infrastructure_failures == 4
    assert list(report.by["level"]) == ["easy", "medium", "hard"]
    assert list(report.by["difficulty"]) == ["2", "5", "9"]
    assert report.by["level"]["hard"].crashed_rate == Rate(4, 4)
    assert report.by["level"]["hard"].success_rate.value is None
    assert report.by["group"]["shop"].success_rate == Rate(2, 4)
    assert report.by["site"]["s1"].success_rate == Rate(2, 2)
    assert list(report.by["run"]) == ["one"]
    assert report.overall.pass_at_k[2].total == 1.0
    assert measure(dataset, run="last").run == "two"
    both = measure(dataset, by=["run"], steps=False)
    assert {name: group.total for name, group in both.by["run"].items()} == {"one": 8, "two": 4}


async def test_metrics_are_kept_beside_the_plan(climber, tmp_path):
    await play(climber, tmp_path, "one")
    kept = json.loads((tmp_path / "runs" / "one" / "metrics.json").read_text())
    report = measure(open_dataset(tmp_path), run="one")
    assert kept == json.loads(json.dumps(report.to_data()))
    assert kept["overall"]["success_rate"]["denominator"] == 4
    assert kept["by"]["task"]["ladder/climb"]["success_rate"]["value"] == 1.0
    assert read_metrics(Run(open_storage(tmp_path), "one")) == kept


async def test_a_resumed_run_has_metrics_of_all_its_episodes(climber, ladder, tmp_path):
    await play(climber, tmp_path, "one", specs=SPECS[:2])
    first = (tmp_path / "runs" / "one" / "metrics.json").read_bytes()
    # As if the last row had never been played.
    dataset = open_dataset(tmp_path)
    gone = [episode_id for episode_id in dataset.episode_ids if "-000003-" in episode_id]
    remove(tmp_path, *gone)
    assert measure(open_dataset(tmp_path), run="one").played == 3
    await collect(RunSpec(out=tmp_path, **SETTINGS), agent=climber(), resume="one")
    kept = json.loads((tmp_path / "runs" / "one" / "metrics.json").read_text())
    assert (kept["planned"], kept["played"], kept["overall"]["total"]) == (4, 4, 4)
    assert json.loads(first)["overall"]["outcomes"] == kept["overall"]["outcomes"]


async def test_metrics_that_cannot_be_written_end_no_rollout(
    climber, tmp_path, monkeypatch, caplog
):
    def full(run, report):
        raise errors.StorageError("no space left")

    monkeypatch.setattr("webtraj.metrics.write_metrics", full)
    with caplog.at_level(logging.WARNING):
        summary = await play(climber, tmp_path, "one")
    assert len(summary.results) == 8
    assert "webtraj metrics" in caplog.text
    assert "Compute them again with `webtraj metrics" in caplog.text
    assert "--run one --write`" in caplog.text


def test_a_run_that_is_not_there_is_an_error(tmp_path, episodes):
    dataset = written(tmp_path, *episodes)
    with pytest.raises(
        errors.InvalidInputError, match=r"No run 'one' in .*; its latest runs are: no"
    ):
        measure(dataset, run="one")
    with pytest.raises(errors.InvalidInputError, match="No run 'last' in"):
        measure(dataset, run="last")
    with pytest.raises(errors.StorageMissingError):
        read_metrics(Run(open_storage(tmp_path), "one"))


@each("content", ["{", "[]", '{"kind": "plan"}', '{"kind": "metrics"}'])
def test_a_damaged_file_of_metrics_is_told(tmp_path, content):
    run = Run(open_storage(tmp_path), "one")
    run.storage.write("runs/one/metrics.json", content.encode())
    with pytest.raises(
        errors.CorruptDataError, match=r"Cannot read metrics from 'runs/one/metrics\.json'"
    ):
        read_metrics(run)


COUNTS = {
    "crash_rule", "total", "valid", "blocked", "crashed", "unfinished", "superseded", "successes",
    "failures", "ungraded", "infrastructure_failures", "retries", "steps", "with_steps",
    "longest_repeat", "odd_rewards", "cost_per_success",
}  # fmt: skip
THROUGHPUT = {
    "wall_seconds", "episode_seconds", "episodes", "steps", "episodes_per_second",
    "steps_per_second", "mean_parallel",
}  # fmt: skip
PHASES = {"model", "act", "settle", "observe", "reset", "environment", "waiting", "other"}
MODELS = {
    "calls", "failed_calls", "failed_attempts", "uncounted_calls", "input_tokens",
    "cached_input_tokens", "cache_write_tokens", "output_tokens", "cost", "unpriced_calls",
}  # fmt: skip
REPORT = {
    "kind", "version", "webtraj_version", "source", "run", "planned", "played", "unreadable",
    "overall", "by", "left_out",
}  # fmt: skip


def test_names_are_what_readers_of_the_file_rely_on(tmp_path, episodes):
    run = Run(open_storage(tmp_path), "one")
    report = measure_trajectories(episodes, by=["task"], ks=[1])
    write_metrics(run, report)
    data = read_metrics(run)

    def names(value, path=""):
        if not isinstance(value, dict):
            return {path}
        return {name for key, item in value.items() for name in names(item, f"{path}.{key}")}

    def quotient(name, *more):
        return {f".{name}.{part}" for part in ("value", "numerator", "denominator", *more)}

    def spread(name):
        return {f".{name}.{part}" for part in ("count", "mean", "std", "minimum", "maximum")}

    expected = {f".{name}" for name in COUNTS} | {
        *(f".outcomes.{member.name.lower()}" for member in Outcome),
        *(f".end_reasons.{member.name.lower()}" for member in EndReason),
        *(name for each in HEALTH for name in quotient(f"health.{each}")),
        *quotient("success_rate", "low", "high"),
        *quotient("crashed_rate", "low", "high"),
        *quotient("blocked_rate", "low", "high"),
        *quotient("avg_steps"),
        *quotient("avg_chars_per_response"),
        *quotient("goback_rate"),
        *quotient("invalid_action_rate"),
        *quotient("failed_action_rate"),
        *quotient("repeated_action_rate"),
        *spread("steps_to_success"),
        *spread("seconds_to_success"),
        *spread("tokens_to_success"),
        *spread("reward"),
        *quotient("pass_at_k.1", "low", "high", "tasks", "left_out"),
        *quotient("pass_hat_k.1", "low", "high", "tasks", "left_out"),
        *(f".throughput.{name}" for name in THROUGHPUT),
        *(f".seconds_by_phase.{name}" for name in PHASES),
        *(f".models.{name}" for name in MODELS),
    }
    assert names(data["overall"]) == expected
    assert names(data["by"]["task"]["a"]) == expected
    assert set(data) == REPORT


def test_webgyms_own_files_are_measured_by_their_difficulty(tmp_path):
    task = {"difficulty": 4, "domain": "Travel"}
    episode = make_trajectory([Answer("7")], episode_id="e1", metadata={"task": task})
    report = measure(written(tmp_path, episode), by=["level", "group"])
    assert list(report.by["level"]) == ["medium"]
    assert list(report.by["group"]) == ["Travel"]


def test_text_and_numbers_that_json_cannot_hold_do_no_harm(tmp_path):
    usage = {"prompt_tokens": 10**30, "completion_tokens": 1}
    decisions = [reply("a", Click("1"), usage=usage)]
    episode = make_trajectory([Click("1")], episode_id="e1", task="a\ud800", decisions=decisions)
    run = Run(open_storage(tmp_path), "one")
    write_metrics(run, measure_trajectories([episode], by=["task"]))
    data = read_metrics(run)
    assert list(data["by"]["task"]) == ["a?"]
    assert data["overall"]["models"]["input_tokens"] is None
    assert data["overall"]["models"]["output_tokens"] == 1
