"""The examples, and the programs of the first guides, hold the types of the public API.

mypy reads the examples in `make check`, as strictly as the library. Programs in guides leave their
own functions unannotated, to be short; all else about them is strict, too.
"""

import json
import subprocess
import sys

import pytest
from documented_blocks import DOCS, ROOT, blocks_of

GUIDES = ("your_environment", "your_agent", "your_collector")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A folder for each guide, with its programs; those without a title are named by their line."""
    folder = tmp_path_factory.mktemp("programs")
    for guide in GUIDES:
        (folder / guide).mkdir()
        for block in blocks_of(DOCS / f"guides/{guide}.md"):
            if block.language == "python":
                name = block.title or f"line_{block.line}.py"
                (folder / guide / name).write_text(block.text)
    return folder


def run(*command, cwd):
    ended = subprocess.run(
        [sys.executable, "-m", *command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("guide", GUIDES)
def test_the_programs_of_a_guide_pass_mypy(guide, programs):
    names = sorted(path.name for path in (programs / guide).glob("*.py"))
    settings = ["--config-file", ROOT / "pyproject.toml", "--cache-dir", ROOT / ".mypy_cache"]
    own = ["--allow-untyped-defs", "--allow-incomplete-defs", "--allow-untyped-calls"]
    # A registration of a guide's own untyped function.
    own += ["--allow-untyped-decorators", "--allow-subclassing-any"]
    run("mypy", *settings, "--follow-imports=silent", *own, *names, cwd=programs / guide)


def test_examples_and_guides_pass_pyright(programs):
    """Strict for the examples; dm_env itself has no types."""
    pyright = ["basedpyright", "--pythonpath", sys.executable, "--project"]
    common = {"pythonVersion": "3.11", "extraPaths": [str(ROOT / "src")]}
    # What an environment of dm_env must return would be None, as inferred from its empty methods.
    inferred = {"typeCheckingMode": "standard", "reportIncompatibleMethodOverride": False}
    untyped = {"reportMissingTypeStubs": False, "reportUnknownMemberType": False}
    settings = programs / "examples.json"
    examples = {"include": [str(ROOT / "examples/*.py")], "typeCheckingMode": "strict"}
    settings.write_text(json.dumps(common | untyped | examples))
    run(*pyright, settings, cwd=programs)
    for guide in GUIDES:
        of_guide = programs / guide / "guide.json"
        of_guide.write_text(json.dumps(common | inferred | {"include": ["."]}))
        run(*pyright, of_guide, cwd=programs / guide)
