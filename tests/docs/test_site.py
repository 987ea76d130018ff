"""The documentation's site, built as `make docs` does and opened in a real browser."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from documented_blocks import DOCS, ROOT

# It takes some twenty seconds to build, on a busy machine minutes.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site. A dead link, a dead anchor or a page that is nowhere ends the build."""
    folder = tmp_path_factory.mktemp("site")
    result = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return folder


def test_site_has_every_page_and_every_command(site: Path) -> None:
    for page in DOCS.rglob("*.md"):
        assert (site / page.relative_to(DOCS).with_suffix(".html")).exists(), page
    from webtraj.cli.app import COMMANDS

    reference = (site / "reference/cli.html").read_text()
    for command in COMMANDS:
        assert f'id="webtraj-{command.replace(" ", "-")}"' in reference, command
    for example in (ROOT / "examples").glob("[0-9]*.py"):
        assert example.name in (site / "examples.html").read_text()
