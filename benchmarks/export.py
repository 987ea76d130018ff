"""What exporting samples takes: rows written, read back and compared, pictures looked into.

    .venv/bin/python benchmarks/export.py [--steps 10000 100000] [--pictures 1000]

Samples have a system message and a page of 2,000 characters, no two alike. With pictures: a
screenshot of 1280x720 of about 100 KB each, of its own (`unshared`), or four in each prompt of
which three were in the one before (`shared`), as agents send them. Each is measured in a process of
its own. Samples come from memory; loading them from a dataset comes on top
(`benchmarks/replay.py`). Two limits are what no export can beat: `written`, the same rows turned
into JSON and written, pictures too, with nothing looked into and nothing read back; and `decoded`,
the same pictures looked into, by as many threads, and nothing else. Seconds of the CPU, all threads
together, say more than those of the clock where others use the machine. Memory is the most that
the process had resident, less what it had before.
"""

from __future__ import annotations

import argparse
import io
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from webtraj.agents.models.base import Image, Message
from webtraj.datasets.place import map_in_order
from webtraj.training.export import export_samples, make_format
from webtraj.training.export.pictures import WORKERS, Pictures, import_zlib, picture_error
from webtraj.training.samples import Sample, SampleKey

STEPS_AN_EPISODE = 10
SHOWN = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--pictures", type=int, default=1_000)
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        name, pictures, kind, steps = options.measure
        print(orjson.dumps(measure(name, pictures, kind, int(steps))).decode())
        return
    runs = [(name, "none", "PNG", n) for name in ("sharegpt", "openai", "trl", "tokens")
            for n in options.steps]  # fmt: skip
    runs += [("sharegpt", shared, kind, options.pictures)
             for shared in ("unshared", "shared") for kind in ("PNG", "JPEG")]  # fmt: skip
    runs += [("trl", "unshared", "JPEG", options.pictures)]
    table = Table(
        "format", "pictures", "samples", "samples/s", "by CPU", "written", "decoded", "by CPU", "MB"
    )
    for name, pictures, kind, steps in runs:
        command = [sys.executable, __file__, "--measure", name, pictures, kind, str(steps)]
        found = orjson.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        table.add_row(
            name,
            "none" if pictures == "none" else f"{pictures} {kind}",
            f"{steps:,}",
            f"{steps / found['seconds']:,.0f}",
            f"{steps / found['cpu']:,.0f}",
            f"{steps / found['written']:,.0f}",
            f"{steps / found['decoded']:,.0f}" if "decoded" in found else "",
            f"{steps / found['decoded_cpu']:,.0f}" if "decoded" in found else "",
            f"{found['memory'] / 1e6:,.0f}",
        )
    Console().print(table, f"PNGs are unpacked by {import_zlib().__name__}.")


def measure(name: str, pictures: str, kind: str, steps: int) -> dict[str, float]:
    screens = [screenshot(i, kind) for i in range(16)]
    warm = {"train": samples(16, pictures, screens)}
    with tempfile.TemporaryDirectory() as scratch:
        export_samples(warm, Path(scratch) / "warm", format=name)
        before = resident()
        began, cpu = time.perf_counter(), time.process_time()
        report = export_samples(
            {"train": samples(steps, pictures, screens)}, Path(scratch) / "out", format=name
        )
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        assert report.splits["train"].rows == steps, report
        memory = resident() - before
    found = {"seconds": seconds, "cpu": cpu, "memory": memory}
    with tempfile.TemporaryDirectory() as scratch:
        found["written"] = written_only(Path(scratch), name, samples(steps, pictures, screens))
    if pictures == "none":
        return found
    return found | decoded_only([distinct(screens[n % len(screens)], n) for n in range(steps)])


def decoded_only(images: list[Image]) -> dict[str, float]:
    """Returns how long it takes to look into pictures; each sample has a new one."""
    began, cpu = time.perf_counter(), time.process_time()
    for error in map_in_order(lambda image: picture_error(image.data), images, workers=WORKERS):
        assert not error
    return {
        "decoded": time.perf_counter() - began,
        "decoded_cpu": time.process_time() - cpu,
    }


def written_only(folder: Path, name: str, rows: Iterator[Sample]) -> float:
    """Returns how long it takes to make JSON of the same rows and to write it, and pictures."""
    made = make_format("openai" if name == "trl" else name)
    spent = 0.0
    written: set[str] = set()
    with tempfile.TemporaryDirectory() as scratch, (folder / "rows").open("wb") as file:
        pictures = Pictures(Path(scratch))
        for sample in rows:
            data = made.row(sample, pictures).data
            images = [p for m in sample.messages for p in m.parts if isinstance(p, Image)]
            new = [image for image in images if image.uuid not in written]
            written.update(image.uuid for image in new)
            began = time.perf_counter()
            file.write(orjson.dumps(data))
            for image in new:
                (folder / image.uuid).write_bytes(image.data)
            spent += time.perf_counter() - began
    return spent


def samples(steps: int, pictures: str, screens: list[bytes]) -> Iterator[Sample]:
    shown: list[Image] = []
    for step in range(steps):
        page = f"[{step}] button 'Buy {step}' in a list of things\n" * 45
        if pictures == "unshared":
            shown = [distinct(screens[step % len(screens)], step)]
        elif pictures == "shared":
            shown = [*shown, distinct(screens[step % len(screens)], step)][-SHOWN:]
        yield Sample(
            key=SampleKey(f"e{step // STEPS_AN_EPISODE}", step % STEPS_AN_EPISODE + 1),
            messages=(
                Message.of("system", "You use a browser."),
                Message.of("user", f"Task {step}\n", *shown, page),
            ),
            completion=f"Thought: I buy it.\nAction: click('{step}')",
            prompt_token_ids=tuple(range(800)),
            completion_token_ids=tuple(range(20)),
            logprobs=(-0.5,) * 20,
            reward=1.0,
        )


def screenshot(seed: int, kind: str) -> bytes:
    import numpy as np
    from PIL import Image as Pillow
    from PIL import ImageDraw

    luck = np.random.default_rng(seed)
    page = Pillow.new("RGB", (1280, 720), "white")
    draw = ImageDraw.Draw(page)
    for line in range(85 if kind == "PNG" else 180):
        x, y = (int(n) for n in luck.integers(0, (1000, 700)))
        colour = tuple(int(n) for n in luck.integers(0, 200, 3))
        draw.text((x, y), f"line {line} of the page {seed}", fill=colour)
    data = io.BytesIO()
    page.save(data, kind, quality=80)
    return data.getvalue()


def distinct(data: bytes, number: int) -> Image:
    """Returns the same picture as another file: with a comment of its own."""
    import zlib

    said = f"Comment\0{number}".encode()
    if data.startswith(b"\xff\xd8"):
        comment = b"\xff\xfe" + (len(said) + 2).to_bytes(2) + said
        return Image(data[:2] + comment + data[2:])
    chunk = b"tEXt" + said
    packed = len(said).to_bytes(4) + chunk + zlib.crc32(chunk).to_bytes(4)
    return Image(data[:33] + packed + data[33:])


def resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
