"""The tools of an MCP server, called in this process: results, errors, and what is recorded."""

import asyncio
import re
from collections import Counter

import pytest

pytest.importorskip("mcp")

import webtraj
from webtraj.environments import actions as a
from webtraj.environments.local_server import LocalServer
from webtraj.trajectory import EndReason, Outcome
from webtraj_integrations import mcp as mcp_lib
from webtraj_integrations.sessions import Sessions
from whole import whole

pytestmark = pytest.mark.browser

FORM = """<title>Shop</title><h1>Log in</h1><form onsubmit="return false">
<input aria-label="User"><input type=password aria-label="Password">
<button onclick="document.title='In'">Log in</button><input type=file
aria-label="Scan" onchange="document.title=this.files[0].name"></form>
<ul id=list>{rows}</ul><button onclick="list.append(Object.assign(document.createElement('li'),
{{innerHTML: '<button>Row new</button>'}}))">Add</button>"""
PAGE = FORM.format(rows="".join(f"<li><button>Row {n}</button></li>" for n in range(60)))


async def answer(reader, writer):
    await reader.readuntil(b"\r\n\r\n")
    body = PAGE.encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n"
    writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
    await writer.drain()


@pytest.fixture
async def site():
    server = LocalServer(answer)
    await server.start()
    yield f"http://{server.address}/"
    await server.stop()


class Desk:
    """A server's tools, as one client uses them."""

    def __init__(self, tools):
        self.tools = tools

    async def __call__(self, name, **arguments):
        """Return the text of a call's result; `last` is the result."""
        self.last = await self.tools.call(name, arguments, client="tests")
        return self.last.content[0].text

    @property
    def meta(self):
        return self.last.meta["webtraj"]


def opened(out, presets="miniwob/click-test", **options):
    settings = {
        "observe": mcp_lib.make_observe(pictures=out is not None),
        **options.pop("options", {}),
    }
    return Sessions(presets, out=out, context=mcp_lib.CONTEXT, options=settings, **options)


def free(out, start, allow=(), uploads=None):
    options = mcp_lib.free_access(allow, uploads=uploads, settle=0.1)
    return opened(out, [mcp_lib.free_task(start)], options=options)


def ref(text, what):
    return re.search(rf"\[(\w+)\] {what}", text)[1]


@pytest.mark.smoke
async def test_a_task_is_played_to_its_reward(tmp_path):
    async with opened(tmp_path / "out") as sessions, mcp_lib.BrowserTools(sessions) as tools:
        call = Desk(tools)
        page = await call("open", seed=3)
        assert page.startswith("Session: 1\nGoal: Click the button.\nPage: Click Test Task (http")
        assert (call.meta["reward"], call.meta["done"], call.meta["step"]) == (None, False, 0)
        assert await call("click", ref="999") == (
            "Your last action was not carried out. No element [999] is in the current "
            "observation.\nThe page has not changed."
        )
        assert call.last.is_error
        assert "takes an element's ref" in await call("click")
        assert call.last.is_error
        assert (await call("click", ref=ref(page, "button"))) == (
            "The session is over: success, reward 1."
        )
        assert not call.last.is_error
        assert (call.meta["total_reward"], call.meta["outcome"]) == (1.0, "success")
        # The record is complete before the server ends.
        (episode,) = webtraj.open_dataset(tmp_path / "out")
        assert episode.info.episode_id == call.meta["episode_id"]
        assert "Session 1 has ended: it is over: success" in await call("snapshot")
    assert episode.end.outcome is Outcome.SUCCESS
    assert episode.info.metadata["client"] == "tests"
    assert all(step.observation["screenshot"] for step in episode.steps)
    assert [type(step.decision.action) for step in episode.steps[1:]] == [
        a.Click,
        a.InvalidAction,
        a.Click,
    ]
    assert [step.decision.metadata["tool"] for step in episode.steps[1:]] == ["click"] * 3


async def test_only_what_changed_is_sent_again(tmp_path, site):
    async with free(None, site) as sessions, mcp_lib.BrowserTools(sessions) as tools:
        call = Desk(tools)
        page = await call("open", goal="Look around.")
        assert call.meta["goal"] == "Look around."
        added = await call("click", ref=ref(page, 'button "Add"'))
        assert len(added) < len(page) / 5
        assert re.search(r"^\+ +\[", added, re.MULTILINE)
        assert 'button "Row new"' in added
        assert 'button "Row 7"' not in added
        titled = await call("click", ref=ref(page, 'button "Log in"'))
        assert titled.startswith(f"Page: In ({site})")
        whole = await call("snapshot")
        assert 'button "Row 7"' in whole
        assert 'button "Row new"' in whole
        row = ref(whole, 'button "Row 7"')
        assert f'[{row}] button "Row 7"' in await call("snapshot", ref=row)
        assert 'button "Row 8"' not in await call("snapshot", ref=row)
        assert "There is no element [9999]" in await call("snapshot", ref="9999")
        assert [one.type for one in call.last.content] == ["text"]
        await call("screenshot")
        assert [one.type for one in call.last.content] == ["text", "image"]
        assert call.meta["reward"] is None
        assert await call("answer", text="Done") == "The session is over: not scored."
        assert call.meta["total_reward"] is None


