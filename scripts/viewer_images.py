"""Makes the pictures of the viewer in docs/images, from episodes that are recorded for it.

A model agent, behind a real HTTP model server whose replies follow from the page's text, plays
MiniWoB++ tasks in a real browser twice, as two iterations of a policy of which the second is
better. A model judge looks at what the second did. Then a browser takes pictures of the viewer.

The picture of iterations is of a loop that was run: with --loop, that one is made and no other.

Usage: python scripts/viewer_images.py [FOLDER] [--loop OUT], by default docs/images
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import io
import re
import tempfile
import zlib
from pathlib import Path

from PIL import Image
from playwright.async_api import Route, async_playwright

from webtraj.agents.contexts import ContextSettings
from webtraj.agents.model import ModelAgent
from webtraj.agents.models import OpenAICompatibleClient, Sampling
from webtraj.datasets.dataset import open_dataset
from webtraj.environments.browser.processes import find_browser
from webtraj.environments.miniwob import tasks
from webtraj.judging.model import JudgeSettings, ModelJudge
from webtraj.rollouts import RunSpec, collect
from webtraj.testing.model_server import FakeModelServer, ModelRequest
from webtraj.trajectory import Outcome
from webtraj.view.app import serving
from webtraj.view.viewer import Viewer

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
TASKS = (
    "click-button",
    "enter-text",
    "click-checkboxes",
    "login-user",
    "click-link",
    "click-option",
)
LARGEST = 190_000
"""Bytes of a picture."""
CHANNELS = ("title", "screenshot", "scroll", "last_action", "timings", "info")

_ELEMENT = re.compile(r'^ *\[(\w+)\] (\w+)(?: "(.*?)")?(.*)$', re.MULTILINE)
_QUOTED = re.compile(r'"([^"]+)"')


class Policy:
    """A rule for the fake model server that plays click tasks, and errs now and then.

    Args:
        errs_of_four: On how many pages in four it means to be wrong.
    """

    def __init__(self, errs_of_four: int) -> None:
        self._errs = errs_of_four

    def __call__(self, request: ModelRequest) -> str:
        """Returns the reply to a page."""
        text = "\n".join(
            part["text"]
            for at in range(len(request.messages))
            for part in request.parts(at)
            if part["type"] == "text"
        )
        goal = re.findall(r"^Task: (.*)$", text, re.MULTILINE)[0]
        page = request.text
        elements = [
            (ref, role, name, state) for ref, role, name, state in _ELEMENT.findall(page) if ref
        ]
        if _is_hard(goal, self._errs):
            ref, role, name, _ = elements[-1]
            return _reply(f"The {role} {name!r} looks right.", f"click('{ref}')")
        return _right(goal, elements)


def _right(goal: str, elements: list[tuple[str, str, str, str]]) -> str:
    fields = [e for e in elements if e[1] == "textbox"] if goal.startswith("Enter ") else []
    for (ref, _, _, state), text in zip(fields, _QUOTED.findall(goal), strict=False):
        if f'value="{text}"' not in state and "\N{BULLET}" not in state:
            return _reply(f"The field still needs {text!r}.", f"fill('{ref}', '{text}')")
    if goal.startswith("Select "):
        words = goal.removeprefix("Select ").rsplit(" and click", 1)[0].split(", ")
        for ref, _, name, state in elements:
            if name in words and " checked" not in state:
                return _reply(f"{name!r} is asked for and not ticked yet.", f"click('{ref}')")
    wanted = {*_QUOTED.findall(goal), "Submit", "Login"}
    for ref, role, name, _ in elements:
        if name in wanted and role != "textbox":
            return _reply(
                f"The task asks for the {role} {name!r}, and it is here.", f"click('{ref}')"
            )
    ref, role, _, _ = elements[0]
    return _reply("It is not here; another part of the page may have it.", f"click('{ref}')")


def _reply(thought: str, action: str) -> str:
    return f"Thought: {thought}\nAction: {action}"


def _is_hard(goal: str, of_four: int) -> bool:
    return zlib.crc32(goal.encode()) % 4 < of_four


def _verdict(request: ModelRequest, errs: int) -> str:
    """Returns a judge's reply: it sees as much as the policy did."""
    found = re.search(r"task>>>\n\| (.*)", request.text)
    if "Did the site keep the agent from its task" in request.text:
        word, reason = "open", "All pages are those of the task; none asks for anything else."
    elif found and _is_hard(found[1], errs):
        word, reason = "failure", "What was clicked last is not what the task names."
    else:
        word, reason = "success", "What was entered and clicked is what the task names, in order."
    return f'{{"reasoning": "{reason}", "verdict": "{word}"}}'


