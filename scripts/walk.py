"""Walk the way of a newcomer, from a clone to a trained model, and print the seconds of each stage.

The checkout's last commit is cloned into a fresh folder, with a fresh home and no cached packages.
What is typed there is what README.md and docs/start/tutorial.md say: their files are written and
their commands run, as they stand.

Usage: python scripts/walk.py [--torch ARGUMENTS] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import http.cookiejar
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TORCH = "torch torchvision --index-url https://download.pytorch.org/whl/cpu"
_SPEC = importlib.util.spec_from_file_location(
    "documented_blocks", ROOT / "tests/docs/documented_blocks.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
documented_blocks = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = documented_blocks
_SPEC.loader.exec_module(documented_blocks)


@dataclasses.dataclass
class Walk:
    """A newcomer's folder and environment, and how long each stage took there."""

    folder: Path
    stages: list[tuple[str, float]] = dataclasses.field(default_factory=list)

    @property
    def clone(self) -> Path:
        """The clone of the checkout."""
        return self.folder / "webtraj"

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a machine that is new, with the virtual environment switched on."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("WEBTRAJ_", "PYTHON", "XDG_", "VIRTUAL_ENV", "PLAYWRIGHT_"))
        }
        path = f"{self.clone / '.venv/bin'}{os.pathsep}{os.environ['PATH']}"
        return {**kept, "HOME": str(home), "PATH": path}

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage."""
        began = time.monotonic()
        yield
        self.stages.append((name, time.monotonic() - began))
        print(f"walk: {name}: {self.stages[-1][1]:.0f} s", flush=True)

    def type(self, commands: str, *, cwd: Path | None = None) -> None:
        """Run commands as a shell does that stops at the first failure."""
        subprocess.run(
            ["sh", "-ec", commands],
            cwd=cwd or self.clone,
            env=self.environment,
            check=True,
            stdin=subprocess.DEVNULL,
        )

    def follow(self, *sections: str) -> None:
        """Write the files and run the commands of the tutorial's sections, by their numbers."""
        page = self.clone / "docs/start/tutorial.md"
        lines = page.read_text(encoding="utf-8").splitlines()
        for block in documented_blocks.blocks_of(page):
            heads = [line for line in lines[: block.line] if line.startswith("## ")]
            if block.not_run or heads[-1].removeprefix("## ").partition(".")[0] not in sections:
                continue
            if block.title:
                (self.clone / block.title).write_text(block.text, encoding="utf-8")
            elif not block.text.startswith("webtraj view"):  # It serves until Ctrl-C.
                self.type(block.text)

    def look(self, dataset: str) -> None:
        """Open a dataset in the viewer, and wait for the first picture of an episode."""
        viewer = subprocess.Popen(
            ["webtraj", "view", "--no-open", dataset],
            cwd=self.clone,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            assert viewer.stdout is not None
            found = next(filter(None, (re.search(r"http://\S+", line) for line in viewer.stdout)))
            address = found[0].partition("?")[0]
            cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
            visit = urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies).open
            visit(found[0], timeout=60).read()
            (row,) = json.load(visit(f"{address}api/episodes?limit=1", timeout=60))["rows"]
            picture = visit(f"{address}api/thumbnails/{row['dataset']}/{row['id']}", timeout=60)
            assert picture.read().startswith(b"RIFF"), "the episode has no picture"
        finally:
            viewer.terminate()
            viewer.wait()

    def table(self) -> str:
        """Return the stages as a table in Markdown."""
        lines = ["| stage | seconds | since the start |", "|---|---:|---:|"]
        total = 0.0
        for name, seconds in self.stages:
            total += seconds
            lines.append(f"| {name} | {seconds:.0f} | {total / 60:.1f} min |")
        return "\n".join(lines)


def walk(folder: Path, torch: str) -> Walk:
    """Walk the whole way in a folder.

    Raises:
        CalledProcessError: A command failed.
    """
    made = Walk(folder)
    with made.stage("clone"):
        made.type(f"git clone --quiet '{ROOT}' webtraj", cwd=folder)
    with made.stage("install `webtraj[web]`"):
        made.type(
            f"'{sys.executable}' -m venv .venv\n"
            'pip install --quiet --no-cache-dir -e ".[web]"\n'
            "webtraj doctor >doctor.txt || python -m playwright install chromium-headless-shell"
        )
    with made.stage("first picture: `webtraj demo`, and an episode in the viewer"):
        made.type("webtraj demo --no-view")
        made.look("runs/demo")
    with made.stage("first episode of your own environment (2, 3)"):
        made.follow("2", "3")
    with made.stage("first table: 40 episodes in a browser, and their metrics (4)"):
        made.follow("4")
    with made.stage("install `webtraj[train]`, PyTorch for CPUs"):
        made.type(
            f"pip install --quiet --no-cache-dir {torch}\n"
            'pip install --quiet --no-cache-dir -e ".[web,train]"\n'
            "sh scripts/cpu_torchvision.sh .venv"  # Nothing, if it is one for CPUs.
        )
    with made.stage("first trained model: selection, samples, training (5, 6, 7)"):
        made.follow("5", "6", "7")
    with made.stage("it plays, before and after training (8)"):
        made.follow("8")
    return made


def main() -> None:
    """Walk, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--torch", default=TORCH, metavar="ARGUMENTS", help="what pip installs PyTorch by"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where to walk, and leave all")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        if given.keep is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        else:
            given.keep.mkdir(parents=True)
            folder = given.keep.resolve()
        made = walk(folder, given.torch)
    print(made.table())


if __name__ == "__main__":
    main()
