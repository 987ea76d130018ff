"""The benchmark of the server runs, and its policy reads the pages of both servers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("openenv")

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def benchmark_module(monkeypatch):
    """The module `openenv_browsergym`."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return pytest.importorskip("openenv_browsergym")


def test_the_policy_clicks_the_button_that_the_goal_names(benchmark_module):
    theirs = "\t[13] button 'no', clickable\n\t[14] button 'Okay', clickable"
    ours = '[1] button "no"\n[2] button "Okay"'
    goal = 'Click on the "okay" button.'
    assert benchmark_module.choose(goal, theirs) == "click('14')"
    assert benchmark_module.choose(goal, ours) == "click('2')"
    assert benchmark_module.choose("Click the button.", theirs) == "click('13')"


def test_our_side_of_the_benchmark_runs(tmp_path):
    told = tmp_path / "figures.json"
    subprocess.run(
        [
            *(sys.executable, BENCHMARKS / "openenv_browsergym.py", "--clients", "3"),
            *("--seconds", "0.1", "--repeats", "1", "--json", told),
        ],
        check=True,
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
    )
    figures = json.loads(told.read_text())
    assert figures["ratios"] == {}
    assert len(figures["ways"]) == 2
    for (turn,) in figures["ways"].values():
        assert turn["solved"] == turn["rollouts"] == turn["steps"] >= 3
        assert turn["recorded"] >= turn["rollouts"]
        assert turn["rate"] > 0
    text, pictures = (turn["message_bytes"] for (turn,) in figures["ways"].values())
    assert 0 < text < pictures
