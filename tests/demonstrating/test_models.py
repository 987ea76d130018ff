"""Agents that are led to a gateway: their calls and what they do in a browser are one episode."""

import asyncio
import json
import re
import signal
import sys
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from hand import running_browser
from playwright.async_api import Page, async_playwright

from webtraj import JsonTrajectoryCollector, Outcome, open_dataset
from webtraj.demonstrating import attached
from webtraj.environments import actions as a
from webtraj.gateway import Gateway, Joiner, read_calls
from webtraj.testing.model_server import FakeModelServer, Reply
from webtraj.training.export import export_selection, read_export
from webtraj.training.replay import ReplayBuffer
from whole import whole

pytestmark = pytest.mark.browser

SECRET = "hunter2-secret"


async def do(page: Page, commands: list[dict[str, Any]]) -> str:
    """Do what a model asked for; return the answer, if it gave one."""
    for command in commands:
        match command:
            case {"url": url}:
                await page.goto(url)
            case {"into": field, "text": text}:
                await page.fill(f"[name={field}]", text)
            case {"into": field, "letters": text}:
                await page.locator(f"[name={field}]").press_sequentially(text)
            case {"into": field, "key": key}:
                await page.locator(f"[name={field}]").press(key)
            case {"press": button}:
                await page.click(f"text={button}")
            case {"answer": answer}:
                return str(answer)
    return ""


async def play_openai(page: Page, goal: str) -> str:
    """An agent on OpenAI's client, with streams, whose model replies with JSON."""
    messages: list[Any] = [{"role": "user", "content": goal}]
    async with openai.AsyncOpenAI() as client:
        while True:
            asked = {"model": "fake-model", "messages": messages, "max_tokens": 400}
            async with client.chat.completions.stream(**asked) as stream:
                said = (await stream.get_final_completion()).choices[0].message.content or ""
            if answer := await do(page, json.loads(said)):
                return answer
            messages.append({"role": "assistant", "content": said})
            messages.append({"role": "user", "content": f"At {page.url}."})


async def play_anthropic(page: Page, goal: str) -> str:
    """An agent on Anthropic's client, whose model calls a tool."""
    messages: list[Any] = [{"role": "user", "content": goal}]
    tool: Any = {"name": "act", "description": "", "input_schema": {"type": "object"}}
    async with anthropic.AsyncAnthropic() as client:
        while True:
            asked = {"model": "fake-model", "messages": messages, "max_tokens": 400}
            reply = await client.messages.create(**asked, tools=[tool])
            used: list[Any] = [block for block in reply.content if block.type == "tool_use"]
            if not used:
                return "".join(block.text for block in reply.content if block.type == "text")
            await do(page, [block.input for block in used])
            results = [
                {"type": "tool_result", "tool_use_id": block.id, "content": page.url}
                for block in used
            ]
            messages.append({"role": "assistant", "content": reply.content})
            messages.append({"role": "user", "content": results})


async def test_calls_are_recorded_with_the_steps_that_they_led_to(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[list[dict[str, str]]] = [
        [{"url": f"{site}/form"}],
        [{"into": "n", "text": "Anna"}, {"into": "p", "letters": SECRET}],
        [{"look": "around"}],
        [{"press": "Send"}],
    ]
    texts = [json.dumps(turn) for turn in (*turns, [{"answer": "It is sent."}])]
    turns[1][1] = {"into": "c", "text": "4711"}
    calls = [Reply(calls=[{"name": "act", "arguments": one} for one in turn]) for turn in turns]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-1234567890")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-1234567890")
    async with (
        JsonTrajectoryCollector(tmp_path / "agents") as collector,
        running_browser(tmp_path) as endpoint,
        async_playwright() as playwright,
    ):
        browser = await playwright.chromium.connect_over_cdp(endpoint)
        page = browser.contexts[0].pages[0]
        for play, replies in (
            (play_openai, texts),
            (play_anthropic, [*calls, Reply("It is sent.")]),
        ):
            await page.goto("about:blank")
            joiner = Joiner()
            journal = tmp_path / f"{play.__name__}.jsonl"
            with FakeModelServer(replies) as server:
                gateway = Gateway(journal, base_urls=server.url, observer=joiner.observe)
                async with (
                    gateway,
                    attached(
                        endpoint, collector, policy=play.__name__, decisions=joiner
                    ) as recorder,
                ):
                    monkeypatch.setenv("OPENAI_BASE_URL", gateway.openai_url())
                    monkeypatch.setenv("ANTHROPIC_BASE_URL", gateway.anthropic_url())
                    recorder.stop(Outcome.SUCCESS, answer=await play(page, "Send the form."))
            assert not server.errors
            assert len(read_calls(journal)) == 5
            assert journal.stat().st_mode & 0o077 == 0
    for episode in open_dataset(tmp_path / "agents"):
        decisions = [step.decision for step in episode.steps[1:]]
        told = [decision.metadata["models"] for decision in decisions]
        kinds = [type(step.action) for step in episode.steps[1:]]
        assert kinds == [a.Goto, a.Fill, a.Fill, a.Click, a.Answer]
        assert [len(decision.model_calls) for decision in decisions] == [1, 1, 0, 2, 1]
        assert [one["by"] for one in told] == ["content"] * 5
        assert told[2]["of"] == told[1]["calls"][0]
        assert not told[-1]["unjoined"]
        assert SECRET not in whole(episode)
        assert "sk-" not in whole(episode)
    buffer = ReplayBuffer.from_datasets([tmp_path / "agents"])
    # Only OpenAI's format has tool calls; token ids that spell the password are not kept.
    for form, rows in (("openai", 8), ("sharegpt", 4), ("tokens", 1)):
        export_selection(buffer.all, tmp_path / form, format=form)
        assert len(list(read_export(tmp_path / form))) == rows, form


