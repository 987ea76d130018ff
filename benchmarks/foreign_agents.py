"""Measure how often steps of other projects' agents are joined with the right model calls.

Each agent fills in the same form in a browser that it did not start, unchanged but for the model's
address in its environment. A fake model decides what it does, so which reply led to which step is
known. The table counts the steps that were joined by the reply's content, by order, those that were
kept without a call, and those with the wrong one.

    .venv/bin/python benchmarks/foreign_agents.py

LangChain and browser-use run in the environment .venv-agents (`sh scripts/environment.sh agents`),
Stagehand in .venv-stagehand and with the full Chromium, as it brings an extension.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from webtraj import JsonTrajectoryCollector, open_dataset
from webtraj.demonstrating import attached
from webtraj.environments import actions as a
from webtraj.environments.local_server import HttpServer, Request, Response
from webtraj.gateway import Gateway, Joiner, read_calls
from webtraj.testing.model_server import FakeModelServer, ModelRequest, Reply

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "demonstrating"))

from hand import running_browser  # noqa: E402 (it lives with the tests)

PLAYERS = Path(__file__).with_name("foreign_players.py")
PYTHONS = {
    "openai, chat completions": sys.executable,
    "openai, Responses": sys.executable,
    "anthropic": sys.executable,
    "LangChain": str(ROOT / ".venv-agents/bin/python"),
    "browser-use": str(ROOT / ".venv-agents/bin/python"),
    "Stagehand": str(ROOT / ".venv-stagehand/bin/python"),
}
EXTENSIONS = ("--enable-unsafe-extension-debugging", "--remote-allow-origins=*")
"""Chromium's flags for a program whose extension controls the browser."""
PAGE = b"""<!doctype html><title>Form</title><form action=/sent>
<label>Name <input name=name id=name></label> <label>City <input name=city id=city></label>
<button>Send</button></form>"""
FORM = "/form"


def serve(request: Request) -> Response:
    """Answer with the form, or say that it was sent."""
    return Response(body=PAGE if request.path == FORM else b"<title>Sent</title><p>It is sent.")


def scripted(url: str) -> list[tuple[list[str], Reply]]:
    """Return the replies of a model with tools, each with the steps that it leads to."""

    def call(name: str, **arguments: str) -> dict[str, Any]:
        return {"name": name, "arguments": arguments}

    fills = [call("fill", field="name", text="Anna"), call("fill", field="city", text="Bern")]
    return [
        ([url], Reply(calls=[call("goto", url=url)])),
        (["Anna", "Bern"], Reply(calls=fills)),
        ([], Reply(calls=[call("look")])),
        (["click"], Reply(calls=[call("click", button="Send")])),
        ([], Reply("It is sent.")),
    ]


class Model:
    """The rule of a fake model, which remembers the steps that each reply leads to."""

    def __init__(self, name: str, url: str) -> None:
        self.led: list[list[str]] = []
        script = scripted(url)
        self._next: Callable[[str], tuple[list[str], Reply | str]] = {
            "browser-use": _for_browser_use,
            "Stagehand": _for_stagehand,
        }.get(name, lambda text: script[len(self.led)])

    def __call__(self, request: ModelRequest) -> Reply | str:
        """Return the next reply."""
        steps, reply = self._next(request.text)
        self.led.append(steps)
        return reply


def _for_browser_use(text: str) -> tuple[list[str], str]:
    def index(element: str) -> int:
        found = re.search(rf"\[(\d+)\]<{element}", text)
        assert found is not None, element
        return int(found[1])

    steps: list[str] = []
    if "Clicked button" in text:
        actions: list[Any] = [{"done": {"text": "It is sent.", "success": True}}]
    elif "Typed" in text:
        steps, actions = ["click"], [{"click": {"index": index("button")}}]
    else:
        steps = ["Anna", "Bern"]
        actions = [
            {"input": {"index": index(f"input[^>]*id={field}"), "text": value}}
            for field, value in (("name", "Anna"), ("city", "Bern"))
        ]
    empty = {"evaluation_previous_goal": "", "memory": "", "next_goal": ""}
    return steps, json.dumps({**empty, "action": actions})


