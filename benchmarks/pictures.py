"""Ways to encode the picture of a page: bytes, processor time and likeness.

    make bench-pictures
    .venv/bin/python benchmarks/pictures.py apps/forum/rename-own-topic apps/shop/password

An oracle plays, and the browser captures every page that it meets in each of its own formats. CPU
is that of all processes for one capture, encoding included. Pillow's encoders begin with the
decoded PNG; their CPU comes on top of a capture. PSNR compares with the PNG: higher is more alike.

* unchanged: pages that look like the one before; a dataset stores such a picture once.
* rows that changed: the share that differs from the page before, in the other pages. So much would
  have to be stored if only changed rows were.

Then what these pictures cost on their way to a model's inputs (`picture_costs.py`), in the Python
that has transformers: `.venv-train`, or `--python`.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import dataclasses
import io
import json
import math
import operator
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from PIL import Image, ImageChops, ImageStat
from rich.console import Console
from rich.table import Table

import webtraj
from process_tree import ProcessTree
from webtraj.environments.browser.pool import BrowserPool

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
import fixture_site

ROOT = Path(__file__).resolve().parent.parent

PRESETS = [
    "fixture/pay-by-card", "fixture/vote-up", "fixture/answer-return-days",
    "miniwob/book-flight", "miniwob/email-inbox", "miniwob/choose-date",
]  # fmt: skip
REPEATS = 3

BROWSER: dict[str, dict[str, Any]] = {
    "PNG, fast": {"format": "png", "optimizeForSpeed": True},
    "PNG": {"format": "png"},
    "JPEG 80 (default)": {"format": "jpeg", "quality": 80, "optimizeForSpeed": True},
    "WebP 80, fast": {"format": "webp", "quality": 80, "optimizeForSpeed": True},
    "WebP 80": {"format": "webp", "quality": 80},
}
PILLOW: dict[str, dict[str, Any]] = {
    "JPEG 80": {"format": "JPEG", "quality": 80},
    "WebP 80, method 0": {"format": "WEBP", "quality": 80, "method": 0},
    "WebP 80, method 4": {"format": "WEBP", "quality": 80, "method": 4},
    "WebP lossless, method 0": {"format": "WEBP", "lossless": True, "quality": 20, "method": 0},
    "AVIF 70, speed 10": {"format": "AVIF", "quality": 70, "speed": 10},
    "AVIF 70, speed 6": {"format": "AVIF", "quality": 70, "speed": 6},
}


@dataclasses.dataclass
class Way:
    """What one way of encoding cost."""

    sizes: list[int] = dataclasses.field(default_factory=list)
    cpu: list[float] = dataclasses.field(default_factory=list)
    psnr: list[float] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Pages:
    """What was measured on all pages."""

    browser: dict[str, Way] = dataclasses.field(
        default_factory=lambda: {name: Way() for name in BROWSER}
    )
    pillow: dict[str, Way] = dataclasses.field(
        default_factory=lambda: {name: Way() for name in PILLOW}
    )
    unchanged: int = 0
    rows: list[float] = dataclasses.field(default_factory=list)
    last: Image.Image | None = None
    shots: list[bytes] = dataclasses.field(default_factory=list)
    """The pages as they are recorded."""

    @property
    def count(self) -> int:
        return len(self.browser["PNG"].sizes)


def decoded(data: bytes) -> Image.Image:
    with Image.open(io.BytesIO(data)) as image:
        return image.convert("RGB")


def psnr(image: Image.Image, other: Image.Image) -> float:
    """Returns the peak signal-to-noise ratio in decibels; infinite if they are equal."""
    squares = ImageStat.Stat(ImageChops.difference(image, other)).sum2
    error = sum(squares) / (3 * image.width * image.height)
    return math.inf if error == 0 else 10 * math.log10(255**2 / error)


def rows_of(image: Image.Image) -> list[bytes]:
    data, width = image.tobytes(), 3 * image.width
    return [data[start : start + width] for start in range(0, len(data), width)]


async def look(environment: Any, pages: Pages, tree: ProcessTree) -> None:
    """Captures the page in every way."""
    session = environment.session
    debugger = await session.debugger(session.page)
    exact: Image.Image | None = None
    for name, options in BROWSER.items():
        way, began = pages.browser[name], tree.cpu_seconds()
        for _ in range(REPEATS):
            answer = await debugger.send("Page.captureScreenshot", options)
        way.cpu.append((tree.cpu_seconds() - began) / REPEATS)
        data = base64.b64decode(answer["data"])
        way.sizes.append(len(data))
        if name.endswith("(default)"):
            pages.shots.append(data)
        image = decoded(data)
        exact = exact or image
        way.psnr.append(psnr(exact, image))
    assert exact is not None
    for name, options in PILLOW.items():
        way, began = pages.pillow[name], time.process_time()
        for _ in range(REPEATS):
            written = io.BytesIO()
            exact.save(written, **options)
        way.cpu.append((time.process_time() - began) / REPEATS)
        way.sizes.append(len(written.getvalue()))
        way.psnr.append(psnr(exact, decoded(written.getvalue())))
    if pages.last is not None and pages.last.size == exact.size:
        now, before = rows_of(exact), rows_of(pages.last)
        if now == before:
            pages.unchanged += 1
        else:
            pages.rows.append(sum(map(operator.ne, now, before)) / len(now))
    pages.last = exact


async def play(presets: list[str]) -> Pages:
    pages, tree = Pages(), ProcessTree()
    async with BrowserPool() as pool:
        for preset in presets:
            pages.last = None
            async with webtraj.make(preset, pool=pool, seed=0) as environment:
                timestep = await environment.reset()
                while not timestep.last():
                    await look(environment, pages, tree)
                    if (action := await environment.cheat()) is None:
                        break
                    timestep = await environment.step(action)
    return pages


def show(pages: Pages) -> None:
    table = Table("encoder", "way", "KiB", "of JPEG, %", "CPU ms", "PSNR, dB")
    jpeg = sum(pages.browser["JPEG 80 (default)"].sizes)
    for encoder, ways in (("browser", pages.browser), ("Pillow", pages.pillow)):
        for name, way in ways.items():
            least = min(way.psnr)
            table.add_row(
                encoder,
                name,
                f"{statistics.fmean(way.sizes) / 1024:.1f}",
                f"{100 * sum(way.sizes) / jpeg:.0f}",
                f"{1e3 * statistics.fmean(way.cpu):.1f}",
                "exact" if least == math.inf else f"{statistics.median(way.psnr):.1f}",
            )
    console = Console(width=100)
    console.print(table)
    rows = f"{100 * statistics.fmean(pages.rows):.0f} %" if pages.rows else "none"
    console.print(f"{pages.count} pages; {pages.unchanged} unchanged; rows that changed: {rows}")


COSTS = ("rollout_ms", "rollout_bytes", "export_ms", "export_bytes", "row_bytes", "training_ms",
         "training_bytes")  # fmt: skip


def show_costs(shots: list[bytes], python: Path) -> None:
    """Runs picture_costs.py on the pictures, and shows what it finds."""
    with tempfile.TemporaryDirectory() as folder:
        for number, shot in enumerate(shots):
            (Path(folder) / f"{number:04}.jpg").write_bytes(shot)
        command = [python, Path(__file__).with_name("picture_costs.py"), folder]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        said = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, env=environment
        ).stdout
        found = json.loads(said.splitlines()[-1])
    table = Table("for each step", *found["ways"])
    for cost in COSTS:
        cells = [way[cost] for way in found["ways"].values()]
        table.add_row(
            cost.replace("_ms", ", CPU ms").replace("_bytes", ", KiB"),
            *(f"{cell:.2f}" if "ms" in cost else f"{cell / 1024:,.1f}" for cell in cells),
        )
    ours = found["ways"]["webtraj"]
    checked, whole = ours["checked_ms"], ours["export_all_ms"]
    console = Console(width=100)
    console.print(table)
    console.print(
        f"{found['steps']} steps, {found['shown']:.1f} pictures a prompt. Checking each picture "
        f"once takes {checked:.2f} ms, {100 * checked / whole:.0f} % of the export with text, "
        f"{100 * checked / ours['export_ms']:.0f} % of what pictures add to it."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    fixture_site.register_presets()
    parser.add_argument("presets", nargs="*", default=PRESETS, metavar="PRESET")
    parser.add_argument("--python", type=Path, default=ROOT / ".venv-train/bin/python")
    options = parser.parse_args()
    if not options.python.exists():
        parser.error(f"no Python at {options.python}: sh scripts/environment.sh train")
    pages = asyncio.run(play(options.presets))
    show(pages)
    show_costs(pages.shots, options.python)


if __name__ == "__main__":
    main()
