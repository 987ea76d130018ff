"""Exploring and proposing on the command line."""

import json
import re

import pytest
from typer.testing import CliRunner

from rows import each
from webtraj import errors
from webtraj.cli.app import make_app
from webtraj.rollouts import RunSpec, read_tasks
from webtraj.rollouts.configuration.builder import build_rollout, resume_run


@pytest.fixture
def run():
    """Runs a command; an error of webtraj's own is raised."""

    def run(*arguments):
        result = CliRunner().invoke(make_app(), [*map(str, arguments)])
        if isinstance(result.exception, errors.WebtrajError):
            raise result.exception
        return result

    return run


@pytest.fixture
def propose(run):
    return lambda *arguments: run("propose", *arguments)


@pytest.fixture
def coarse_file(tmp_path):
    """A file of one coarse task."""
    path = tmp_path / "coarse.jsonl"
    path.write_text(json.dumps({"url": "shop.example", "description": "Look at lamps."}) + "\n")
    return path


def test_proposing_for_a_dataset_that_is_there(propose, tmp_path, write, walk):
    import asyncio

    asyncio.run(write(tmp_path / "data", walk(), walk(episode_id="other")))
    result = propose(tmp_path / "data", "--proposals", 2)
    assert result.exit_code == 0
    assert "2 tasks of 2 episodes (2 new) are in" in result.output
    assert '  navigation: On the page "Welcome", open "Products".' in result.output
    assert "2 x the same goal was proposed before" in result.output
    (file,) = (tmp_path / "data" / "tasks" / "all").glob("proposed-hindsight-*.jsonl")
    assert str(file) in result.output
    assert len(list(read_tasks(file))) == 2
    assert "(0 new)" in propose(tmp_path / "data", "--proposals", 2).output
    data = json.loads(propose(tmp_path / "data", "--proposals", 2, "--json").stdout)
    assert (data["tasks"], data["episodes"], data["new"]) == (2, 2, 0)
    assert data["tasks_file"] == str(file)


@each(
    ("arguments", "told"),
    [
        (("a", "--proposals", "0"), "proposals: must be"),
        (("a", "--proposer", "judge"), "No proposer is named"),
        (("a",), "No dataset at 'a'"),
    ],
)
def test_what_is_not_clear_is_told(propose, arguments, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.WebtrajError, match=told):
        propose(*arguments)
    assert list(tmp_path.iterdir()) == []


def test_flags_that_do_not_matter_are_no_flags(propose):
    assert propose("a", "--seed", "1").exit_code == 2
    shown = propose("--help").output
    assert not re.search(r"agent's model|judge:|Agent:|Judge", shown)
    assert re.search(r"Model:\n +--model", shown)
    assert re.search(r"Proposer:\n +--proposer", shown)


def test_tasks_that_are_not_coarse_are_refused_before_anything_is_written(run, tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps({"name": "n", "goal": "Buy.", "start_url": "a.example"}) + "\n")
    given = ("--proposer", "hindsight", "--agent", "curious", "--out", tmp_path / "data")
    with pytest.raises(errors.InvalidInputError, match="'n' is not coarse"):
        run("rollout", "--preset", path, *given)
    assert not (tmp_path / "data").exists()


def test_a_crawl_is_resumed_as_it_was_begun(tmp_path, coarse_file):
    out = str(tmp_path / "data")
    begun = build_rollout(
        RunSpec(
            preset=[str(coarse_file)], agent="curious", proposer="hindsight", proposals=5, seed=3,
            out=out,
        )
    )  # fmt: skip
    assert [(row.spec.goal, row.spec.coarse) for row in begun.plan] == [("Look at lamps.", True)]
    begun.write_plan("json")
    changed = resume_run({"parallel": 2}, out=out)
    assert (begun.run_id, begun.spec.agent) == (changed.run_id, changed.spec.agent)
    assert changed.agent.seed == 3
    assert (changed.proposing.proposals, changed.spec.parallel) == (5, 2)
    with pytest.raises(errors.InvalidInputError, match="seed cannot be changed"):
        resume_run({"seed": 4}, out=out)
    with pytest.raises(errors.InvalidInputError, match="another"):
        resume_run({}, out=out, run_id="another")