async def record(
    folder: Path, *, tasks: tuple[str, ...] = TASKS, episodes: int = 18
) -> tuple[Path, Path]:
    """Records two iterations, judges the second, and returns their datasets."""
    selectors = [f"miniwob/{task}" for task in tasks]
    for number, errs in ((1, 2), (2, 1)):
        with (
            FakeModelServer(
                Policy(errs), models=["web-policy"], weight_version=f"step-{number * 200}"
            ) as actor,
            FakeModelServer(
                functools.partial(_verdict, errs=errs), models=["judge-model"]
            ) as judges,
        ):
            client = OpenAICompatibleClient("web-policy", actor.url)
            agent = ModelAgent(
                client=client,
                dialect="webtraj",
                prompt="plain",
                context=ContextSettings(mode="text", images=True),
                sampling=Sampling(temperature=0.7, max_tokens=512),
            )
            observe = tuple(dict.fromkeys((*agent.channels, *CHANNELS)))
            model = OpenAICompatibleClient("judge-model", judges.url)
            async with client, ModelJudge(model, settings=JudgeSettings()) as judge:
                await collect(
                    RunSpec(
                        preset=selectors,
                        episodes=episodes,
                        parallel=2,
                        seed=7,
                        max_steps=8,
                        out=folder / f"iteration-{number}",
                        environment_options={"observe": observe},
                        judge_when="always" if number == 2 else "unknown",
                    ),
                    agent=agent,
                    judge=judge if number == 2 else None,
                )
    return folder / "iteration-1", folder / "iteration-2"


async def take(folders: tuple[Path, ...], images: Path) -> None:
    """Takes the pictures."""
    first, second = (open_dataset(folder) for folder in folders)
    lost = {s.goal: s for s in first.summaries if s.outcome is not Outcome.SUCCESS}
    won = [s for s in second.summaries if s.outcome is Outcome.SUCCESS]
    best = max(won, key=lambda summary: summary.num_steps)
    other = max((s for s in won if s.goal in lost), key=lambda summary: summary.num_steps)
    worse = lost[other.goal]
    episode = f"#/episode/iteration-2/{best.episode_id}"
    pair = f"iteration-1/{worse.episode_id}/iteration-2/{other.episode_id}"
    views = {
        "viewer-episode": (f"{episode}/step/2?page=changes", (1280, 640)),
        "viewer-compare": (f"#/compare/{pair}?align=actions", (1280, 520)),
    }
    await _picture(folders, views, images)


async def take_iterations(out: Path, images: Path) -> None:
    """Takes the picture of a loop's iterations."""
    await _picture((out,), {"viewer-iterations": ("#/iterations", (1280, 720))}, images)


async def _picture(
    folders: tuple[Path, ...], views: dict[str, tuple[str, tuple[int, int]]], images: Path
) -> None:
    """Takes pictures of places of a viewer, as large as what matters there, by their names."""
    async with contextlib.AsyncExitStack() as stack:
        viewer = stack.enter_context(Viewer([str(folder) for folder in folders]))
        url = await stack.enter_async_context(serving(viewer))
        playwright = await stack.enter_async_context(async_playwright())
        browser = await playwright.chromium.launch(executable_path=find_browser().path)
        for name, (place, (width, height)) in views.items():
            page = await browser.new_page(
                viewport={"width": width, "height": height},
                color_scheme="light",
                reduced_motion="reduce",
            )
            await page.route("**/api/episodes/**", _without_folders)
            await page.goto(url + place)
            shown = page.locator(".body .row, .step[aria-current], .pair, .plots .card")
            await shown.first.wait_for()
            await page.wait_for_load_state("networkidle")
            _write(images / f"{name}.png", await page.screenshot())
            await page.close()
        await browser.close()


async def _without_folders(route: Route) -> None:
    """Answers as the server does, without the folders of the machine that this runs on."""
    answer = await route.fetch()
    await route.fulfill(
        response=answer, body=(await answer.text()).replace(f"{tasks.html_folder().as_uri()}/", "")
    )


def _write(path: Path, png: bytes) -> None:
    """Writes a picture as it is, or of 256 colours if it is large."""
    with Image.open(io.BytesIO(png)) as taken:
        picture = taken.convert("RGB")
    picture.save(path, optimize=True)
    if path.stat().st_size > LARGEST:
        picture.quantize(256).save(path, optimize=True)


def main() -> None:
    """Records, and takes the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", nargs="?", type=Path, default=IMAGES, metavar="FOLDER")
    parser.add_argument("--loop", type=Path, metavar="OUT")
    given = parser.parse_args()
    images = given.images
    images.mkdir(parents=True, exist_ok=True)
    if given.loop is not None:
        asyncio.run(take_iterations(given.loop, images))
        return
    with tempfile.TemporaryDirectory() as temporary:
        asyncio.run(take(asyncio.run(record(Path(temporary))), images))


if __name__ == "__main__":
    main()
