"""Make docs/images/first.webp: from three commands to a played episode in the viewer.

`webtraj demo` runs in a terminal of its own. What it prints becomes the terminal's frames, with the
waiting cut; then the headless browser opens the viewer that the demo serves, and its screenshots
become the rest. The first two commands are typed, not run.

Usage: python scripts/first_picture.py [FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import dataclasses
import fcntl
import html
import io
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from PIL import Image
from playwright.async_api import Page, async_playwright

from webtraj.environments.browser.processes import find_browser

FILE = Path(__file__).resolve().parent.parent / "docs" / "images" / "first.webp"
LARGEST = 1_500_000
"""Bytes of the picture."""

COMMANDS = (
    'pip install "./webtraj[web]"',
    "python -m playwright install chromium-headless-shell",
    "webtraj demo",
)
TASK = "miniwob/use-autocomplete"
"""The task of the episode that is shown."""

WIDTH, HEIGHT = 1120, 660
"""The inside of a window, in pixels."""
COLUMNS, ROWS = 96, 23
PROMPT = "\x1b[36m$\x1b[0m "

_ADDRESS = re.compile(r"http://[\d.]+:\d+/[^\s)]*")
_CONTROL = re.compile(r"\r\n|\n|\r|\x1b\[\?25[lh]|\x1b\[2K|\x1b\[\d*A")
_COLOUR = re.compile(r"\x1b\[([\d;]*)m")

STAGE = """<!doctype html><meta charset="utf-8"><style>
* { box-sizing: border-box; margin: 0 }
body { padding: 32px; background: linear-gradient(140deg, #d9efec, #b9dcd9);
    font: 13px system-ui, "DejaVu Sans", sans-serif }
.window { width: 1120px; border-radius: 12px; overflow: hidden; position: relative;
    box-shadow: 0 18px 50px rgb(9 60 60 / 35%) }
.bar { height: 36px; display: flex; align-items: center; gap: 8px; padding: 0 16px;
    background: #e9eef0; color: #4d5d66 }
.bar i { width: 12px; height: 12px; border-radius: 50%; background: #c3ced2 }
.bar span { flex: 1; text-align: center; margin-right: 52px }
.dark .bar { background: #1c2a30; color: #93a7ad } .dark .bar i { background: #3a4d54 }
.inside { height: 660px; background: #101a1f }
img { display: block }
pre { padding: 20px 24px; color: #d5e2e2;
    font: 18px/27px "DejaVu Sans Mono", "Cascadia Mono", Menlo, Consolas, monospace }
.cursor { background: #5fd0c4 }
.s1 { font-weight: 700; color: #fff } .s30, .s90 { color: #3c5057 }
.s31, .s91, .s35 { color: #35a99c } .s32 { color: #7fd6a0 } .s36 { color: #5fd0c4 }
.pointer { position: absolute; filter: drop-shadow(0 1px 2px rgb(0 0 0 / 40%)) }
.key { position: absolute; right: 28px; bottom: 28px; min-width: 54px; padding: 12px 16px;
    text-align: center; border-radius: 10px; font-size: 22px; color: #fff; background: #0b7d73;
    box-shadow: 0 4px 14px rgb(9 60 60 / 35%) }
</style>"""
POINTER = (
    '<svg class="pointer" style="left:{x}px;top:{y}px" width="26" height="30" viewBox="0 0 13 15">'
    '<path d="M1 1v11l3-3 2 5 2-1-2-5h4z" fill="#101a1f" stroke="#fff" stroke-width="1"/></svg>'
)


@dataclasses.dataclass(frozen=True, slots=True)
class Frame:
    """A picture, and for how long it is shown."""

    picture: Image.Image
    milliseconds: int


class Screen:
    """The lines of a terminal: as much of one as a progress bar needs. Colours stay in the text."""

    def __init__(self) -> None:
        self.lines = [""]
        self._row = 0

    def feed(self, text: str) -> None:
        """Take what a program prints."""
        at = 0
        for control in _CONTROL.finditer(text):
            self.lines[self._row] += text[at : control.start()]
            at = control.end()
            match control[0]:
                case "\n" | "\r\n":
                    self._row += 1
                    if self._row == len(self.lines):
                        self.lines.append("")
                case "\x1b[2K":
                    self.lines[self._row] = ""
                case up if up.endswith("A"):
                    self._row = max(0, self._row - int(up[2:-1] or 1))
        self.lines[self._row] += text[at:]


def typing(command: str) -> Iterator[tuple[str, int]]:
    """Yield what stands on the line while a command is typed, and for how many milliseconds."""
    for end in range(2, len(command) + 2, 2):
        yield command[:end], 70


def pieces(prints: Sequence[tuple[float, str]], seconds: float) -> Iterator[str]:
    """Yield what was printed, joined where it came within so many seconds."""
    piece, begun = "", 0.0
    for when, text in prints:
        if piece and when - begun >= seconds:
            yield piece
            piece = ""
        if not piece:
            begun = when
        piece += text
    if piece:
        yield piece


def terminal_html(lines: Sequence[str]) -> str:
    """Return a terminal's last lines as HTML, with a cursor after the last."""
    shown = "\n".join(_line_html(line) for line in lines[-ROWS:])
    return f'<pre>{shown}<span class="cursor"> </span></pre>'


def _line_html(line: str) -> str:
    parts = _COLOUR.split(line)
    codes: list[str] = []
    made = [html.escape(parts[0])]
    for code, text in zip(parts[1::2], parts[2::2], strict=True):
        codes = [*codes, *code.split(";")] if code not in ("", "0") else []
        classes = " ".join(f"s{each}" for each in codes)
        shown = html.escape(text)
        made.append(f'<span class="{classes}">{shown}</span>' if codes and text else shown)
    return "".join(made)


@contextlib.contextmanager
def running_demo(folder: Path) -> Iterator[tuple[list[tuple[float, str]], str]]:
    """Run `webtraj demo` in a terminal; yield its output with times, and the viewer's address."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    unwanted = {"DISPLAY", "WAYLAND_DISPLAY", "COLORTERM", "NO_COLOR"}
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    process = subprocess.Popen(
        [sys.executable, "-m", "webtraj", "demo"],
        cwd=folder, stdin=its, stdout=its, stderr=its, close_fds=True,
        env={**kept, "TERM": "xterm", "COLUMNS": str(COLUMNS)},
    )  # fmt: skip
    os.close(its)
    prints: list[tuple[float, str]] = []
    told = b""
    try:
        while not (address := _ADDRESS.search(told.decode(errors="ignore"))):
            got = os.read(ours, 65536)
            told += got
            prints.append((time.monotonic(), got.decode(errors="replace")))
        yield prints, address[0]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
        os.close(ours)


class Stage:
    """Draws windows on a page of the browser."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.frames: list[Frame] = []

    async def draw(
        self, title: str, inside: str, over: str = "", *, dark: bool = False
    ) -> Image.Image:
        """Return a window's picture."""
        await self._page.set_content(
            f'{STAGE}<div class="window {"dark" if dark else ""}"><div class="bar"><i></i><i></i>'
            f"<i></i><span>{html.escape(title)}</span></div>"
            f'<div class="inside">{inside}</div>{over}</div>'
        )
        with Image.open(io.BytesIO(await self._page.screenshot())) as taken:
            return taken.convert("RGB")

    async def terminal(self, lines: Sequence[str], milliseconds: int) -> None:
        """Add a frame of the terminal."""
        picture = await self.draw("~/projects", terminal_html(lines), dark=True)
        self.frames.append(Frame(picture, milliseconds))

    async def viewer(self, page: Page, milliseconds: int, over: str = "") -> None:
        """Add a frame of the viewer as it is."""
        taken = base64.b64encode(await page.screenshot()).decode()
        address = page.url.removeprefix("http://")
        inside = f'<img src="data:image/png;base64,{taken}" width="{WIDTH}" height="{HEIGHT}">'
        picture = await self.draw(address[:90], inside, over)
        self.frames.append(Frame(picture, milliseconds))


async def show_terminal(stage: Stage, prints: Sequence[tuple[float, str]]) -> None:
    """Add the frames of three commands and what the last one prints."""
    screen = Screen()
    for number, command in enumerate(COMMANDS):
        screen.feed(PROMPT)
        await stage.terminal(screen.lines, 700)
        for text, milliseconds in typing(command):
            await stage.terminal([*screen.lines[:-1], PROMPT + text], milliseconds)
        screen.feed(f"{command}\n")
        await stage.terminal(screen.lines, 1000 if number < len(COMMANDS) - 1 else 500)
    shown: list[str] = []
    for piece in pieces(prints, 0.9):
        screen.feed(piece)
        if screen.lines != shown:
            shown = list(screen.lines)
            await stage.terminal(shown, 260)
    await stage.terminal(screen.lines, 2600)


async def show_viewer(stage: Stage, page: Page, address: str) -> None:
    """Add the frames of the list, of opening an episode, and of its steps."""
    await page.goto(address)
    row = page.locator(".body .row", has_text=TASK).filter(has_text="success").first
    await row.wait_for()
    await page.wait_for_load_state("networkidle")
    await stage.viewer(page, 1800)
    box = await row.bounding_box()
    assert box is not None
    end = (box["x"] + 250, box["y"] + box["height"] / 2)
    start = (760.0, 560.0)
    for part in (0.0, 0.25, 0.55, 0.8, 0.95, 1.0):
        x, y = (a + (b - a) * part for a, b in zip(start, end, strict=True))
        await page.mouse.move(x, y)
        await stage.viewer(page, 700 if part == 1 else 90, POINTER.format(x=x, y=y + 36))
    await row.click(position={"x": 250, "y": box["height"] / 2})
    steps = page.locator(".step")
    await steps.first.wait_for()
    await page.mouse.move(0, 0)
    await _settled(page)
    await stage.viewer(page, 2200)
    for _ in range(await steps.count() - 1):
        await page.keyboard.press("ArrowDown")
        await _settled(page)
        await stage.viewer(page, 350, '<div class="key">↓</div>')
        await stage.viewer(page, 1500)
    await page.keyboard.press("b")
    await _settled(page)
    await stage.viewer(page, 350, '<div class="key">b</div>')
    await stage.viewer(page, 3200)


async def _settled(page: Page) -> None:
    await page.wait_for_load_state("networkidle")
    await page.evaluate("() => Promise.all([...document.images].map(image => image.decode()))")
    await page.wait_for_timeout(150)  # A frame or two of the page's own.


def faded(first: Image.Image, last: Image.Image) -> list[Frame]:
    """Return the frames between two pictures."""
    return [Frame(Image.blend(first, last, part), 70) for part in (0.2, 0.4, 0.6, 0.8)]


def write(frames: Sequence[Frame], file: Path) -> None:
    """Write an animated picture."""
    first, *rest = [frame.picture for frame in frames]
    first.save(
        file,
        save_all=True,
        append_images=rest,
        duration=[frame.milliseconds for frame in frames],
        loop=0,
        quality=82,
        method=4,
        allow_mixed=True,
        minimize_size=True,
    )


async def make(file: Path) -> list[Frame]:
    """Run the demo, and write the picture."""
    with tempfile.TemporaryDirectory() as folder, running_demo(Path(folder)) as (prints, address):
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=find_browser().path)
            shown = await browser.new_page(
                viewport={"width": WIDTH, "height": HEIGHT},
                color_scheme="light",
                reduced_motion="reduce",
            )
            drawn = await browser.new_page(viewport={"width": WIDTH + 64, "height": HEIGHT + 100})
            terminal, viewer = Stage(drawn), Stage(drawn)
            await show_terminal(terminal, prints)
            await show_viewer(viewer, shown, address)
            await browser.close()
    between = faded(terminal.frames[-1].picture, viewer.frames[0].picture)
    frames = [*terminal.frames, *between, *viewer.frames]
    write(frames, file)
    return frames


def main() -> None:
    """Make the picture and say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=FILE)
    file = parser.parse_args().file
    frames = asyncio.run(make(file))
    seconds = sum(frame.milliseconds for frame in frames) / 1000
    size = file.stat().st_size
    print(f"{file.name}: {len(frames)} frames, {seconds:.0f} s, {size:,} bytes")
    if size > LARGEST:
        sys.exit(f"{file.name} is larger than {LARGEST:,} bytes.")


if __name__ == "__main__":
    main()
