"""The page about judges: one command plays the policies, judges their episodes, and writes it."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from webtraj.metrics.rates import Rate
from webtraj.testing.model_server import FakeModelServer

SCRIPT = Path(__file__).parents[1] / "benchmarks/judges.py"


def believe(request):
    """Answer every question of the judge as if the agent had told the truth."""
    verdict = "success"
    if "You see one screenshot of several." in request.text:
        verdict = "keep"
    elif "Did the site keep the agent from its task" in request.text:
        verdict = "open"
    return json.dumps({"reasoning": "It was seen.", "verdict": verdict})


@pytest.mark.browser
def test_one_command_measures_every_judge_on_what_it_plays(errands, tmp_path):
    page = tmp_path / "judges.md"
    with FakeModelServer(believe) as server:
        words = ("--preset", "apps/errands/all", "--runs", tmp_path / "runs", "--page", page)
        model = ("--model", "fake-model", "--base-url", server.url)
        subprocess.run([sys.executable, SCRIPT, *words, *model], check=True)
    rows = {
        cells[0]: cells[1:]
        for line in page.read_text().splitlines()
        if line.startswith("|") and (cells := [cell.strip() for cell in line.strip("|").split("|")])
    }
    assert rows["the policy"][:5] == [
        "episodes",
        "successes",
        "`environment`",
        "`claims`",
        "`acts`",
    ]
    # The oracle solves all three, and whoever refuses one of them.
    assert rows["the oracle"][:4] == ["3", "3", "3 of 3", "3 of 3"]
    assert rows["refuses at once"][:4] == ["3", "1", "3 of 3", "1 of 3"]
    assert rows["answers `done` at once"][:4] == ["3", "0", "3 of 3", "0 of 3"]
    early = rows["leaves out the last deed"]
    assert (early[0], early[2]) == ("3", "3 of 3")
    assert rows["`environment`"][0].startswith("100.0% ")
    assert rows["`model: fake-model`"][3].startswith("100.0% ")


def test_the_page_names_runs_that_lack_episodes():
    spec = importlib.util.spec_from_file_location("judges", SCRIPT)
    judges = importlib.util.module_from_spec(spec)
    sys.modules["judges"] = judges  # Dataclasses look their module up.
    spec.loader.exec_module(judges)
    whole = judges.Measured("oracle", Rate(2, 2), {})
    part = judges.Measured("random", Rate(0, 1), {})
    text = judges.page([whole, part], {"random": 1, "refuse": 2}, "judges.py")
    assert "not scored" in text
    assert "acts at random (1), refuses at once (2)" in text
    assert "Incomplete" not in judges.page([whole], {}, "judges.py")
