"""The README and every page of the documentation, followed as a reader would.

All blocks of a page are run in order, in one folder (`desk.py` says what is in it). A block with a
title is put into a file of that name; others in Python or sh are run.
"""

from pathlib import Path

import pytest
from desk import Desk, desk_in, play, python_for
from documented_blocks import PAGES, ROOT, blocks_of, is_slow

GATE = ("README.md", "start/tutorial.md")
"""The pages that a newcomer follows first."""


def runs(block) -> bool:
    return bool(block.title) or (not block.not_run and block.language in ("python", "sh"))


def followed(page: Path):
    # Slow ones train a model or start a cluster; on a busy machine that takes minutes.
    timeout = 1200 if is_slow(page) else 600
    name = page.relative_to(ROOT).as_posix().removeprefix("docs/")
    marks = [pytest.mark.timeout(timeout), *([pytest.mark.gate] if name in GATE else [])]
    return pytest.param(page, id=name, marks=marks)


@pytest.fixture(scope="session")
def played(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("played")
    play(folder)
    return folder


@pytest.fixture
def desk(tmp_path, played, s3_servers):
    with desk_in(tmp_path, played, s3_servers) as one:
        yield one


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize(
    "page", [followed(page) for page in PAGES if any(map(runs, blocks_of(page)))]
)
def test_page_can_be_followed(page: Path, desk: Desk) -> None:
    left_out = []
    for block in filter(runs, blocks_of(page)):
        if block.title:
            (desk.folder / block.title).parent.mkdir(parents=True, exist_ok=True)
            (desk.folder / block.title).write_text(desk.here(block.text))
        elif python_for(block.needs) is None:
            left_out.append(f"{block.name} needs {block.needs}")
        else:
            desk.run(block)
    if left_out:
        pytest.skip(f"in part: {'; '.join(left_out)}")


def test_commands_are_in_blocks_that_run() -> None:
    for page in PAGES:
        for block in blocks_of(page):
            assert block.language not in ("bash", "console", "shell"), block.name
