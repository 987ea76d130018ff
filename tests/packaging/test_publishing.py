"""What surrounds the package where it is published: workflows, citation, security, container."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))

PINNED = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40}")


def read(path):
    return yaml.safe_load((ROOT / path).read_text())


def steps_of(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_may_only_read_and_runs_pinned_actions(path):
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    used = [step["uses"] for step in steps_of(workflow) if "uses" in step]
    assert used
    assert not [action for action in used if not PINNED.fullmatch(action)]
    assert "secrets." not in path.read_text()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_runs_targets_that_exist(path):
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = " ".join(step.get("run", "") for step in steps_of(read(path)))
    assert set(re.findall(r"\bmake ([a-z][\w-]*)", commands)) <= targets


def test_tests_run_on_every_python_that_is_promised():
    versions = read(".github/workflows/tests.yml")["jobs"]["fast"]["strategy"]["matrix"]["python"]
    prefix = "Programming Language :: Python :: 3."
    named = [name for name in PROJECT["classifiers"] if name.startswith(prefix)]
    assert [f"{prefix}{version.removeprefix('3.')}" for version in versions] == named
    assert PROJECT["requires-python"] == f">={versions[0]}"


def test_only_the_job_that_publishes_proves_who_it_is():
    jobs = read(".github/workflows/release.yml")["jobs"]
    assert "permissions" not in jobs["build"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["environment"]["name"] == "pypi"
    assert [step["uses"].partition("@")[0] for step in jobs["publish"]["steps"]] == [
        "actions/download-artifact",
        "pypa/gh-action-pypi-publish",
    ]


def test_citation_and_changelog_know_the_version():
    """A version that is not released has no date."""
    citation = read("CITATION.cff")
    assert citation["version"] == PROJECT["version"]
    date = citation.get("date-released", "unreleased")
    assert f"\n## {citation['version']} ({date})\n" in (ROOT / "CHANGELOG.md").read_text()


def test_versions_move_together():
    for file in ROOT.glob("packages/*/pyproject.toml"):
        project = tomllib.loads(file.read_text())["project"]
        assert project["version"] == PROJECT["version"], file
        needed = [one for one in project["dependencies"] if one.startswith("webtraj")]
        assert needed
        assert all(one.endswith(f"=={PROJECT['version']}") for one in needed), file
        among = [one for extra in project["optional-dependencies"].values() for one in extra]
        others = [one for one in among if re.match(rf"webtraj-(?!{project['name'][8:]}\b)", one)]
        assert all(one.endswith(f"=={PROJECT['version']}") for one in others), file
    brought = [
        one
        for extra in ("apps", "formats", "integrations")
        for one in PROJECT["optional-dependencies"][extra]
        if one.startswith("webtraj-")
    ]
    assert all(one.endswith(f"=={PROJECT['version']}") for one in brought)


def test_no_command_takes_webtraj_from_an_index_alone():
    """Outside of `errors.install_command`: its command is for where webtraj is installed."""
    written = re.compile(r"pip3? install (-\S+ )*[\"']?webtraj")
    paths = [*(ROOT / "src").rglob("*.py"), *(ROOT / "scripts").iterdir()]
    found = [path.name for path in paths if path.is_file() and written.search(path.read_text())]
    assert found == ["errors.py"]
