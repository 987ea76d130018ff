"""The command `webtraj mcp`, used by the protocol's own client, and killed."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from collections import Counter

import psutil
import pytest

pytest.importorskip("mcp")

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

import other_user
import webtraj
from processes import command_of, descendants, lives
from webtraj.trajectory import EndReason, Outcome

pytestmark = pytest.mark.browser

COMMAND = ("-m", "webtraj", "mcp")
DEADLINE = 90


def parameters(*arguments):
    return StdioServerParameters(
        command=sys.executable, args=[*COMMAND, *map(str, arguments)], env=dict(os.environ)
    )


@contextlib.asynccontextmanager
async def over_stdio(*arguments, mode="auto"):
    async with Client(stdio_client(parameters(*arguments)), mode=mode) as client:
        yield client


@contextlib.asynccontextmanager
async def http_server(*arguments):
    """Run the command with --http, and yield its URL and process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *COMMAND, "--http", "--port", "0", *map(str, arguments),
        stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(DEADLINE):
            line = (await process.stdout.readline()).decode()
        yield re.search(r"http://\S+", line)[0], process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def say(client, tool, **arguments):
    """Call a tool; return the result's text, its `_meta` and whether it is an error."""
    result = await client.call_tool(tool, arguments)
    return result.content[0].text, (result.meta or {}).get("webtraj"), result.is_error


def ref(text, what):
    return re.search(rf"\[(\w+)\] {what}", text)[1]


async def solve(client, session=None):
    """Play one task by tool calls, and return its last result's `_meta`."""
    given = {} if session is None else {"session": session}
    text, meta, _ = await say(client, "open", **({} if session is None else {"seed": 5}))
    if session is not None:
        given = {"session": meta["session"]}
    goal = meta["goal"]
    if meta["task"] == "enter-text":
        (word,) = re.findall(r'"(.+?)"', goal)
        await say(client, "type", ref=ref(text, "textbox"), text=word, **given)
    elif meta["task"] == "click-checkboxes":
        wanted = re.search("Select (.+) and click", goal)[1].split(", ")
        for name in wanted if wanted != ["nothing"] else []:
            await say(client, "click", ref=ref(text, f'checkbox "{re.escape(name)}"'), **given)
    _, meta, error = await say(client, "click", ref=ref(text, "button"), **given)
    assert not error
    return meta


def server_of(process):
    """Return the `webtraj mcp` below a process, or None."""
    found = descendants(process.pid, word="mcp")
    return next((one for one in found if "webtraj" in command_of(one)), None)


async def gone(processes):
    async with asyncio.timeout(DEADLINE):
        while any(map(lives, processes)):
            await asyncio.sleep(0.05)


async def test_tasks_are_played_over_stdio(tmp_path):
    tasks = ["miniwob/click-test", "miniwob/enter-text", "miniwob/click-checkboxes"]
    presets = [word for task in tasks for word in ("--preset", task)]
    async with over_stdio(*presets, "--out", tmp_path / "out") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert "session" not in tools["click"].input_schema["required"]
        assert tools["snapshot"].annotations.read_only_hint
        assert "upload" not in tools
        solved = [await solve(client) for _ in tasks]
        _, _, error = await say(client, "clack")
        assert error
    assert [meta["task"] for meta in solved] == [task.split("/")[1] for task in tasks]
    assert [meta["total_reward"] for meta in solved] == [1.0] * 3
    ends = Counter(one.end.outcome for one in webtraj.open_dataset(tmp_path / "out"))
    assert ends == Counter({Outcome.SUCCESS: 3})


async def test_two_clients_over_http_one_of_each_protocol(tmp_path):
    import httpx

    out = tmp_path / "out"
    async with http_server("--preset", "miniwob/enter-text", "--out", out) as (url, process):
        async with Client(url, mode="legacy") as old, Client(url) as new:
            assert old.protocol_version < new.protocol_version
            solved = await asyncio.gather(solve(old, ""), solve(new, ""))
            assert [meta["total_reward"] for meta in solved] == [1.0, 1.0]
            text, _, error = await say(new, "snapshot")
            assert error
            assert "Call `open`" in text
            text, _, error = await say(new, "snapshot", session="x")
            assert (error, "Session 'x' is unknown" in text) == (True, True)
            _, left, _ = await say(old, "open")
            _, kept, _ = await say(new, "open")
            async with httpx.AsyncClient() as stranger:  # Clients of today have no HTTP session.
                refused = await stranger.delete(url, headers={"mcp-session-id": ""})
                assert refused.status_code == 404
        # The old client has ended its HTTP session, and with it its browser's.
        async with Client(url) as other:
            text, _, _ = await say(other, "snapshot", session=left["session"])
            assert "has ended: its client left" in text
            text, _, error = await say(other, "snapshot", session=kept["session"])
            assert not error
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(DEADLINE):
            assert await process.wait() == 128 + signal.SIGTERM
    ends = Counter(one.end.reason for one in webtraj.open_dataset(out))
    assert ends == Counter({EndReason.TERMINATED: 2, EndReason.CLOSED: 2})


async def test_a_web_page_cannot_use_the_server(tmp_path):
    import httpx

    async with (
        http_server("--preset", "miniwob/click-test") as (url, _),
        httpx.AsyncClient() as web,
    ):
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        headers = {"accept": "application/json, text/event-stream"}
        for extra in (
            {"origin": "https://evil.example"},
            {"origin": url.removesuffix("/mcp")},
            {"origin": "http://localhost:1"},
            {"host": "evil.example"},
        ):
            answer = await web.post(url, json=asked, headers={**headers, **extra})
            assert answer.status_code in (403, 421)


