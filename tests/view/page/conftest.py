"""A browser that looks at datasets through the viewer's own server.

* `look(url, path)` opens a place of the viewer. When the test ends, nothing may have gone wrong in
  any page it opened: no error in the console, no dialog, no request to anyone but the server.
* `serve(*folders)` serves datasets and returns the URL.
* `miniwob_iterations`: two datasets of real MiniWoB++ episodes, recorded once for all processes.
* `written_episodes(folder, n, first=0, **info)` writes n small episodes of all outcomes.
"""

import asyncio
import contextlib
import fcntl
import importlib.util
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright, expect

from webtraj.datasets.writer import DatasetWriter
from webtraj.environments.browser.processes import find_browser
from webtraj.trajectory import (
    Decision,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    ErrorInfo,
    ModelCall,
    Outcome,
    StepRecord,
    StepType,
)
from webtraj.view.app import serving
from webtraj.view.viewer import Viewer

collect_ignore_glob = ["*conftest.py"]

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "viewer_images.py"
TASKS = ("click-checkboxes",)

PATIENCE = 60_000
"""Milliseconds to wait for what is to come, on the busiest machine."""

Look = Callable[..., Awaitable[Page]]
Serve = Callable[..., Awaitable[str]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium() -> AsyncIterator[Browser]:
    expect.set_options(timeout=PATIENCE)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_browser().path)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="module")
async def look(chromium: Browser) -> AsyncIterator[Look]:
    wrong: list[str] = []
    contexts = []

    async def open_page(url: str, path: str = "", *, forgive: str = "", **options: Any) -> Page:
        options.setdefault("viewport", {"width": 1280, "height": 800})
        context = await chromium.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        page = await context.new_page()

        def complain(what: str) -> None:
            if not forgive or forgive not in what:
                wrong.append(what)

        async def on_dialog(dialog: Any) -> None:
            complain(f"dialog: {dialog.message}")
            await dialog.dismiss()

        page.on("pageerror", lambda error: complain(f"error: {error}"))
        page.on(
            "console",
            lambda message: (
                message.type in ("error", "warning") and complain(f"console: {message.text}")
            ),
        )
        page.on("dialog", on_dialog)
        page.on("popup", lambda popup: complain(f"popup: {popup.url}"))
        page.on("download", lambda download: complain(f"download: {download.url}"))
        page.on(
            "request",
            lambda request: (
                request.url.startswith((url.partition("?")[0], "data:"))
                or complain(f"request: {request.url}")
            ),
        )
        await page.goto(url + path)
        return page

    yield open_page
    for context in contexts:
        await context.close()
    assert wrong == []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def serve() -> AsyncIterator[Serve]:
    async with contextlib.AsyncExitStack() as stack:

        async def start(*folders: Path) -> str:
            viewer = stack.enter_context(Viewer([str(folder) for folder in folders]))
            return await stack.enter_async_context(serving(viewer))

        yield start


@pytest.fixture(scope="session")
def miniwob_iterations(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # That of all workers.
    done = root / "viewer-recorded.json"
    with (root / "viewer-recorded.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            spec = importlib.util.spec_from_file_location("viewer_images", SCRIPT)
            assert spec is not None
            assert spec.loader is not None
            script = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(script)
            recorded = script.record(root / "viewer-recorded", tasks=TASKS, episodes=2)
            with asyncio.Runner() as runner:
                done.write_text(json.dumps([str(path) for path in runner.run(recorded)]))
    first, second = json.loads(done.read_text())
    return Path(first), Path(second)


def episode(number: int, **info: Any) -> EpisodeTrajectory:
    """Returns a small episode; its number decides what became of it."""
    outcome = tuple(Outcome)[number % len(Outcome)]
    error = None
    if outcome is Outcome.ENV_ERROR:
        error = ErrorInfo(type="BrowserError", message="It died.", traceback="Traceback: line 1")
    call = ModelCall(
        model="m",
        policy_version=f"v{number % 3}",
        messages=({"role": "user", "content": f"Question {number}"},),
        text="Thought: yes.\nAction: click('1')",
        completion_token_ids=(11, 12, 13),
        logprobs=(-0.001, -0.9, -4.0),
        response={
            "choices": [
                {
                    "logprobs": {
                        "content": [
                            {
                                "token": token,
                                "logprob": logprob,
                                "top_logprobs": [{"token": "Other", "logprob": -2.0}],
                            }
                            for token, logprob in (("Thou", -0.001), ("ght", -0.9), ("!", -4.0))
                        ]
                    }
                }
            ]
        },
    )
    tree = '[1] button "Go"\n[2] text "Hello"'
    after = '[1] button "Go"\n[2] text "Bye"\n[3] link "New"'
    steps = (
        StepRecord(0, StepType.FIRST, {"url": "http://a.test/", "axtree": tree}, start_time=1.0),
        StepRecord(
            1,
            StepType.LAST,
            {"url": "http://a.test/b", "axtree": after, "last_action": {"error": "It was covered."}}
            if outcome is Outcome.FAILURE
            else {"url": "http://a.test/b", "axtree": after},
            "click('1')",
            float(outcome is Outcome.SUCCESS),
            0.0,
            decision=Decision(action="click('1')", thought="I press it.", model_calls=(call,)),
        ),
    )
    fields = {
        "episode_id": f"e{number:04d}",
        "task": f"shop/task-{number % 4}",
        "goal": f"Do the thing number {number}.",
        "site": "shop.test",
        "policy": f"policy-{number % 2}",
    }
    return EpisodeTrajectory(
        EpisodeInfo(**{**fields, **info}),
        steps,
        EpisodeEnd(reason=EndReason.TERMINATED, outcome=outcome, error=error),
        start_time=1_700_000_000.0 + number,
        end_time=1_700_000_002.0 + number,
    )


@pytest.fixture
def written_episodes() -> Callable[..., Path]:
    def write(folder: Path, count: int, *, first: int = 0, **info: Any) -> Path:
        with DatasetWriter(folder) as writer:
            for number in range(first, first + count):
                writer.add(episode(number, **info))
        return folder

    return write
