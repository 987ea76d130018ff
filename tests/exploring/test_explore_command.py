"""`webtraj explore` on the command line: what it takes, tells and refuses."""

import json

import pytest
from typer.testing import CliRunner

from rows import each
from webtraj import errors
from webtraj.cli.app import make_app
from webtraj.rollouts import read_tasks
from webtraj.rollouts.configuration.building import start_run
from webtraj.rollouts.configuration.running import ConfiguredRollout
from webtraj.rollouts.results import RolloutSummary
from webtraj.runs.run import Run
from webtraj.store.places import open_storage


@pytest.fixture
def run():
    """Runs the command; an error of webtraj's own is raised."""

    def run(*arguments):
        result = CliRunner().invoke(make_app(), ["explore", *map(str, arguments)])
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
    data = json.loads(run("propose", tmp_path / "data", "--proposals", 2, "--json").stdout)
    assert (data["tasks"], data["episodes"], data["new"]) == (2, 2, 0)
    assert data["tasks_file"] == str(file)


@each(
    ("arguments", "told"),
    [
        pytest.param((), "webtraj explore TASKS --out DATASET", id="nothing"),
        pytest.param(("coarse.jsonl",), "--out DATASET", id="no-out"),
        pytest.param(("propose",), "webtraj explore propose DATASET", id="propose-what"),
        pytest.param(("propose", "a", "--out", "b"), "propose DATASET", id="propose-out"),
        pytest.param(("a", "b", "--out", "c"), "a task file and a dataset", id="two"),
        pytest.param(("x.csv", "--out", "c"), "not a task file", id="csv"),
        pytest.param(("propose", "a", "--proposals", "0"), "proposals: must be", id="none"),
        pytest.param(("propose", "a", "--proposer", "judge"), "No proposer is named", id="name"),
        pytest.param(("propose", "a", "--seed", "1"), "--seed has no effect", id="idle"),
    ],
)
def test_what_is_not_clear_is_told(run, arguments, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.InvalidInputError, match=told):
        run(*arguments)
    assert list(tmp_path.iterdir()) == []


def test_tasks_that_are_not_coarse_are_refused_before_anything_is_written(run, tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps({"name": "n", "goal": "Buy.", "start_url": "a.example"}) + "\n")
    with pytest.raises(errors.InvalidInputError, match=r"'n' is not coarse.*webtraj rollout"):
        run(path, "--out", tmp_path / "data")
    assert not (tmp_path / "data").exists()


@pytest.fixture
def played(monkeypatch):
    """The crawls that the command plays, with their plans, but without episodes."""
    seen = []

    async def only_play(self, *, observer=None, ray=None):
        seen.append(self)
        self._keep_settings()
        if not self.resume:
            run = Run(open_storage(self.out), self.run_id)
            run.write_plan(self.plan, seed=self.spec.seed, settings={})
        return RolloutSummary(results=(), seconds=0.0)

    monkeypatch.setattr(ConfiguredRollout, "only_play", only_play)
    return seen


def test_a_crawl_is_resumed_as_it_was_begun(run, played, tmp_path, coarse_file):
    out = tmp_path / "data"
    run(coarse_file, "--out", out, "--agent", "curious", "--proposals", 5, "--seed", 3)
    run("--out", out, "--resume", "--parallel", 2)
    run("--out", out, "--resume", played[0].run_id)
    begun, changed, again = played
    assert [(row.spec.goal, row.spec.coarse) for row in begun.plan] == [("Look at lamps.", True)]
    assert (begun.run_id, begun.player) == (changed.run_id, changed.player)
    assert begun.player.seed == 3
    assert begun.proposing == again.proposing
    assert (changed.proposing.proposals, changed.settings.parallel) == (5, 2)
    with pytest.raises(errors.InvalidInputError, match="--seed cannot be changed"):
        run("--out", out, "--resume", "--seed", 4)
    with pytest.raises(errors.InvalidInputError, match="another"):
        run("--out", out, "--resume", "another")


def test_a_run_that_does_not_explore_is_not_resumed_as_a_crawl(run, played, tmp_path):
    import asyncio

    out = tmp_path / "data"
    asyncio.run(start_run({"preset": ["miniwob/click-test"]}, out=str(out)).only_play())
    with pytest.raises(errors.InvalidInputError, match="was not started by `webtraj explore`"):
        run("--out", out, "--resume")