def _for_stagehand(text: str) -> tuple[list[str], str]:
    """Return the one action of an instruction, such as "type Anna as the Name"."""
    wanted = re.search(r"the following action: (.*?)\.  ", text)
    assert wanted is not None
    verb, value, *_, label = wanted[1].split()
    role = "textbox" if verb == "type" else "button"
    tree = text.partition("Accessibility Tree:")[2]
    element = re.search(rf"\[(\d+-\d+)\] {role}: {label}", tree)
    assert element is not None, tree
    action = {
        "elementId": element[1],
        "description": role,
        "method": "fill" if verb == "type" else "click",
        "arguments": [value] if verb == "type" else [],
    }
    steps = [value if verb == "type" else "click"]
    return steps, json.dumps({"action": action, "twoStep": False})


async def measure(name: str, python: str, folder: Path) -> list[Any]:
    """Return an agent's row of the table."""
    journal = folder / "calls.jsonl"
    joiner = Joiner()
    async with (
        HttpServer(serve) as site,
        _browser_for(name, folder) as browser,
        JsonTrajectoryCollector(folder / "d") as collector,
    ):
        url = site.origin + FORM
        model = Model(name, url)
        with FakeModelServer(model) as server:
            async with (
                Gateway(journal, base_urls=server.url, observer=joiner.observe) as gateway,
                attached(browser, collector, policy=name, decisions=joiner),
            ):
                addresses = {
                    "OPENAI_BASE_URL": gateway.openai_url(),
                    "OPENAI_API_KEY": "sk-test-1234567890",
                    "ANTHROPIC_BASE_URL": gateway.anthropic_url(),
                    "ANTHROPIC_API_KEY": "sk-ant-1234567890",
                    "ANONYMIZED_TELEMETRY": "false",
                }
                player = await asyncio.create_subprocess_exec(
                    *(python, str(PLAYERS), name, browser, url),
                    env={**os.environ, **addresses},
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.STDOUT,
                )
                output, _ = await player.communicate()
                if player.returncode:
                    raise RuntimeError(f"{name} failed:\n{output.decode()[-2000:]}")
    (episode,) = open_dataset(folder / "d")
    ids = [call.id for call in read_calls(journal)]
    causes = {step: ids[number] for number, steps in enumerate(model.led) for step in steps}
    steps = episode.steps[1:]
    counts = {"content": 0, "order": 0, "kept": 0, "wrong": 0}
    for step in steps:
        told = step.decision.metadata["models"]
        joined = told["calls"][-1] if told.get("calls") else told.get("of")
        kind = told["by"] if joined else "kept"
        counts["wrong" if joined and joined != causes.get(_named(step.action)) else kind] += 1
    return [name, len(ids), len(steps), *counts.values()]


def _browser_for(name: str, folder: Path) -> contextlib.AbstractAsyncContextManager[str]:
    if name != "Stagehand":
        return running_browser(folder)
    return running_browser(folder, *EXTENSIONS, path=shutil.which("chromium"))


def _named(action: object) -> str:
    match action:
        case a.Goto(url=url):
            return url
        case a.Fill(value=text) | a.TypeInto(text=text):
            return text
        case a.Click():
            return "click"
    return repr(action)


async def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("agents", nargs="*", help="By default all.")
    arguments = parser.parse_args()
    print("| agent | calls | steps | joined by content | by order | kept without a call | wrong |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.agents or PYTHONS:
            if not shutil.which(PYTHONS[name]):
                print(f"Skipped {name}: {PYTHONS[name]} does not exist.")
                continue
            row = await measure(name, PYTHONS[name], Path(tempfile.mkdtemp(dir=folder)))
            print(f"| {' | '.join(map(str, row))} |", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
