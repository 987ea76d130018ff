"""Print how large webtraj is and how much of it an action passes, now and at an earlier commit.

    python scripts/house.py
    python scripts/house.py --against COMMIT

The columns are a commit's, made of its archive, and the working tree's. Sizes are counted from
text. Commands, and the modules that something passes, are measured: the tree's own code plays in a
process of its own, with this environment's packages, and a part that it cannot play is `-`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from types import FrameType
from typing import Any

import draw_house

ROOT = Path(__file__).resolve().parent.parent
PRESET = "miniwob/click-test"
OPTION, VALUE = "--max-steps", 7919
"""An option that both trees have, and a value that nothing else has."""


def main() -> None:
    """Print the table, or what a probe finds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--against", metavar="COMMIT", help="Also measure this commit.")
    parser.add_argument("--probe", choices=sorted(_PROBES), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.probe:
        with contextlib.redirect_stdout(sys.stderr):
            found = _PROBES[options.probe]()
        print(found)
        return
    columns = [measure(ROOT)]
    names = ["now"]
    if options.against:
        with tempfile.TemporaryDirectory() as folder:
            _unpack(options.against, Path(folder))
            columns.insert(0, measure(Path(folder)))
        names.insert(0, options.against)
    print("\n".join(_table(names, columns)))


def measure(root: Path) -> dict[str, str]:
    """Return each measure of a tree."""
    graph = draw_house.imports_of_files(root)
    circles = in_circles(graph)
    pages = [root / "README.md", *(root / "docs").rglob("*.md")]
    words = sum(len(page.read_text("utf-8").split()) for page in pages)
    return {
        **{f"`{name}`: lines, modules": size for name, size in _sizes(root)},
        "commands, options": _probe(root, "commands"),
        "modules that a recorded step passes": _probe(root, "step"),
        "modules that an action in a browser passes": _probe(root, "action"),
        f"modules that hold the value of `{OPTION}`": _probe(root, "option"),
        "modules in circles of imports": str(len(circles)),
        "words of README and docs": f"{words:,}",
    }


def in_circles(graph: Mapping[str, Iterable[str]]) -> set[str]:
    """Return the nodes of a graph from which a way leads back to them."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        left = list(graph[start])
        while left:
            if (name := left.pop()) not in seen:
                seen.add(name)
                left += graph[name]
        return seen

    return {name for name in graph if name in reached(name)}


def _sizes(root: Path) -> Iterator[tuple[str, str]]:
    """Yield (package, its lines and modules), the whole library last."""
    source = root / "src/webtraj"
    places = [each for each in source.iterdir() if (each / "__init__.py").exists()]
    beside = [path.parent for path in root.glob("packages/*/src/*/__init__.py")]
    for place in [*sorted(places), source, *sorted(beside)]:
        files = list(place.rglob("*.py"))
        lines = sum(len(file.read_text("utf-8").splitlines()) for file in files)
        yield (
            place.relative_to(root / "src").as_posix() if place in places else place.name,
            (f"{lines:,}, {len(files)}"),
        )


def _table(names: list[str], columns: list[dict[str, str]]) -> Iterator[str]:
    yield f"| | {' | '.join(names)} |"
    yield "|---" * (len(names) + 1) + "|"
    rows = dict.fromkeys(row for column in reversed(columns) for row in column)
    packages = sorted(row for row in rows if row.startswith("`"))
    for row in [*packages, *(row for row in rows if row not in packages)]:
        yield f"| {row} | {' | '.join(column.get(row, '-') for column in columns)} |"


def _unpack(commit: str, folder: Path) -> None:
    packed = subprocess.run(
        ["git", "archive", commit], cwd=ROOT, capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")


def _probe(root: Path, name: str) -> str:
    """Return what a probe finds in a tree; `-` if the tree cannot play it."""
    sources = [root / "src", *root.glob("packages/*/src")]
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(
            [sys.executable, __file__, "--probe", name],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sources))},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if result.returncode:
        print(f"{root}: {name}: {result.stderr.strip()[-500:]}", file=sys.stderr)
    return "-" if result.returncode else result.stdout.strip()


class _Trace:
    """Collects the modules of webtraj whose functions return while it is on."""

    def __init__(self, wanted: Callable[[FrameType], bool] = lambda frame: True) -> None:
        self.modules: set[str] = set()
        self.on = False
        self._wanted = wanted
        threading.setprofile(self._see)
        sys.setprofile(self._see)

    def _see(self, frame: FrameType, event: str, _: Any) -> None:
        if self.on and event == "return" and frame.f_code.co_name != "<module>":
            place = re.search(r"/src/(webtraj/.*)\.py$", frame.f_code.co_filename)
            if place and self._wanted(frame):
                self.modules.add(place[1])


def _of_step() -> int:
    import webtraj
    from webtraj.testing import fakes

    async def play() -> int:
        trace = _Trace()
        collector = webtraj.JsonTrajectoryCollector("probed")
        async with webtraj.TrajectoryCollectingEnvironment(
            fakes.CatchEnvironment(), collector
        ) as env:
            await env.reset()
            await env.step(1)
            trace.on = True
            await env.step(1)
            trace.on = False
        await collector.aclose()
        return len({each for each in trace.modules if not each.startswith("webtraj/testing")})

    return asyncio.run(play())


def _of_action() -> int:
    import webtraj

    async def play() -> int:
        trace = _Trace()
        async with webtraj.make(PRESET, seed=1) as env:
            await env.reset()
            action = await env.cheat()
            trace.on = True
            timestep = await env.step(action)
            trace.on = False
        assert timestep.reward > 0, timestep
        return len(trace.modules)

    return asyncio.run(play())


def _of_option() -> int:
    from webtraj.cli import app

    def holds(frame: FrameType) -> bool:
        found = list(frame.f_locals.values())
        found += [one for each in found if isinstance(each, dict) for one in each.values()]
        return any(type(one) is int and one == VALUE for one in found)

    trace = _Trace(holds)
    trace.on = True
    sys.argv = ["webtraj", "rollout", "--preset", PRESET, "--agent", "oracle", "--episodes", "1",
                OPTION, str(VALUE), "--out", "probed"]  # fmt: skip
    with contextlib.suppress(SystemExit):
        app.main()
    return len(trace.modules)


def _of_commands() -> str:
    from webtraj.cli import app

    commands = [app.make_command(name) for name in app.COMMANDS]
    if hasattr(app, "make_offered"):  # Those of the packages beside the library.
        for entry_point in entry_points(group="webtraj.commands"):
            command = app.make_offered(entry_point)
            commands += getattr(command, "commands", {"": command}).values()
    leaves = [one for one in commands if not hasattr(one, "commands")]
    options = sum(
        each.opts[0].startswith("-") and not getattr(each, "hidden", False)
        for command in leaves
        for each in command.params
    )
    return f"{len(leaves)}, {options}"


_PROBES: dict[str, Callable[[], object]] = {
    "action": _of_action,
    "commands": _of_commands,
    "option": _of_option,
    "step": _of_step,
}

if __name__ == "__main__":
    main()