async def test_tabs_history_and_uploads(tmp_path, site):
    (tmp_path / "scan.txt").write_text("Scanned.")
    async with (
        free(None, site, uploads=tmp_path) as sessions,
        mcp_lib.BrowserTools(sessions, uploads=True) as tools,
    ):
        call = Desk(tools)
        page = await call("open")
        scan = ref(page, 'button "Scan"')
        assert "scan.txt" in await call("upload", ref=scan, paths=["scan.txt"])
        assert "may not be uploaded" in await call("upload", ref=scan, paths=["../secret.txt"])
        assert call.last.is_error
        two = await call("tabs", action="new", url=f"{site}two")
        assert f"Tab 0: {site}" in two
        assert f"Tab 1 (this one): {site}two" in two
        assert f"Tab 0 (this one): {site}" in await call("tabs", action="select", index=0)
        assert f"Page: Shop ({site}three)" in await call("navigate", url=f"{site}three")
        assert f"Page: Shop ({site})" in await call("back")
        assert "Tab 1" in await call("wait", seconds=0)
        assert "Tab" not in await call("tabs", action="close")
        assert "The last tab cannot be closed." in await call("tabs", action="close")


async def test_a_page_that_is_too_long_is_cut_and_the_rest_is_had_by_line(site):
    tools_of = mcp_lib.BrowserTools
    async with free(None, site) as sessions, tools_of(sessions, page_tokens=300) as tools:
        call = Desk(tools)
        seen, line = await call("open"), 1
        for _ in range(20):
            more = re.search(r"snapshot with line=(\d+)", seen)
            if more is None:
                break
            assert int(more[1]) > line
            line = int(more[1])
            seen = await call("snapshot", line=line)
        assert 'button "Add"' in seen
        assert line > 10


async def test_a_typed_password_does_not_reach_the_disk(tmp_path, site):
    secret = "hunter2-and-more"
    async with free(tmp_path / "out", site) as sessions, mcp_lib.BrowserTools(sessions) as tools:
        call = Desk(tools)
        page = await call("open")
        field = ref(page, 'textbox "Password"')
        await call("type", ref=field, text=secret)
        await call("screenshot")
        await call("type", ref=field, text=secret, clear="yes")  # Refused, and recorded.
        assert call.last.is_error
        await call("type", text=secret)
        await call("close")
    (episode,) = webtraj.open_dataset(tmp_path / "out")
    assert secret not in whole(episode)
    assert "<secret:password>" in whole(episode.steps[1].decision.action)
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert files
    assert not any(secret.encode() in path.read_bytes() for path in files)


async def test_an_origin_that_is_not_allowed_is_refused(tmp_path, site):
    other = LocalServer(answer)
    await other.start()
    async with (
        free(tmp_path / "out", "about:blank", [site]) as sessions,
        mcp_lib.BrowserTools(sessions) as tools,
    ):
        call = Desk(tools)
        await call("open")
        refused = await call("navigate", url=f"http://{other.address}/")
        assert call.last.is_error
        assert f"does not allow opening http://{other.address}/" in refused
        assert "Log in" in await call("navigate", url=site)
        assert not call.last.is_error
        assert "absolute URL" in await call("navigate", url="file:///etc/passwd")
    await other.stop()


@pytest.mark.smoke
async def test_two_sessions_at_once(tmp_path):
    async with (
        opened(tmp_path / "out", sessions=2) as sessions,
        mcp_lib.BrowserTools(sessions) as tools,
    ):
        one, other = Desk(tools), Desk(tools)
        pages = await asyncio.gather(one("open", seed=1), other("open", seed=2))
        handles = sorted(re.match(r"Session: (\w+)", page)[1] for page in pages)
        assert handles == ["1", "2"]
        assert "All 2 sessions are in use" in await one("open")
        assert "2 sessions are open: 1, 2. Name one" in await one("snapshot")
        assert "Session '7' is unknown. Call `open`" in await one("snapshot", session="7")
        said = await asyncio.gather(
            *(
                desk("click", ref=ref(page, "button"), session=page.split("\n")[0][9:])
                for desk, page in zip((one, other), pages, strict=True)
            )
        )
        assert said == ["The session is over: success, reward 1."] * 2
    ends = Counter(one.end.outcome for one in webtraj.open_dataset(tmp_path / "out"))
    assert ends == Counter({Outcome.SUCCESS: 2})


async def test_a_silent_session_is_closed_and_a_cancelled_call_goes_on(tmp_path):
    now = [0.0]
    async with (
        opened(tmp_path / "out") as sessions,
        mcp_lib.BrowserTools(
            sessions, shared=True, session_timeout=0.4, clock=lambda: now[0]
        ) as tools,
    ):
        call = Desk(tools)
        handle = (await call("open"))[9:].split("\n")[0]
        assert len(handle) == 12
        assert "No session is given. Call `open`" in await call("snapshot")
        waiting = asyncio.ensure_future(call("wait", seconds=0.3, session=handle))
        await asyncio.sleep(0.1)
        waiting.cancel()
        assert "has not changed" in await call("wait", seconds=0, session=handle)
        assert call.meta["step"] == 2
        now[0] = 1.0
        async with asyncio.timeout(60):
            while sessions.open:
                await asyncio.sleep(0.05)
        assert "has ended: it was silent for 0.4 seconds" in await call("snapshot", session=handle)
    (episode,) = webtraj.open_dataset(tmp_path / "out")
    assert episode.end.reason is EndReason.CLOSED
    assert len(episode.steps) == 3


async def test_a_client_that_leaves_during_open_leaves_no_page(tmp_path):
    async with (
        opened(tmp_path / "out", sessions=1) as sessions,
        mcp_lib.BrowserTools(sessions, shared=True) as tools,
    ):
        for leave in ("disconnect", "cancel"):
            opening = asyncio.ensure_future(tools.call("open", {"seed": 1}, connection="gone"))
            while not sessions.open:
                await asyncio.sleep(0)
            if leave == "cancel":
                opening.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await opening
            else:
                await tools.close_connection("gone")
                assert (await opening).is_error
            async with asyncio.timeout(60):
                while sessions.open:
                    await asyncio.sleep(0.05)
        other = await tools.call("open", {"seed": 2}, connection="other")
        assert not other.is_error
