"""A hand: real input through the browser's debugging protocol, as if by mouse and keyboard."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from playwright.async_api import async_playwright

import webtraj
from webtraj.agents.replay import ReplayAgent
from webtraj.environments.browser.processes import find_browser

MODIFIERS = {"Alt": 1, "Control": 2, "Meta": 4, "Shift": 8}
KEYS = {
    "Enter": {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"},
    "Tab": {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9},
    "Escape": {"key": "Escape", "code": "Escape", "windowsVirtualKeyCode": 27},
    "Backspace": {"key": "Backspace", "code": "Backspace", "windowsVirtualKeyCode": 8},
    "ArrowDown": {"key": "ArrowDown", "code": "ArrowDown", "windowsVirtualKeyCode": 40},
    "Space": {"key": " ", "code": "Space", "windowsVirtualKeyCode": 32, "text": " "},
}


class Hand:
    """Acts on one page, through a debugging session of its own."""

    def __init__(self, session: Any) -> None:
        self._session = session

    @classmethod
    async def on(cls, page: Any) -> Hand:
        return cls(await page.context.new_cdp_session(page))

    async def send(self, method: str, **options: Any) -> Any:
        return await self._session.send(method, options)

    async def evaluate(self, expression: str) -> Any:
        answer = await self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"].get("value")

    async def middle_of(self, selector: str) -> tuple[float, float]:
        """Return the middle of the first element that matches, in the top window."""
        point = await self.evaluate(
            f"(() => {{ const box = document.querySelector({selector!r}).getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        return point[0], point[1]

    async def mouse(self, kind: str, x: float, y: float, **options: Any) -> None:
        await self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **options)

    async def click(
        self, where: str | tuple[float, float], *, count: int = 1, button: str = "left"
    ) -> None:
        x, y = await self.middle_of(where) if isinstance(where, str) else where
        await self.mouse("mouseMoved", x, y)
        for number in range(1, count + 1):
            for kind in ("mousePressed", "mouseReleased"):
                await self.mouse(kind, x, y, button=button, clickCount=number)

    async def drag(self, *path: tuple[float, float]) -> None:
        await self.mouse("mouseMoved", *path[0])
        await self.mouse("mousePressed", *path[0], button="left", clickCount=1)
        for (x0, y0), (x1, y1) in itertools.pairwise(path):
            for part in (0.25, 0.5, 0.75, 1.0):
                x, y = x0 + (x1 - x0) * part, y0 + (y1 - y0) * part
                await self.mouse("mouseMoved", x, y, button="left", buttons=1)
        await self.mouse("mouseReleased", *path[-1], button="left", clickCount=1)

    async def wheel(self, where: str | tuple[float, float], dy: float) -> None:
        x, y = await self.middle_of(where) if isinstance(where, str) else where
        await self.mouse("mouseMoved", x, y)
        await self.mouse("mouseWheel", x, y, deltaX=0, deltaY=dy)

    async def type(self, text: str) -> None:
        for letter in text:
            await self.send("Input.dispatchKeyEvent", type="keyDown", text=letter, key=letter)
            await self.send("Input.dispatchKeyEvent", type="keyUp", key=letter)

    async def do(self, environment: Any, action: Any) -> None:
        """Do an agent's click or text as a hand would."""
        ready = await environment.session.prepare("point", action.ref, {})
        await self.click(tuple(ready["point"]))
        if hasattr(action, "value"):
            await self.press("a", "Control")
            await self.type(action.value)

    async def press(self, key: str, *modifiers: str) -> None:
        held = sum(MODIFIERS[name] for name in modifiers)
        known = KEYS.get(key) or _letter(key)
        await self.send("Input.dispatchKeyEvent", type="keyDown", modifiers=held, **known)
        known = {name: value for name, value in known.items() if name != "text"}
        await self.send("Input.dispatchKeyEvent", type="keyUp", modifiers=held, **known)


def _letter(key: str) -> dict[str, Any]:
    return {"key": key, "code": f"Key{key.upper()}", "windowsVirtualKeyCode": ord(key.upper())}


async def until(condition: Any, *, seconds: float = 60.0) -> Any:
    """Wait until a function returns something true; return that."""
    async with asyncio.timeout(seconds):
        while not (found := condition()):
            await asyncio.sleep(0.02)
        return found


async def replayed(episode: Any, pool: Any) -> Any:
    """The reward of an agent that does what was recorded."""
    actor_of = ReplayAgent.of([episode])
    async with webtraj.make(episode.info.task, seed=episode.info.seed, pool=pool) as environment:
        timestep = await environment.reset()
        actor = actor_of.begin_episode(environment)
        while not timestep.last():
            timestep = await environment.step(await actor.act(timestep.observation))
        return timestep.reward


@contextlib.asynccontextmanager
async def running_browser(folder: Path, *flags: str, path: str | None = None) -> AsyncIterator[str]:
    """Start a Chromium as some other program would; yield its debugging address."""
    path = path or find_browser().path
    if path is None:
        async with async_playwright() as playwright:
            path = playwright.chromium.executable_path
    with subprocess.Popen(
        [
            *(path, "--no-sandbox", "--headless", "--remote-debugging-port=0"),
            *(f"--user-data-dir={folder / 'profile'}", *flags, "about:blank"),
        ],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        told = folder / "profile" / "DevToolsActivePort"
        try:
            await until(lambda: told.exists() and "\n" in told.read_text())
            yield f"http://127.0.0.1:{told.read_text().splitlines()[0]}"
        finally:
            os.killpg(process.pid, signal.SIGKILL)
