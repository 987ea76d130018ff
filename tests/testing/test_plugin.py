"""The pytest plugin, from the outside: a small project that uses it, run by a pytest of its own."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

_PROJECT = pathlib.Path(__file__).parents[1] / "downstream_project"

# How a project may run its asynchronous tests: options, and the mark that each such test has.
_LOOP_SCOPE = ("-o", "asyncio_default_fixture_loop_scope=function")
_AUTO = (*_LOOP_SCOPE, "-o", "asyncio_mode=auto")
_ASYNC_SETUPS = {
    "pytest-asyncio, auto": (_AUTO, None),
    "pytest-asyncio, strict": (_LOOP_SCOPE, "asyncio"),
    "anyio": (("-p", "no:asyncio"), "anyio"),
}


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    shutil.copytree(
        _PROJECT, folder, ignore=shutil.ignore_patterns("conftest.py", "__pycache__", "*.pyc")
    )
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    return folder


def _pytest(folder, *arguments):
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    environment["PYTHONPATH"] = str(folder)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "--tb=short", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    results = {}
    for outcome, name in re.findall(
        r"^(PASSED|FAILED|ERROR) \S+::(\w+)", done.stdout, re.MULTILINE
    ):
        results.setdefault(name, []).append(outcome)
    return done, results


@pytest.mark.slow
@pytest.mark.parametrize("setup", _ASYNC_SETUPS)
def test_a_project_passes_whatever_runs_its_asynchronous_tests(project, setup):
    options, mark = _ASYNC_SETUPS[setup]
    if mark is not None:
        module = project / "test_sound.py"
        marked = f"@pytest.mark.{mark}\nasync def test_"
        source = module.read_text().replace("async def test_", marked)
        module.write_text(source.replace("import counter\n", "import counter\nimport pytest\n"))
    done, results = _pytest(project, "test_sound.py", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert results["test_a_plain_test_gets_a_synchronous_environment"] == ["PASSED"]
    assert any(name.startswith("test_an_async_test") for name in results)
    assert results["test_step_after_last_begins_an_episode"] == ["PASSED"]
    assert {outcome for outcomes in results.values() for outcome in outcomes} == {"PASSED"}


@pytest.mark.slow
def test_faults_of_a_project_are_found(project):
    done, results = _pytest(project, "test_faulty.py", *_AUTO)
    assert done.returncode == 1
    faults = {name for name, outcomes in results.items() if outcomes != ["PASSED"]}
    assert faults == {
        "test_longer_action_sequence",
        "test_step_after_last_begins_an_episode",
        "test_step_on_fresh_environment",
        "test_it_ended_otherwise",
        "test_it_leaves_an_episode_open",
        "test_it_cannot_be_closed",
    }
    assert "ended INTERRUPTED in reset; expected TERMINATED" in done.stdout
    assert "1 episode(s) have not ended: left-open" in done.stdout
    assert results["test_it_leaves_an_episode_open"] == ["PASSED", "ERROR"]
    assert "the calculator is stuck" in done.stdout
    assert "calling step() on a fresh environment must produce a step" in done.stdout


@pytest.mark.slow
@pytest.mark.browser
def test_a_project_can_test_with_a_real_page(project):
    done, results = _pytest(project, "test_page.py", *_AUTO)
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(results) == {
        "test_a_plain_test_gets_a_synchronous_page",
        "test_an_async_test_can_have_its_page_recorded",
    }