@other_user.needs_root
async def test_another_user_of_the_machine_cannot_use_the_server():
    async with http_server("--preset", "miniwob/click-test") as (url, _):
        lines = ("POST /mcp", "GET /mcp", "DELETE /mcp", "GET /", "WS /mcp")
        found = await asyncio.to_thread(other_user.statuses, url, *lines)
        assert found == [401, 401, 401, 401, 403]
        (own,) = await asyncio.to_thread(other_user.statuses, url, "POST /mcp", user=0)
        assert own not in (0, 401, 403)


START = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "half", "version": "1"},
    },
}  # fmt: skip
HEADERS = {"accept": "application/json, text/event-stream"}
DONE = {"jsonrpc": "2.0", "method": "notifications/initialized"}


async def test_clients_that_never_finish_their_start_are_forgotten(monkeypatch):
    import httpx

    from webtraj_integrations import mcp as mcp_lib

    ended = []

    class Tools(mcp_lib.BrowserTools):
        async def close_connection(self, connection):
            ended.append(connection)

    tools = Tools(None, shared=True, session_timeout=None)
    async with mcp_lib.serving_http(tools, port=0) as url, httpx.AsyncClient(timeout=60) as client:

        async def begin():
            return (await client.post(url, json=START, headers=HEADERS)).headers["mcp-session-id"]

        finished = await begin()
        reply = await client.post(url, json=DONE, headers={**HEADERS, "mcp-session-id": finished})
        assert reply.status_code == 202
        begun = [await begin() for _ in range(mcp_lib._MOST_STARTING + 3)]
        async with asyncio.timeout(DEADLINE):
            while len(ended) < 3:
                await asyncio.sleep(0)
        assert ended == begun[:3]
        monkeypatch.setattr(mcp_lib, "_STARTING_SECONDS", 0.0)
        late = await begin()
        async with asyncio.timeout(DEADLINE):
            while late not in ended:
                await asyncio.sleep(0)
        asked = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        for session, status in ((finished, 200), (begun[0], 404), (late, 404)):
            reply = await client.post(
                url, json=asked, headers={**HEADERS, "mcp-session-id": session}
            )
            assert reply.status_code == status


async def test_no_more_clients_than_the_limit_are_let_in(monkeypatch):
    import httpx

    from webtraj_integrations import mcp as mcp_lib

    monkeypatch.setattr(mcp_lib, "_MOST_CONNECTIONS", 2)
    tools = mcp_lib.BrowserTools(None, shared=True, session_timeout=None)
    found = []
    async with mcp_lib.serving_http(tools, port=0) as url, httpx.AsyncClient(timeout=60) as client:
        for _ in range(3):
            reply = await client.post(url, json=START, headers=HEADERS)
            found.append(reply.status_code)
            if session := reply.headers.get("mcp-session-id"):
                await client.post(url, json=DONE, headers={**HEADERS, "mcp-session-id": session})
    assert found[:2] == [200, 200]
    assert found[2] >= 400


CLIENT = """
import asyncio, os, sys
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

async def main():
    server = StdioServerParameters(command=sys.executable, args=sys.argv[1:], env=dict(os.environ))
    async with Client(stdio_client(server)) as client:
        await client.call_tool("open", {})
        await client.call_tool("wait", {"seconds": 0})
        waiting = asyncio.ensure_future(client.call_tool("wait", {"seconds": 100}))
        await asyncio.sleep(0)
        await client.call_tool("no-such-tool", {})  # Its answer means that the wait has begun.
        print("ready", flush=True)
        await waiting

asyncio.run(main())
"""


@contextlib.asynccontextmanager
async def client_in_the_middle(out):
    """Start a client in a process of its own; yield it, its server and the server's browsers."""
    script = [sys.executable, "-c", CLIENT, *COMMAND, "--preset", "miniwob/click-test"]
    process = await asyncio.create_subprocess_exec(
        *script, "--out", str(out), stdout=subprocess.PIPE
    )
    try:
        async with asyncio.timeout(DEADLINE):
            assert (await process.stdout.readline()).strip() == b"ready"
        server = server_of(psutil.Process(process.pid))
        yield process, server, server.children(recursive=True)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.parametrize("hurried", [False, True])
async def test_a_killed_client_ends_the_server_and_seals_the_episode(tmp_path, hurried):
    async with client_in_the_middle(tmp_path / "out") as (client, server, browsers):
        assert browsers
        client.kill()
        if hurried:  # As clients do whose server takes too long to end.
            await asyncio.sleep(0.1)
            with contextlib.suppress(psutil.Error):
                server.terminate()
        await gone([server, *browsers])
    (episode,) = webtraj.open_dataset(tmp_path / "out")
    assert len(episode.steps) == 2
    assert episode.end.reason is EndReason.CANCELLED


@pytest.mark.gate
async def test_a_killed_server_leaves_an_episode_to_recover_and_no_browser(tmp_path):
    async with client_in_the_middle(tmp_path / "out") as (_, server, browsers):
        server.kill()
        await gone([server, *browsers])
    done = subprocess.run(
        [sys.executable, "-m", "webtraj", "recover", tmp_path / "out"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "1 sealed" in done.stdout
    (episode,) = webtraj.open_dataset(tmp_path / "out")
    assert len(episode.steps) == 2
    assert episode.end.reason is EndReason.CRASHED
