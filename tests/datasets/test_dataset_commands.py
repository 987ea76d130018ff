"""The commands that work on datasets, as a person runs them."""

import json
import secrets

import pytest
from typer.testing import CliRunner

from webtraj import errors
from webtraj.cli.app import make_app
from webtraj.datasets.verification import verify as verify_dataset
from webtraj.datasets.writer import DatasetWriter


@pytest.fixture
def run():
    def run(*arguments, code=0):
        result = CliRunner().invoke(make_app(), list(map(str, arguments)))
        if isinstance(result.exception, errors.WebtrajError):
            raise result.exception
        assert result.exit_code == code, result.output
        return result.output

    return run


@pytest.fixture
def five(place, episodes):
    with DatasetWriter(place) as writer:
        for episode in episodes:
            writer.add(episode)
    return place


def test_a_dataset_is_listed_shown_and_verified_wherever_it_lies(run, five):
    assert "5 shown of 5 found among 5" in run("ls", five)
    assert "2 found among 5" in run("ls", five, "--where", "task == 't1'")
    assert "total reward 1" in run("show", five, "e3")
    assert "5 episodes, 5 steps, 6 blobs: no problems" in run("verify", five)
    assert "0 sealed, 0 added" in run("recover", five)


@pytest.mark.parametrize("there", ["folder", "bucket"])
def test_a_dataset_goes_to_another_format_and_back(run, five, tmp_path, there):
    pb = tmp_path / "pb" if there == "folder" else f"memory://{secrets.token_hex(8)}"
    assert "5 episodes written, 0 already there" in run("copy", five, pb, "--format", "pb")
    assert "0 episodes written, 5 already there" in run("copy", five, pb, "--format", "pb")
    assert "5 episodes written" in run("copy", pb, tmp_path / "json", "--format", "json")
    assert "2 episodes written" in run("copy", pb, tmp_path / "t1", "--where", "task == 't1'")
    assert verify_dataset(tmp_path / "json").clean


def test_datasets_are_merged_and_clashes_told(run, five, tmp_path, episode):
    with DatasetWriter(tmp_path / "other") as writer:
        writer.add(episode(1, goal="another"))
        writer.add(episode(7))
    output = run("copy", five, tmp_path / "other", tmp_path / "all", code=1)
    assert "different episode 'e1'" in output
    assert "6 episodes written, 0 already there, 1 conflicting" in output
    with pytest.raises(errors.InvalidInputError, match="one or more datasets, then"):
        run("copy", five)


def test_reports_are_json_for_machines(run, five, tmp_path):
    shown = json.loads(run("show", five, "e3", "--json"))["episode"]
    assert shown["info"]["episode_id"] == "e3"
    assert [step["index"] for step in shown["steps"]] == [0, 1]
    assert json.loads(run("show", five, "e3", "--step", "0", "--json"))["step"]["index"] == 0
    assert json.loads(run("verify", five, "--json"))["problems"] == []
    assert json.loads(run("recover", five, "--json")) == {
        "sealed": [], "indexed": [], "being_written": [], "unreadable": [],
    }  # fmt: skip
    copied = json.loads(run("copy", five, tmp_path / "copy", "--json"))
    assert (copied["target"], len(copied["added"])) == (str(tmp_path / "copy"), 5)
    with pytest.raises(errors.NotADatasetError):
        run("verify", tmp_path / "none", "--json")


def test_a_dataset_is_split(run, five, tmp_path):
    output = run("split", five, tmp_path, "--part", "train=0.8", "--part", "test=0.2")
    assert "train: 4 episodes written" in output
    assert "test: 1 episode written" in output
    with pytest.raises(errors.InvalidInputError, match="--part got 'train'"):
        run("split", five, tmp_path, "--part", "train")


def test_an_index_is_made_anew_and_written_as_parquet(run, five, tmp_path, episode):
    with DatasetWriter(five) as writer:
        writer.add(episode(8))
    for choice in ([], ["--rebuild", "--parquet", tmp_path / "index.parquet"]):
        with pytest.raises(errors.InvalidInputError, match="either --rebuild or --parquet"):
            run("index", five, *choice)
    assert "6 episodes, 2 index files before, 1 now" in run("index", five, "--rebuild")
    table = tmp_path / "new" / "folder" / "index.parquet"
    assert "6 rows" in run("index", five, "--parquet", table)
    assert table.stat().st_size > 100


def test_episodes_left_open_are_told(run, five, tmp_path):
    source = tmp_path / "source"
    run("copy", five, source)
    (source / "journal").mkdir(exist_ok=True)
    (source / "journal" / "lost.jsonl").touch()
    told = "1 still open or waiting for recovery (webtraj recover)"
    assert told in run("copy", source, tmp_path / "copy")
    assert told in run("split", source, tmp_path / "parts", "--part", "all=1.0")
    share = ("export", source, "--format", "json", "--shareable", "--out", tmp_path / "shared")
    assert told in run(*share)
    for more in (["--overwrite"], ["--set", "license=mit"]):
        with pytest.raises(errors.InvalidInputError, match="leave out --overwrite and --set"):
            run(*share, *more)


@pytest.mark.parametrize(
    ("option", "what"),
    [
        ("endpoint", "--option got 'endpoint'; expected name=value"),
        ("secret_access_key=x", "Set credentials in the environment"),
        ("allow_http=perhaps", "expected true or false"),
        ("timeout=soon", "expected a number"),
    ],
)
def test_options_that_are_none_are_refused(run, option, what):
    with pytest.raises(errors.InvalidInputError, match=what):
        run("ls", "s3://bucket/x", "--option", option)


def test_a_place_that_is_none_is_refused(run, tmp_path):
    for command in (["ls"], ["verify"], ["recover"], ["show"], ["index", "--rebuild"]):
        with pytest.raises(errors.NotADatasetError):
            run(*command, tmp_path)
        with pytest.raises(errors.NotADatasetError):
            run(*command, f"memory://{secrets.token_hex(4)}/none")
        with pytest.raises(errors.InvalidInputError, match="No storage for"):
            run(*command, "ftp://host/none")


def test_a_task_that_no_episode_has_is_told_with_the_nearest(run, five):
    said = " ".join(run("ls", five, "--task", "t11").split())
    assert "No episode has the task 't11'. Did you mean 't1'" in said
    assert "The tasks here: t0, t1" in said
    assert "No episode has" not in run("ls", five, "--task", "t1", "--where", "num_steps > 1000")
    assert "No episode matches." in run("ls", five, "--where", "num_steps > 1000")
