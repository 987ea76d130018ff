"""What the checkout promises to someone who has just cloned it."""

import importlib.metadata
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def normalized(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def constraints():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line.partition(";")[0].split("==") for line in lines if line[:1] not in ("", "#")]
    return {normalized(name): version.strip() for name, version in pins}


def test_every_requirement_is_pinned():
    packages = {"webtraj", *(path.name for path in (ROOT / "packages").iterdir())}
    requirements = [each for name in packages for each in importlib.metadata.requires(name)]
    names = {normalized(re.match(r"[\w.-]+", each)[0]) for each in requirements} - packages
    # What OpenEnv and Inspect require excludes pinned versions, so each has its own environment.
    files = [ROOT / f"scripts/{name}_requirements.txt" for name in ("openenv", "inspect")]
    apart = re.findall(
        r"^(openenv|inspect-ai)==", "".join(file.read_text() for file in files), re.MULTILINE
    )
    assert names <= {*constraints(), *apart}


def test_constraints_are_pins_and_know_no_machine():
    assert all(re.fullmatch(r"[0-9][\w.+!]*", version) for version in constraints().values())
    text = (ROOT / "constraints.txt").read_text()
    assert "/" not in text.replace("scripts/constraints.sh", "")


@pytest.mark.parametrize(
    ("target", "extra"),
    [("demo", " web"), ("check", ""), ("test", ""), ("format", ""), ("bench-recording", "")],
)
def test_every_target_sets_up_first(target, extra):
    done = subprocess.run(
        ["make", "-n", "--no-print-directory", target],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout.splitlines()[0] == f"sh scripts/setup.sh{extra}"


def test_version_is_the_same_everywhere():
    import webtraj

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == webtraj.__version__ == importlib.metadata.version("webtraj")
