"""The pytest plugin keeps the episodes of tests that fail, and of no others."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest
from webtraj.testing.fakes import CatchEnvironment


def test_it_fails(recorded_environment, trajectory_collector):
    recorded_environment(CatchEnvironment()).reset()
    assert not trajectory_collector.open_episodes  # It is closed, and so shown, only later.


async def test_it_fails_too(recorded_environment):
    env = recorded_environment(CatchEnvironment())
    await env.reset()
    await env.step(1)
    raise ValueError("on purpose")


def test_it_passes(recorded_environment):
    recorded_environment(CatchEnvironment()).reset()


def test_it_plays_nothing(trajectory_collector):
    assert trajectory_collector.trajectories


def test_it_records_nothing():
    raise ValueError("on purpose")
"""


@pytest.mark.slow
def test_failing_tests_name_the_pages_of_their_episodes(tmp_path):
    (tmp_path / "test_mine.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\nasyncio_mode = auto\n")
    options = ("-o", "asyncio_default_fixture_loop_scope=function", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, "--basetemp", str(tmp_path / "kept")],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if "PYTEST" not in name},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert "4 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    named = re.findall(r"^(/.*\.html)$", done.stdout, re.MULTILINE)
    tests = [Path(name).parent.name for name in named]
    assert tests == ["test-mine-py-test-it-fails", "test-mine-py-test-it-fails-too"]
    for name in named:
        assert '"page-data"' in Path(name).read_text(encoding="utf-8")
    assert sorted(map(str, (tmp_path / "kept").rglob("*.html"))) == sorted(named)
    assert done.stdout.count("None had ended.") == 1
