"""`webtraj loop` as people run it."""

import orjson
import pytest
import typer
from typer.testing import CliRunner

from webtraj import errors
from webtraj.cli.loop import loop
from webtraj.loop import PhaseFailedError

SHORT = {"iterations": 1, "judge": None, "postprocess": None, "evaluation": None, "export": None}


@pytest.fixture
def webtraj_loop(small_loop):
    app = typer.Typer()
    app.command()(loop)

    def run(*arguments):
        small_loop.config_file.write_bytes(orjson.dumps(small_loop.data(**SHORT)))
        return CliRunner().invoke(app, ["--config", str(small_loop.config_file), *arguments])

    return run


@pytest.mark.slow
def test_failure_is_told_and_gone_on_with(webtraj_loop, small_loop, monkeypatch):
    monkeypatch.setenv("FAIL", "model.pt")
    failed = webtraj_loop()
    assert isinstance(failed.exception, PhaseFailedError)
    assert "the printer is on fire" in str(failed.exception)
    monkeypatch.delenv("FAIL")
    done = webtraj_loop("--resume")
    assert done.exit_code == 0, done.output
    assert "1 of 3 phases already done." in done.stderr
    assert "[2/3] train of iteration 1, try 2:" in done.stderr
    assert f"The iteration is done: {small_loop.out}" in done.stdout


def test_only_some_phases_leave_more_to_do(webtraj_loop, small_loop):
    done = webtraj_loop("--only", "rollout")
    assert done.exit_code == 0, done.output
    assert f"More phases are left: {small_loop.out}" in done.stdout


def test_json_is_the_loops_metrics(webtraj_loop, small_loop):
    done = webtraj_loop("--json")
    assert done.exit_code == 0, done.output
    data = orjson.loads(done.stdout)
    assert (data["out"], data["finished"]) == (str(small_loop.out), True)
    assert [line["iteration"] for line in data["lines"]] == [1]
    assert "train of iteration 1" in done.stderr


def test_wrong_key_is_told_with_the_nearest(webtraj_loop):
    failed = webtraj_loop("iteratons=2")
    assert isinstance(failed.exception, errors.InvalidInputError)
    assert "did you mean iterations?" in str(failed.exception)
