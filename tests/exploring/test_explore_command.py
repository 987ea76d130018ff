"""`webtraj explore` on the command line: what it takes, tells and refuses."""

import json

import pytest
import typer
from typer.testing import CliRunner

from webtraj import errors
from webtraj.cli.explore import explore
from webtraj.exploring.command import begin, go_on, keep, make_explorer, make_proposer
from webtraj.rollouts import read_tasks
from webtraj.runs.run import Run
from webtraj.store.places import open_storage


@pytest.fixture
def run():
    """Runs the command; an error of webtraj's own is raised."""
    app = typer.Typer()
    app.command()(explore)

    def run(*arguments):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if isinstance(result.exception, errors.WebtrajError):
            raise result.exception
        return result

    return run


@pytest.fixture
def coarse_file(tmp_path):
    """A file of one coarse task."""
    path = tmp_path / "coarse.jsonl"
    path.write_text(json.dumps({"url": "shop.example", "description": "Look at lamps."}) + "\n")
    return path


def test_proposing_for_a_dataset_that_is_there(run, tmp_path, write, walk):
    import asyncio

    asyncio.run(write(tmp_path / "data", walk(), walk(episode_id="other")))
    result = run("propose", tmp_path / "data", "--proposals", 2)
    assert result.exit_code == 0
    assert "2 tasks of 2 episodes (2 new) are in" in result.output
    assert '  navigation: On the page "Welcome", open "Products".' in result.output
    assert "2 x the same goal was proposed before" in result.output
    (file,) = (tmp_path / "data" / "tasks" / "all").glob("proposed-hindsight-*.jsonl")
    assert str(file) in result.output
    assert len(list(read_tasks(file))) == 2
    assert "(0 new)" in run("propose", tmp_path / "data", "--proposals", 2).output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param((), "webtraj explore TASKS --out DATASET", id="nothing"),
        pytest.param(("coarse.jsonl",), "--out DATASET", id="no-out"),
        pytest.param(("propose",), "webtraj explore propose DATASET", id="propose-what"),
        pytest.param(("propose", "a", "--out", "b"), "propose DATASET", id="propose-out"),
        pytest.param(("a", "b", "--out", "c"), "a task file and a dataset", id="two"),
        pytest.param(("x.csv", "--out", "c"), "not a task file", id="csv"),
        pytest.param(("propose", "a", "--proposals", "0"), "proposals: Input should be", id="none"),
        pytest.param(("propose", "a", "--proposer", "judge"), "No proposer is named", id="name"),
    ],
)
def test_what_is_not_clear_is_told(run, arguments, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.InvalidInputError, match=told):
        run(*arguments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        pytest.param(("--set", "hurry=1"), "hurry", id="environment"),
        pytest.param(("--set", 'observe=["axtre"]'), "axtre", id="channels"),
        pytest.param(("--agent-set", "hurry=1"), "has no option 'hurry'", id="agent"),
        pytest.param(("--proposer-set", "hurry=1"), "takes no options", id="proposer"),
    ],
)
def test_wrong_option_leaves_no_crawl_that_could_not_be_gone_on_with(
    run, coarse_file, tmp_path, options, told
):
    with pytest.raises(errors.InvalidInputError, match=told):
        run(coarse_file, "--out", tmp_path / "data", *options)
    assert not (tmp_path / "data").exists()


UNTITLED = ((None, "", "", "/", "", '[1] link "Go"'), (None, "link", "Go", "/go", "", "text"))
WORDLESS = ((None, "", "", "/", "Home", ""),)
STILL = ((None, "", "", "/", "Home", '[1] link "Go"'),)


def test_why_there_is_no_task_is_told(run, tmp_path, write, walk):
    import asyncio

    episodes = [
        walk(steps, episode_id=f"{name}-{number}")
        for name, steps in (("untitled", UNTITLED), ("wordless", WORDLESS), ("still", STILL))
        for number in range(2)
    ]
    asyncio.run(write(tmp_path / "data", *episodes))
    for _ in range(2):  # Also when there is nothing new.
        told = run("propose", tmp_path / "data").output
        assert "0 tasks of 6 episodes" in told
        assert "2 x the pages have no title: record the channels" in told
        assert "2 x the pages have no axtree: record the channels" in told
        assert "2 x nothing to ask for: no link led to a page that was new" in told


def test_dataset_of_nothing_that_ended_says_so(run, tmp_path, write):
    import asyncio

    asyncio.run(write(tmp_path / "data"))
    assert "No episode finished by itself" in run("propose", tmp_path / "data").output


def test_tasks_that_are_not_coarse_are_refused_before_anything_is_written(run, tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps({"name": "n", "goal": "Buy.", "start_url": "a.example"}) + "\n")
    with pytest.raises(errors.InvalidInputError, match=r"'n' is not coarse.*webtraj rollout"):
        run(path, "--out", tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_a_crawl_is_gone_on_with_as_it_was_begun(tmp_path, coarse_file):
    out = str(tmp_path / "data")
    values = {"tasks": str(coarse_file), "agent": "curious", "proposals": 5, "seed": 3}
    config, run_id, (task,) = begin(values, out=out, storage_options=None)
    assert (task.goal, task.coarse) == ("Look at lamps.", True)
    assert not (tmp_path / "data").exists()
    keep(config, run_id, out=out, storage_options=None)
    again, same = go_on({"parallel": 2}, out=out, run_id=run_id, storage_options=None)
    assert same == run_id
    assert again == config.model_copy(update={"parallel": 2})
    with pytest.raises(errors.InvalidInputError, match="seed cannot be changed"):
        go_on({"seed": 4}, out=out, run_id=run_id, storage_options=None)
    with pytest.raises(errors.InvalidInputError, match="was not started by `webtraj explore`"):
        go_on({}, out=out, run_id="another", storage_options=None)
    Run(open_storage(out), run_id).write_plan((), seed=0, settings={})
    assert go_on({}, out=out, run_id=None, storage_options=None)[1] == run_id


@pytest.mark.parametrize("who", ["explorer", "proposer"])
def test_wrong_options_of_a_model_are_told_as_whose_they_are(who):
    make = {"explorer": make_explorer, "proposer": make_proposer}[who]
    with pytest.raises(errors.InvalidInputError, match=f"The options of the {who} 'model' are"):
        make("model", options={"model": "m", "provider": "vlm"})
