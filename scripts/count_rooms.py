"""Count the modules of webtraj that a recorded step and a browser action pass through.

Run `python scripts/count_rooms.py`. A module counts if one of its functions runs during the step.
A move is a call from one module into another. Figures for docs/architecture.md.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import webtraj
from webtraj.environments.browser.observation import refs_in
from webtraj.testing.fakes import CatchEnvironment

_ROOT = str(Path(webtraj.__file__).parent)


class Rooms:
    """Calls by module while it is entered."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.moves = 0

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        module = _module(frame)
        if event != "call" or module is None:
            return
        self.calls[module] += 1
        caller = frame.f_back
        while caller is not None and _module(caller) is None:
            caller = caller.f_back
        self.moves += caller is not None and _module(caller) != module

    def __enter__(self) -> Rooms:
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def report(self, what: str) -> None:
        """Print the counts, the busiest module first."""
        total = sum(self.calls.values())
        print(f"{what}: {len(self.calls)} modules, {total} calls, {self.moves} moves")
        for module, calls in self.calls.most_common():
            print(f"    {calls:4} {module}")


def _module(frame: FrameType) -> str | None:
    path = frame.f_code.co_filename
    return path[len(_ROOT) + 1 : -3].replace("/", ".") if path.startswith(_ROOT) else None


async def _recorded_step(folder: Path) -> None:
    collector = webtraj.JsonTrajectoryCollector(folder)
    env = webtraj.TrajectoryCollectingEnvironment(CatchEnvironment(), collector)
    async with collector, env:
        await env.reset()
        await env.step(1)
        with Rooms() as rooms:
            await env.step(1)
    rooms.report("recorded step")


async def _browser_action() -> None:
    async with webtraj.make("miniwob/click-test") as env:
        page = (await env.reset()).observation["axtree"]
        (button,) = (element for element in refs_in(page) if element.role == "button")
        with Rooms() as rooms:
            await env.step(f"click('{button.ref}')")
    rooms.report("browser action")


def main() -> None:
    """Count both."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_recorded_step(Path(folder)))
    asyncio.run(_browser_action())


if __name__ == "__main__":
    main()