async def test_a_password_that_an_agent_types_key_by_key_is_in_no_call(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = "vqx7zj"
    turns: list[dict[str, str]] = [
        {"url": f"{site}/form"},
        {"into": "n", "text": "Anna"},
        *({"into": "p", "key": key} for key in keys),
        {"press": "Send"},
        {"answer": "It is sent."},
    ]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-1234567890")
    joiner = Joiner()
    async with (
        JsonTrajectoryCollector(tmp_path / "agents") as collector,
        running_browser(tmp_path) as endpoint,
        async_playwright() as playwright,
    ):
        browser = await playwright.chromium.connect_over_cdp(endpoint)
        page = browser.contexts[0].pages[0]
        with FakeModelServer([json.dumps([turn]) for turn in turns]) as server:
            gateway = Gateway(
                tmp_path / "calls.jsonl", base_urls=server.url, observer=joiner.observe
            )
            async with gateway, attached(endpoint, collector, decisions=joiner) as recorder:
                monkeypatch.setenv("OPENAI_BASE_URL", gateway.openai_url())
                recorder.stop(Outcome.SUCCESS, answer=await play_openai(page, "Send the form."))
    (episode,) = open_dataset(tmp_path / "agents")
    decisions = [step.decision for step in episode.steps[1:]]
    assert [type(step.action) for step in episode.steps[1:]] == [
        a.Goto, a.Fill, a.Fill, a.Click, a.Answer
    ]  # fmt: skip
    assert [len(decision.model_calls) for decision in decisions] == [1, 1, len(keys), 1, 1]
    assert [call.text for call in decisions[2].model_calls] == ["<secret:password>"] * len(keys)
    for key in keys:
        assert f'"key": "{key}"' not in whole(episode)
    assert json.loads(decisions[3].model_calls[0].text) == [turns[-2]]


@pytest.mark.gate
async def test_one_command_records_an_agent_s_calls_and_steps(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = [{"url": f"{site}/form"}, {"into": "n", "text": "Anna"}, {"answer": "It is filled in."}]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-1234567890")
    async with running_browser(tmp_path) as endpoint, async_playwright() as playwright:
        browser = await playwright.chromium.connect_over_cdp(endpoint)
        with FakeModelServer([json.dumps([turn]) for turn in turns]) as server:
            record = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "webtraj", "record", "--attach", endpoint, "--models"),
                *("--base-url", server.url, "--journal", tmp_path / "calls.jsonl"),
                *("--out", tmp_path / "agents"),
                stdout=asyncio.subprocess.PIPE,
            )
            assert record.stdout is not None
            said = (await record.stdout.readline()).decode()  # The recording has begun.
            (address,) = re.findall(r"OPENAI_BASE_URL=(\S+)", said)
            monkeypatch.setenv("OPENAI_BASE_URL", address)
            assert await play_openai(browser.contexts[0].pages[0], "Fill it in.")
            record.send_signal(signal.SIGINT)
            assert await record.wait() == 0
    (episode,) = open_dataset(tmp_path / "agents")
    goto, fill = (step.decision for step in episode.steps[1:])
    assert [len(decision.model_calls) for decision in (goto, fill)] == [1, 1]
    (left,) = fill.metadata["models"]["unjoined"]
    assert left.text == json.dumps([turns[-1]])
