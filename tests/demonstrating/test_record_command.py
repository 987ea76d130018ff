"""`webtraj record` as a person runs it: a window on a (virtual) screen, input, and the bar."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hand import Hand
from playwright.async_api import async_playwright

import webtraj
from webtraj import Outcome
from webtraj.environments import actions as a
from webtraj.trajectory import EndReason

pytestmark = [pytest.mark.browser, pytest.mark.asyncio]


@pytest.fixture(scope="module")
def screen() -> Iterator[str]:
    """A virtual screen's DISPLAY."""
    reading, writing = os.pipe()
    with subprocess.Popen(
        ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1280x900x24", "-nolisten", "tcp"],
        pass_fds=(writing,),
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(writing)
        try:
            with os.fdopen(reading) as told:
                yield f":{told.readline().strip()}"
        finally:
            process.terminate()


class Desk:
    """A running `webtraj record`, its page and its bar, and a hand on each."""

    def __init__(self, process: subprocess.Popen[bytes], page: Any, bar: Any) -> None:
        self.process = process
        self.page = page
        self.bar_page = bar
        self.hand: Hand
        self.bar: Hand

    async def shows(self, text: str) -> None:
        """Wait until the bar shows a text."""
        async with asyncio.timeout(60):
            while text not in await self.bar.evaluate("document.body.innerText"):
                await asyncio.sleep(0.05)

    async def ended(self) -> int:
        return await asyncio.to_thread(self.process.wait, 60)


@contextlib.asynccontextmanager
async def recording(folder: Path, *arguments: str, screen: str = "") -> AsyncIterator[Desk]:
    """Run the command; without a screen, in a headless browser."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        *(sys.executable, "-m", "webtraj", "record", *arguments, "--out", str(folder)),
        *("--debugging-port", str(port), *([] if screen else ["--headless"])),
    ]
    with subprocess.Popen(
        command,
        env={**os.environ, "DISPLAY": screen},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            async with async_playwright() as playwright:
                browser = await _connected(playwright, port)
                page, bar = await _found(browser)
                desk = Desk(process, page, bar)
                desk.hand, desk.bar = await Hand.on(page), await Hand.on(bar)
                await desk.shows("Recording: 0 steps")
                yield desk
        finally:
            process.kill()


async def _connected(playwright: Any, port: int) -> Any:
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(Exception):  # It does not listen yet.
                return await playwright.chromium.connect_over_cdp(
                    f"http://127.0.0.1:{port}", no_defaults=True
                )
            await asyncio.sleep(0.1)


async def _found(browser: Any) -> tuple[Any, Any]:
    """Return the recorded page and the bar, once both are there."""
    async with asyncio.timeout(60):
        while True:
            pages = [page for context in browser.contexts for page in context.pages]
            bars, others = [], []
            for page in pages:
                with contextlib.suppress(Exception):  # It is on its way.
                    title = await page.title()
                    (bars if title == "webtraj record" else others).append(page)
            found = [page for page in others if page.url.startswith("http")]
            if bars and found:
                return found[0], bars[0]
            await asyncio.sleep(0.1)


def only_episode(folder: Path) -> Any:
    (episode,) = webtraj.open_dataset(folder)
    return episode


async def test_a_task_is_demonstrated_in_a_window(screen: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    async with recording(out, "--preset", "miniwob/enter-text", "--seed", "3", screen=screen) as it:
        goal = await it.bar.evaluate("document.querySelector('#goal').textContent")
        await it.hand.click("#tt")
        await it.hand.type(goal.split('"')[1])
        await it.hand.click("#subbtn")
        assert await it.ended() == 0
        assert it.process.stdout is not None
        assert b"2 steps, success, reward 1" in it.process.stdout.read()
    episode = only_episode(out)
    assert [type(step.action) for step in episode.steps[1:]] == [a.Fill, a.Click]
    assert (episode.total_reward, episode.outcome) == (1.0, Outcome.SUCCESS)
    assert episode.steps[0].observation["screenshot"].startswith(b"\xff\xd8")  # A JPEG.


async def test_the_bar_undoes_pauses_and_labels(site: str, tmp_path: Path, screen: str) -> None:
    out = tmp_path / "out"
    async with recording(out, site, "--goal", "Say thanks", screen=screen) as it:
        await it.hand.click("button:nth-of-type(2)")
        await it.shows("Recording: 1 step\n")
        await it.bar.click("#undo")
        await it.shows("Left out: click(")
        await it.bar.click("#pause")
        await it.shows("Paused: 0 steps")
        await it.hand.click("h1")
        await it.bar.click("#pause")
        await it.shows("Recording: 0 steps")
        await it.hand.click("button")
        await it.shows("Recording: 1 step\n")
        await it.bar.click("#answer")
        await it.bar.type("Thanks")
        await it.bar.click("#success")
        assert await it.ended() == 0
    episode = only_episode(out)
    click, answer = (step.action for step in episode.steps[1:])
    assert episode.steps[1].observation["last_action"]["name"] == "Say thanks"
    assert (click.count, answer) == (1, a.Answer("Thanks"))
    assert (episode.total_reward, episode.outcome) == (1.0, Outcome.SUCCESS)
    assert (episode.info.goal, episode.end.reason) == ("Say thanks", EndReason.TERMINATED)


@pytest.mark.gate
async def test_a_page_reaches_no_bar(site: str, tmp_path: Path) -> None:
    async with recording(tmp_path / "out", f"{site}/hostile") as it:
        contexts = [
            (await hand.send("Target.getTargetInfo"))["targetInfo"]["browserContextId"]
            for hand in (it.hand, it.bar)
        ]
        assert contexts[0] != contexts[1]
        # Neither by the bar's name, nor by its binding, nor as an opener.
        named = "window.open('', 'webtraj record')"
        assert not await it.hand.evaluate(f"(w => w && (w.document.title, w.close()))({named})")
        assert await it.hand.evaluate("typeof webtrajCommand") == "undefined"
        assert await it.hand.evaluate("window.opener === null && parent === window")
        assert await it.bar.evaluate("window.opener === null && frames.length === 0")
        # A click that no hand made presses no button.
        await it.bar.evaluate("document.querySelector('#stop').click()")
        await it.hand.click("#real")
        await it.shows("button 'Real'")
        await it.bar.click("#stop")
        assert await it.ended() == 0
    assert only_episode(tmp_path / "out").end.reason is EndReason.CLOSED


@pytest.mark.gate
async def test_a_password_is_in_no_file(site: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    async with recording(out, f"{site}/form", "--redact", "card=[name=c]") as it:
        await it.hand.click("[name=p]")
        await it.hand.type("hunter2-secret")
        await it.hand.click("[name=c]")
        await it.hand.type("4111-2222-3333")
        await it.hand.press("Enter")
        await it.page.wait_for_url("**/done*")
        await it.shows("3 steps")
        it.process.kill()  # What is in the journal counts, too.
        await it.ended()
    found = b"".join(path.read_bytes() for path in out.rglob("*") if path.is_file())
    assert b"<secret:password>" in found
    assert b"<secret:card>" in found
    assert b"hunter2" not in found
    assert b"4111-2222" not in found


@pytest.mark.gate
async def test_a_killed_recording_is_recovered(site: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    async with recording(out, f"{site}/form") as it:
        await it.hand.click("[name=n]")
        await it.hand.type("Anna")
        await it.hand.click("[name=b]")
        await it.hand.click("button")
        await it.shows("3 steps")
        it.process.send_signal(signal.SIGKILL)
        await it.ended()
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-m", "webtraj", "recover", str(out)], check=False
    )
    assert done.returncode == 0
    episode = only_episode(out)
    assert [type(step.action) for step in episode.steps[1:]] == [a.Fill, a.Check]
    assert episode.end.reason is EndReason.CRASHED
    assert isinstance(episode.end.in_flight_action, a.Click)


async def test_ctrl_c_stops_as_the_bar_does(site: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    async with recording(out, site, "--episodes", "3") as it:
        await it.hand.click("button")
        await it.shows("1 step")
        it.process.send_signal(signal.SIGINT)
        assert await it.ended() == 0
        assert it.process.stdout is not None
        assert b"1 step, unknown, reward 0" in it.process.stdout.read()
    episode = only_episode(out)
    assert [type(step.action) for step in episode.steps[1:]] == [a.Click]
    assert episode.end.reason is EndReason.CLOSED


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "Give one of: a URL, --preset, or --attach."),
        (["https://example.com", "--preset", "web"], "Give one of: a URL, --preset, or --attach."),
        (["--preset", "miniwob/all"], "has several tasks"),
        (["--preset", "miniwob/enter-text", "--goal", "x"], "has a goal and a name of its own"),
        (["example.com"], "is not a URL that a task can start at"),
    ],
)
async def test_wrong_input_is_told(arguments: list[str], told: str, tmp_path: Path) -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "webtraj", "record", *arguments, "--headless", "--out", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert told in done.stderr
