"""Every Python block of the README and the docs runs, and every link leads somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#([^)\s]*))?\)")


def blocks() -> list:
    found = []
    for page in PAGES:
        for match in BLOCK.finditer(page.read_text()):
            line = page.read_text().count("\n", 0, match.start()) + 2
            found.append(pytest.param(match[1], id=f"{page.name}:{line}"))
    return found


def run(*command: str, cwd: Path) -> str:
    result = subprocess.run(
        [sys.executable, "-W", "error", *command],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.parametrize("code", blocks())
def test_block_runs(code: str, tmp_path: Path) -> None:
    if re.search(r"^(import pytest|def test_|class Test)", code, re.MULTILINE):
        script = tmp_path / "test_block.py"
        script.write_text(code)
        arguments = ("-q", "-o", "asyncio_default_fixture_loop_scope=function", str(script))
        assert " passed" in run("-m", "pytest", *arguments, cwd=tmp_path)
    else:
        script = tmp_path / "block.py"
        script.write_text(code)
        run(str(script), cwd=tmp_path)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_runs_and_leaves_a_sound_dataset(example: Path, tmp_path: Path) -> None:
    from webtraj.datasets.verification import verify

    assert run(str(example), str(tmp_path / "data"), cwd=tmp_path).strip()
    report = verify(tmp_path / "data")
    assert report.clean
    assert report.num_episodes > 0


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_states_its_prerequisites_and_command_and_is_short(example: Path) -> None:
    text = example.read_text()
    assert "\nPrerequisites: " in text
    assert f"\nRun:           python examples/{example.name}" in text
    assert text.count("\n") <= 65


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text()):
        if target.startswith(("http:", "https:")):
            continue
        path = page.parent / target
        assert path.exists(), f"{page.name} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
            slugs = [re.sub(r"[^a-z0-9 -]", "", h.lower()).replace(" ", "-") for h in headings]
            assert anchor in slugs, f"{page.name} links to {target}#{anchor}"


def test_readme_names_every_command() -> None:
    from webtraj.cli.app import COMMANDS

    readme = (ROOT / "README.md").read_text()
    for command in COMMANDS:
        assert f"webtraj {command}" in readme, command
