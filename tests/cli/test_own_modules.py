"""`--import`: modules of the user's own give presets, agents and judges their names."""

import json
import subprocess
import sys

import pytest

import webtraj
from webtraj import open_dataset

MINE = """
import dataclasses
import dm_env
import webtraj
from webtraj import Judgement, Outcome


class Corridor:
    def reset(self):
        self.cell = 0
        return dm_env.restart({"cell": 0})

    def step(self, action):
        self.cell += 1 if action == "right" else -1
        if self.cell == 2:
            return dm_env.termination(reward=1.0, observation={"cell": 2})
        return dm_env.transition(reward=0.0, observation={"cell": self.cell})


@webtraj.register("mine/corridor")
def make_corridor():
    return webtraj.as_async(Corridor())


@webtraj.agents.register("mine")
def go(observation):
    return "right"


@webtraj.judging.register("swift")
@dataclasses.dataclass
class Swift:
    most: int = 3
    name: str = "swift"
    version: str = "1"

    async def judge(self, trajectory):
        swift = trajectory.num_steps <= self.most
        return Judgement(judge=self.name, version=self.version,
                         outcome=Outcome.SUCCESS if swift else Outcome.FAILURE)
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "mine_of_the_test.py").write_text(MINE)

    def run(*arguments, code=0):
        done = subprocess.run(
            [sys.executable, "-m", "webtraj", *arguments],
            cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        return done

    return run


PLAY = ("--preset", "mine/corridor", "--agent", "mine", "--out", "data")


def test_a_file_gives_names_to_what_a_rollout_plays_and_judges(run, tmp_path):
    judged = ("--judge", "swift", "--judge-when", "always", "--judge-set", "most=1")
    run("rollout", "--import", "mine_of_the_test.py", *PLAY, *judged)
    (episode,) = open_dataset(tmp_path / "data")
    assert (episode.num_steps, episode.total_reward) == (2, 1.0)
    assert episode.outcome is webtraj.Outcome.FAILURE
    (record,) = tmp_path.glob("data/runs/*/settings.json")
    assert "import" not in json.loads(record.read_text())
    # A record runs no code: the module has to be named again.
    assert (
        "import the module that registers it (--import)"
        in run("rollout", "--out", "data", "--resume", code=2).stderr
    )
    run("rollout", "--import", "mine_of_the_test", "--out", "data", "--resume")


@pytest.mark.parametrize(
    ("module", "told"),
    [("gone.py", "There is no file 'gone.py'"), ("gone", "No module named 'gone'")],
)
def test_what_is_not_there_is_named(run, module, told, tmp_path):
    assert told in run("rollout", "--import", module, *PLAY, code=2).stderr
    assert not (tmp_path / "data").exists()


def test_a_fault_of_the_module_is_told_by_its_line(run, tmp_path):
    (tmp_path / "broken.py").write_text("import webtraj\n\nwebtraj.no_such_name\n")
    told = run("rollout", "--import", "broken.py", *PLAY, code=2).stderr
    assert "'broken.py' cannot be imported: line 3: AttributeError: " in told
    assert told.count("\n") == 1
    (tmp_path / "lacking.py").write_text("import no_such_package_at_all\n")
    told = run("rollout", "--import", "lacking", *PLAY, code=2).stderr
    assert "imports 'no_such_package_at_all', which is not installed" in told


def test_tasks_that_nobody_judged_are_counted(run, tmp_path):
    row = {"name": "mine/corridor", "preset": "mine/corridor", "facts": ["The end is reached."]}
    (tmp_path / "tasks.jsonl").write_text(json.dumps(row))
    play = ("rollout", "--import", "mine_of_the_test", "--preset", "tasks.jsonl", "--agent", "mine")
    assert "webtraj judge run data --judge model" in run(*play, "--out", "data").stdout
    judged = ("--judge", "swift", "--judge-when", "always")
    assert "Nobody judged" not in run(*play, "--out", "more", *judged).stdout
