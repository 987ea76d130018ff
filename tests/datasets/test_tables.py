"""A dataset as tables: DataFrames and CSV files, of episodes and of steps."""

import asyncio
import csv

import pytest
from typer.testing import CliRunner

import webtraj
from webtraj import errors
from webtraj.cli.app import make_app
from webtraj.datasets.tables import write_csv
from webtraj.judging.quality import Label, write_labels
from webtraj.testing import fakes
from webtraj.trajectory import Decision, EpisodeInfo, Outcome


async def record(path, tasks):
    async with webtraj.JsonTrajectoryCollector(path) as collector:
        for task in tasks:
            info = EpisodeInfo(task=task, goal="catch, or\nlet it fall", policy="p")
            env = webtraj.TrajectoryCollectingEnvironment(
                fakes.CatchEnvironment(), collector, episode_info=info
            )
            async with env:
                timestep = await env.reset()
                while not timestep.last():
                    timestep = await env.step(Decision(action=1, thought="hold" * 5000))
    return webtraj.open_dataset(path)


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def run(*words):
    ended = CliRunner().invoke(make_app(), [str(word) for word in words])
    assert ended.exit_code == 0, ended.output


async def test_data_frames_have_a_row_for_each_episode_or_step(tmp_path):
    dataset = await record(tmp_path / "runs", ["a", "b"])
    frame = dataset.to_pandas()
    assert list(frame["episode_id"]) == list(dataset.episode_ids)
    assert list(frame["outcome"]) == [one.outcome.name.lower() for one in dataset.summaries]
    steps = dataset[:1].to_pandas("steps")
    (episode,) = dataset[:1]
    assert list(steps["step"]) == [step.index for step in episode.steps]
    assert list(steps["action"])[1:] == ["1"] * episode.num_steps
    assert steps["reward"].sum() == episode.total_reward
    assert set(steps["thought"][1:]) == {"hold" * 5000}
    assert list(dataset[:0].to_pandas("steps").columns) == list(steps.columns)
    lazy = webtraj.open_dataset(tmp_path / "runs", blobs="lazy")
    assert lazy[:1].to_pandas("steps").equals(steps)
    with pytest.raises(errors.InvalidInputError, match="'episodes' or 'steps'"):
        dataset.to_pandas("rows")


def test_a_csv_file_is_no_url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.InvalidInputError, match="a path"):
        write_csv("s3://bucket/x.csv", ["a"], [])
    assert not list(tmp_path.iterdir())


def test_commands_write_what_they_show_as_csv(tmp_path):
    runs = tmp_path / "runs"
    dataset = asyncio.run(record(runs, ["a", "b,\n'c'"]))
    ids = list(dataset.episode_ids)
    for command in (["ls"], ["index"], ["show"], ["metrics"]):
        run(*command, runs, "--csv", tmp_path / f"{command[0]}.csv")
    run("presets", "miniwob/click-test", "--csv", tmp_path / "presets.csv")
    for name in ("ls", "index"):
        rows = rows_of(tmp_path / f"{name}.csv")
        assert [row["episode_id"] for row in rows] == ids
        assert [row["task"] for row in rows] == ["a", "b,\n'c'"]
    shown = rows_of(tmp_path / "show.csv")
    assert [int(row["step"]) for row in shown] == [step.index for step in dataset[-1].steps]
    measured = rows_of(tmp_path / "metrics.csv")
    assert (measured[0]["by"], measured[0]["total"]) == ("", "2")
    groups = {row["group"]: row["total"] for row in measured if row["by"] == "task"}
    assert groups == {"a": "1", "b,\n'c'": "1"}
    assert "miniwob/click-test" in [row["name"] for row in rows_of(tmp_path / "presets.csv")]


def test_commands_that_make_something_write_their_table_as_csv(tmp_path):
    runs = tmp_path / "runs"
    dataset = asyncio.run(record(runs, ["a", "b"]))
    labels = tmp_path / "labels.jsonl"
    write_labels(labels, [Label(one, Outcome.SUCCESS) for one in dataset.episode_ids])
    made = {
        "judged": ("judge", "eval", runs, "--labels", labels),
        "processed": (
            "postprocess",
            "--read",
            runs,
            "--write",
            tmp_path / "new",
            "--step",
            "clean",
        ),
        "pages": ("export", runs, "--format", "html", "--out", tmp_path / "pages"),
    }
    for name, command in made.items():
        run(*command, "--csv", tmp_path / f"{name}.csv")
    assert [row["task"] for row in rows_of(tmp_path / "judged.csv")] == ["", "a", "b"]
    (step,) = rows_of(tmp_path / "processed.csv")
    assert (step["step"], step["seen"]) == ("clean", "2")
    assert rows_of(tmp_path / "pages.csv") == []


async def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path):
    dataset = await record(tmp_path / "runs", ["a"])
    (tmp_path / "taken").mkdir()
    with pytest.raises(errors.StorageError, match="cannot be written"):
        write_csv(tmp_path / "taken", ["a"], [{"a": dataset[0].episode_id}])
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "taken"}
