"""People mistype. A message names what they typed, what was expected, and what to type instead."""

import pytest
from typer.testing import CliRunner

from webtraj import errors
from webtraj import trajectory as t
from webtraj.cli.app import make_app
from webtraj.datasets.writer import DatasetWriter

PLAY = "rollout --preset miniwob/click-test --out r"

WRONG = {
    f"{PLAY} --episodes 0": "episodes: must be greater than or equal to 1; got 0",
    f"{PLAY} --set max_stps=3": "no option 'max_stps'; got max_stps=3",
    f"{PLAY} --set max_stps=4": "Did you mean 'max_steps'?",
    "rollout --resume --out d": "No run to resume in 'd': no plan was written there.",
    "export d --format parquet --out o": "No export format 'parquet'. The formats of episodes are",
    "postprocess --read d --write p --config none.yaml": "'none.yaml' cannot be read: No such file",
    "train --config none.yaml": "'none.yaml' cannot be read: No such file or directory; expected a "
    "YAML file",
    "show d nope": "No episode matches 'nope'; the dataset has 2. Give an id, the start",
    "verify nowhere": "No dataset at 'nowhere': the folder does not exist. Name the folder",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with DatasetWriter("d") as writer:
        for name in ("e1", "e2"):
            steps = (
                t.StepRecord(0, t.StepType.FIRST, {"axtree": "button 'Go'"}),
                t.StepRecord(1, t.StepType.LAST, {"axtree": "Done"}, "click('1')", 1.0, 0.0),
            )
            info = t.EpisodeInfo(episode_id=name, task="shop/buy-lamp")
            end = t.EpisodeEnd(reason=t.EndReason.TERMINATED)
            writer.add(t.EpisodeTrajectory(info, steps, end))
    return tmp_path


def contents(folder):
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {path: path.read_bytes() for path in files}


@pytest.mark.parametrize("line", WRONG)
def test_wrong_lines_are_explained_and_leave_nothing(line, folder):
    before = contents(folder)
    done = CliRunner().invoke(make_app(), line.split())
    assert isinstance(done.exception, errors.WebtrajError), done.output
    assert WRONG[line] in str(done.exception)
    assert contents(folder) == before


def test_a_condition_that_nothing_meets_names_what_is_there(folder):
    done = CliRunner().invoke(make_app(), ["ls", "d", "--task", "shop/buy-lmap"])
    assert done.exit_code == 0
    assert "No episode has the task 'shop/buy-lmap'. Did you mean 'shop/buy-lamp'?" in done.output


def test_json_of_a_task_that_is_not_there_says_so_beside_it(folder):
    done = CliRunner().invoke(make_app(), ["ls", "d", "--task", "shop/buy-lmap", "--json"])
    assert done.stdout == ""
    assert "Did you mean 'shop/buy-lamp'?" in done.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("copy d e --to pb", "No such option: --to (Possible options: --format)"),
        ("ls d --to x", "No such option: --to\n"),
        ("ls d --polcy x", "No such option: --polcy (Possible options: --policy)"),
        ("ls d --out x", "No such option: --out (Possible options: --outcome)"),
    ],
)
def test_an_unknown_option_names_only_those_like_it(line, words, folder):
    done = CliRunner().invoke(make_app(), line.split())
    assert done.exit_code == 2
    assert words in done.stderr


def test_a_dataset_of_ours_is_not_imported(folder):
    done = CliRunner().invoke(make_app(), ["import", "d", "--out", "e"])
    assert "'d' is already a webtraj dataset, so there is nothing to import." in str(done.exception)
    assert "`webtraj copy`" in str(done.exception)
