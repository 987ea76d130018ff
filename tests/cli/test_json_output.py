"""`--json`: a command's result on stdout, for machines, and nothing else."""

import csv
import json

import pytest
from typer.testing import CliRunner

from webtraj import trajectory as t
from webtraj.cli import app
from webtraj.datasets.writer import DatasetWriter
from webtraj.environments.actions import Click

WITH_JSON = {
    "copy", "doctor", "export", "fork", "import",
    "index", "judge eval", "judge rerun", "judge run", "loop", "postprocess", "presets", "propose",
    "push",
    "recover", "rollout", "rollout submit", "show", "split", "train", "train export",
    "train update", "verify",
}  # fmt: skip


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with DatasetWriter("d") as writer:
        for name, outcome in (("e1", t.Outcome.SUCCESS), ("e2", t.Outcome.FAILURE)):
            message = {"role": "user", "content": f"Buy a lamp, {name}"}
            action = Click("1")
            call = t.ModelCall(messages=(message,), text="click('1')")
            decision = t.Decision(action=action, model_calls=(call,))
            steps = (
                t.StepRecord(0, t.StepType.FIRST, {"axtree": "button 'Go'"}),
                t.StepRecord(
                    1, t.StepType.LAST, {"axtree": "Done"}, action, 1.0, 0.0, decision=decision
                ),
            )
            info = t.EpisodeInfo(episode_id=name, task="buy-lamp")
            end = t.EpisodeEnd(reason=t.EndReason.TERMINATED, outcome=outcome)
            writer.add(t.EpisodeTrajectory(info, steps, end))


def told(line, code=0):
    done = CliRunner().invoke(app.make_app(), line.split())
    assert done.exit_code == code, done.output
    (line,) = done.stdout.splitlines()
    return json.loads(line)


COMMANDS = {
    "export d --format atif --out x --json": {
        "target": "x", "format": "atif", "complete": True, "written": ["e1", "e2"], "steps": 2
    },
    "copy d x --without screenshots --json": {"target": "x", "added": ["e1", "e2"]},
    "train export d --format sharegpt --out x --json": {
        "target": "x", "format": "sharegpt", "skipped": {"not successful": 1}, "complete": True
    },
    "postprocess --read d --write p --step clean:min_steps=1 --json": {
        "source": "d", "target": "p", "episodes": 2, "outputs": 2, "now": 2, "failures": []
    },
    "index d --rebuild --json": {"num_episodes": 2, "dropped": [], "unreadable": []},
    "train preview d --samples 1 --json": {"completion": "click('1')", "task": "buy-lamp"},
}  # fmt: skip


def test_an_export_of_samples_says_what_it_left_out(recorded):
    line = "train export d --format openai --out x --filter filter_successful_only=false --json"
    split = told(line)["splits"]
    assert split["train"]["left_out"] == {"its weight is 0": 1}
    assert list(split["train"]["episodes"].values()) == [1]


@pytest.mark.parametrize("line", COMMANDS)
def test_stdout_is_one_object(line, recorded):
    assert COMMANDS[line].items() <= told(line).items()


def test_a_rollout_tells_its_rates_with_intervals(play_corridor, tmp_path):
    done = play_corridor("rollout", "--out", "d", "--episodes", "3", "--json", "--csv", "t.csv")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    data = json.loads(line)
    assert (data["dataset"], data["planned"], data["played"], data["errors"]) == ("d", 3, 3, [])
    (row,) = csv.DictReader((tmp_path / "t.csv").read_text().splitlines())
    assert (row["task"], row["episodes"], row["terminated"]) == ("corridor", "3", "3")
    assert data["metrics"]["total"] == data["tasks"]["corridor"]["total"] == 3
    assert data["metrics"]["success_rate"].keys() == {
        "value", "numerator", "denominator", "low", "high"
    }  # fmt: skip
    assert (data["judged"], data["proposed"]) == (None, None)
    assert f"3 of 3 episodes are in {data['dataset']}." in done.stderr
