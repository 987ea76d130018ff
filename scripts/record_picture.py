"""Make docs/images/record.webp: a task demonstrated in a window, and the bar beside it.

A hand acts by real input on the fixture site, in a browser on a virtual screen; the recorder
records it, and a step is undone. What to do comes from the task's oracle. Both windows' own
screenshots, with the mouse drawn in, are the frames.

Usage: xvfb-run python scripts/record_picture.py [FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import io
import sys
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "demonstrating"), str(ROOT / "tests" / "support")]

from hand import Hand, until  # noqa: E402

import fixture_site  # noqa: E402
from webtraj.collectors.memory import MemoryTrajectoryCollector  # noqa: E402
from webtraj.demonstrating import Recorder, make_headed_pool, preset_environment  # noqa: E402
from webtraj.demonstrating.bar import Bar  # noqa: E402

FILE = ROOT / "docs" / "images" / "record.webp"
LARGEST = 600_000
TASK = "fixture/add-to-cart"
PAGE = (640, 480)
BAR = (400, 250)
GAP = 20
BACK = (200, 226, 222)
POINTER = [(0, 0), (0, 16), (4, 12), (8, 19), (11, 18), (7, 11), (12, 11)]


class Film:
    """The frames so far."""

    def __init__(self, page: Any, bar: Any) -> None:
        self._page = page
        self._bar = bar
        self.frames: list[Image.Image] = []
        self.milliseconds: list[int] = []

    async def shoot(self, milliseconds: int, *, mouse: Any = None, on_bar: Any = None) -> None:
        """Add a frame, with the mouse at a point of the page or the bar."""
        size = (PAGE[0] + BAR[0] + 3 * GAP, PAGE[1] + 2 * GAP)
        frame = Image.new("RGB", size, BACK)
        beside = (2 * GAP + PAGE[0], GAP)
        places = ((self._page, (GAP, GAP), PAGE, mouse), (self._bar, beside, BAR, on_bar))
        for page, (left, top), box, point in places:
            with Image.open(io.BytesIO(await page.screenshot())) as taken:
                scale = min(box[0] / taken.width, box[1] / taken.height)
                shown = taken.convert("RGB").resize(
                    (int(taken.width * scale), int(taken.height * scale)), Image.Resampling.LANCZOS
                )
            frame.paste(shown, (left, top))
            if point is not None:
                x, y = left + point[0] * scale, top + point[1] * scale
                ImageDraw.Draw(frame).polygon(
                    [(x + dx, y + dy) for dx, dy in POINTER], fill="black", outline="white"
                )
        self.frames.append(frame)
        self.milliseconds.append(milliseconds)


async def make(file: Path) -> str:
    """Record the demonstration, write the picture, and say what it is."""
    fixture_site.register_presets()
    pool = make_headed_pool(confined=True)
    environment = preset_environment(TASK, pool=pool, seed=2)
    bar = Bar(pool, lambda: recorder)
    recorder = Recorder(environment, MemoryTrajectoryCollector(), on_progress=bar.show)
    try:
        await bar.open()
        recording = asyncio.ensure_future(recorder.record_episode())
        await recorder.wait_until_begun()
        hand, on_bar = await Hand.on(environment.session.page), await Hand.on(bar.page)
        film = Film(environment.session.page, bar.page)
        await film.shoot(1800)
        await hand.click("h1")  # By mistake.
        await until(lambda: recorder.steps == 1 and recorder.is_settled)
        await asyncio.sleep(0.5)
        await film.shoot(1400, mouse=await hand.middle_of("h1"))
        await film.shoot(900, on_bar=await on_bar.middle_of("#undo"))
        await on_bar.click("#undo")
        await until(lambda: recorder.steps == 0)
        await asyncio.sleep(0.5)
        await film.shoot(1600, on_bar=await on_bar.middle_of("#undo"))
        while not recording.done() and (action := await environment.cheat()) is not None:
            ready = await environment.session.prepare("point", action.ref, {})
            await film.shoot(900, mouse=ready["point"])
            steps = recorder.steps
            await hand.do(environment, action)
            await until(
                lambda steps=steps: (
                    recording.done() or (recorder.steps > steps and recorder.is_settled)
                )
            )
            await asyncio.sleep(0.5)
            await film.shoot(1300, mouse=ready["point"])
        done = await recording
        await film.shoot(2500)
    finally:
        await bar.close()
        await recorder.close()
        await pool.close()
    first, *rest = film.frames
    first.save(
        file, save_all=True, append_images=rest, duration=film.milliseconds, loop=0,
        quality=75, method=4, allow_mixed=True, minimize_size=True,
    )  # fmt: skip
    return f"{len(film.frames)} frames, reward {done.reward:g}"


def main() -> None:
    """Make the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=FILE)
    file = parser.parse_args().file
    made = asyncio.run(make(file))
    size = file.stat().st_size
    print(f"{file.name}: {made}, {size:,} bytes")
    if size > LARGEST:
        sys.exit(f"{file.name} is larger than {LARGEST:,} bytes.")


if __name__ == "__main__":
    main()
