"""The commands that work on datasets, as a person runs them."""

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


def test_a_dataset_is_split(run, five, tmp_path):
    output = run("split", five, tmp_path, "--part", "train=0.8", "--part", "test=0.2")
    assert "train: 4 episodes written" in output
    assert "test: 1 episode written" in output
    with pytest.raises(errors.InvalidInputError, match="--part got 'train'"):
        run("split", five, tmp_path, "--part", "train")


def test_episodes_left_open_are_told(run, five, tmp_path):
    source = tmp_path / "source"
    run("copy", five, source)
    (source / "journal").mkdir(exist_ok=True)
    (source / "journal" / "lost.jsonl").touch()
    told = "1 still open or waiting for recovery (webtraj recover)"
    assert told in run("copy", source, tmp_path / "copy")
    assert told in run("split", source, tmp_path / "parts", "--part", "all=1.0")
    assert told in run("copy", source, tmp_path / "less", "--without", "screenshots,html")
    with pytest.raises(errors.InvalidInputError, match="Unknown part 'pictures'; expected some"):
        run("copy", source, tmp_path / "none", "--without", "pictures")
    with pytest.raises(errors.InvalidInputError, match="To convert a dataset: webtraj copy"):
        run("export", source, "--format", "json", "--out", tmp_path / "none")
