"""The tutorial and the guides, gone through as a reader would: all blocks of a page, in order.

A block with a title is put into a file of that name; others in Python or sh are run, in one folder.
"""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from documented_blocks import ROOT, WALKTHROUGHS, Block, blocks_of, is_slow

from bucket_servers import REGION, running
from webtraj.environments.browser.processes import find_browser

BUCKET = "s3://trajectories"
OTHERS = (".venv-train", ".venv-browsergym")
"""Environments of the checkout that have what a block may need, if they were made."""


def walkthrough(page: Path):
    # Slow ones train a model or start a cluster; on a busy machine that takes minutes.
    marks = (pytest.mark.slow, pytest.mark.timeout(1200)) if is_slow(page) else ()
    return pytest.param(page, id=page.name, marks=marks)


@pytest.mark.slow
@pytest.mark.parametrize("page", [walkthrough(page) for page in WALKTHROUGHS])
def test_page_can_be_followed(page: Path, tmp_path: Path, s3_servers) -> None:
    environment = {
        **os.environ,
        **(bucket(s3_servers) if BUCKET in page.read_text() else {}),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    left_out = []
    for block in blocks_of(page):
        if block.title:
            (tmp_path / block.title).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / block.title).write_text(block.text)
        elif block.not_run or block.language not in ("python", "sh"):
            continue
        elif (python := python_for(block.needs)) is None:
            left_out.append(f"{block.name} needs {block.needs}")
        else:
            run(block, python, tmp_path, environment)
    if left_out:
        pytest.skip(f"in part: {'; '.join(left_out)}")


def run(block: Block, python: Path, folder: Path, environment: dict[str, str]) -> None:
    variables = {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    if block.needs.startswith("browsergym"):
        variables |= browsergym(python, folder)
    command = ["bash", "-euc", block.text]
    if block.language == "python":
        script = folder / f"block_{block.line}.py"
        script.write_text(block.text)
        # Others' packages are not ours to warn of.
        command = [str(python), *([] if block.needs else ["-W", "error"]), str(script)]
    result = subprocess.run(
        command,
        cwd=folder,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, f"{block.name}\n{result.stdout}{result.stderr}"


@functools.cache
def python_for(needed: str) -> Path | None:
    """Returns a Python that has a module, or this one if none is needed; None if none has it."""
    own = Path(sys.executable)
    if not needed:
        return own
    candidates = (own, *(ROOT / folder / "bin" / "python" for folder in OTHERS))
    return next((one for one in candidates if has(one, needed)), None)


def has(python: Path, module: str) -> bool:
    command = [python, "-c", f"import {module}, webtraj"]
    return python.exists() and subprocess.run(command, capture_output=True).returncode == 0


def bucket(servers) -> dict[str, str]:
    """Returns the variables by which the pages' bucket is found, on a server that runs here."""
    server = running(servers, "rclone")
    (server.folder / BUCKET.rpartition("/")[2]).mkdir(exist_ok=True)
    return {
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": server.access_key_id,
        "AWS_SECRET_ACCESS_KEY": server.secret_access_key,
    }


def browsergym(python: Path, folder: Path) -> dict[str, str]:
    """Returns the variables by which BrowserGym finds its pages and its browser."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import peers
    finally:
        sys.path.pop(0)
    from webtraj.environments.miniwob import tasks

    places = folder / "browsers", find_browser().path or "", tasks.html_folder() / "miniwob"
    places[0].mkdir()
    return dict(peers.browsergym_variables(python, *places))


def test_pages_are_found_and_have_blocks_to_run() -> None:
    assert len(WALKTHROUGHS) >= 10
    for page in WALKTHROUGHS:
        assert any(not b.not_run and b.language in ("python", "sh") for b in blocks_of(page)), page
