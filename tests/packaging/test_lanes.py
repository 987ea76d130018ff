"""The lanes of tests, their table, and the second run of a test that failed."""

import importlib.util
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def lanes(monkeypatch):
    spec = importlib.util.spec_from_file_location("webtraj_lanes", CHECKOUT / "scripts/lanes.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def lane_of(lanes, tmp_path):
    def make(text):
        (tmp_path / "pytest.ini").write_text("[pytest]\n")  # Its folder is the root of its tests.
        test = tmp_path / "test_it.py"
        test.write_text(textwrap.dedent(text))
        command = shlex.join([sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", str(test)])
        return lanes.Lane("one", command, seconds=1, limit=120)

    return make


def test_each_path_of_a_lane_exists(lanes):
    missing = [
        f"{lane.name}: {path}"
        for lane in lanes.read_lanes()
        for path in lane.paths
        if not (CHECKOUT / path).exists()
    ]
    assert not missing


def test_each_make_target_of_a_lane_exists_and_is_in_the_table(lanes):
    targets = subprocess.run(
        ["make", "-npq"], cwd=CHECKOUT, capture_output=True, text=True, check=False
    ).stdout
    commands = {lane.command for lane in lanes.read_lanes()}
    for command in commands:
        if command.startswith("make "):
            assert f"\n{command.split()[1]}:" in targets.replace("python%", "python"), command
    phony = next(line for line in targets.splitlines() if line.startswith(".PHONY:")).split()[1:]
    tests = {f"make {name}" for name in phony if name.startswith("test")}
    assert tests - commands == set()


def test_continuous_integration_runs_the_test_command_and_the_gate(lanes):
    run = (CHECKOUT / ".ci/run").read_text()
    assert "\nmake setup\nexec .venv/bin/python scripts/lanes.py gate\n" in run
    gate = [lane.command for lane in lanes.read_lanes() if lane.gate]
    assert gate[:2] == ["make test", "make test-gate"]


def test_most_affected_lanes_come_first(lanes):
    few = lanes.Lane("few", "", 1, 1, paths=("src/a", "README.md"))
    many = lanes.Lane("many", "", 1, 1, paths=("src/b",))
    none = lanes.Lane("none", "", 1, 1, paths=("src/c",))
    changed = {"src/a/x.py": 2, "README.md": 1, "src/b/y.py": 9, "src/cc/z.py": 5}
    assert lanes.affected_lanes([few, none, many], changed) == [(9, many), (3, few)]


def test_a_failure_that_does_not_return_is_unsteady(lanes, lane_of, tmp_path):
    lane = lane_of(
        """
        from pathlib import Path

        def test_good():
            pass

        def test_unsteady():
            seen = Path(__file__).with_name("seen")
            there = seen.exists()
            seen.touch()
            assert there

        def test_bad():
            assert False, "as ever"
        """
    )
    result = lanes.run_lane(lane, {})
    assert (result.status, result.count("passed"), result.count("failed")) == ("FAILED", 1, 2)
    unsteady, failed = lanes.repeat_failures([result], {})
    assert ["test_unsteady" in one for one in unsteady] == [True]
    assert ["test_bad" in one and "as ever" in one for one in failed] == [True]


def test_a_file_that_cannot_be_collected_fails_again(lanes, lane_of):
    result = lanes.run_lane(lane_of("import nothing_of_this_name"), {})
    assert result.failures
    assert lanes.repeat_failures([result], {})[1]


def test_a_lane_ends_at_its_limit_with_all_that_it_started(lanes, tmp_path):
    file = tmp_path / "pid"
    lane = lanes.Lane("stuck", f"sleep 1000 & echo $! >{file}; wait", seconds=1, limit=1)
    result = lanes.run_lane(lane, {})
    assert result.status == "FAILED: stopped after 1 s"
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", file.read_text()], capture_output=True, text=True, check=False
    ).stdout
    assert state.strip()[:1] in ("", "Z")
