"""Tasks as data: their hooks, their isolation, and what their agent may reach."""

import asyncio
import contextlib

import psutil
import pytest

import webtraj
from processes import descendants
from webtraj import errors
from webtraj.environments import actions as a
from webtraj.environments.browser.access import NoAccess, WebAccess
from webtraj.environments.browser.environment import BrowserEnvironment
from webtraj.environments.browser.network_policy import OriginPolicy
from webtraj.environments.browser.pool import BrowserPool
from webtraj.environments.browser.tasks import BrowserTask, Verdict, WebTask
from webtraj.environments.local_server import LocalServer

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHANNELS = ("goal", "url", "axtree", "last_action", "info")


@pytest.fixture
def start_url(tmp_path):
    path = tmp_path / "start.html"
    path.write_text(
        "<!doctype html><title>Shop</title><p id=p>visits: </p><input type=file id=f>"
        "<script>localStorage.visits = 1 + Number(localStorage.visits ?? 0);"
        "p.append(localStorage.visits)</script>"
    )
    return path.as_uri()


@pytest.mark.browser
async def test_the_hooks_of_a_task_are_called_in_order(pool, start_url):
    calls = []

    async def before(session, seed):
        calls.append(("before", seed, session.page.url))

    async def judge(session, answer):
        calls.append(("judge", answer, session.page.url == start_url))
        return Verdict(done=answer == "42", reward=float(answer == "42"), success=answer == "42")

    async def after(session):
        calls.append(("after", len(session.tabs)))

    task = WebTask(goal="Find it", start_url=start_url, before=before, judge=judge, after=after)
    async with BrowserEnvironment(task, pool=pool, seed=5, observe=CHANNELS) as environment:
        first = await environment.reset()
        assert first.observation["goal"] == "Find it"
        last = await environment.step(a.Answer("42"))
        assert (last.reward, last.discount) == (1.0, 0.0)
        assert environment.episode_outcome() is webtraj.Outcome.SUCCESS
    assert calls == [
        ("before", 5, "about:blank"),
        ("judge", None, True),
        ("judge", "42", True),
        ("after", 1),
    ]


@pytest.mark.browser
async def test_what_nobody_judges_is_no_failure(pool, start_url):
    task = WebTask(goal="Find it", start_url=start_url)
    async with BrowserEnvironment(task, pool=pool, observe=CHANNELS) as environment:
        for answer in ("answer('7')", "send_msg_to_user('7')"):
            await environment.reset()
            assert (await environment.step(answer)).last()
            assert environment.episode_outcome() is webtraj.Outcome.UNKNOWN


@pytest.mark.browser
async def test_a_message_ends_no_episode_that_a_judge_decides(pool, start_url):
    task = WebTask(goal="Find it", start_url=start_url, judge=lambda session, answer: Verdict())
    async with BrowserEnvironment(task, pool=pool, observe=CHANNELS) as environment:
        await environment.reset()
        assert not (await environment.step("send_msg_to_user('I am looking.')")).last()


async def test_an_open_episode_is_judged_by_how_it_stands(pool, start_url):
    async def judge(session, answer):
        return Verdict(success="Enter" in pressed)

    pressed = []
    task = WebTask(goal="Press Enter", start_url=start_url, judge=judge)
    async with BrowserEnvironment(task, pool=pool, observe=CHANNELS) as environment:
        await environment.reset()
        assert environment.episode_outcome() is webtraj.Outcome.FAILURE
        pressed.append("Enter")
        await environment.step(a.PressKey("Enter"))
        assert environment.episode_outcome() is webtraj.Outcome.SUCCESS


@pytest.mark.gate
@pytest.mark.browser
async def test_episodes_share_no_storage(pool, start_url):
    task = WebTask(goal="Look", start_url=start_url)
    async with BrowserEnvironment(task, pool=pool, observe=CHANNELS) as environment:
        for _ in range(2):
            first = await environment.reset()
            assert '"visits: 1"' in first.observation["axtree"]


async def test_a_task_s_context_options_outweigh_the_environment_s(pool, start_url):
    task = WebTask(goal="Look", start_url=start_url, context_options={"locale": "fr-FR"})
    options = {"locale": "de-DE", "timezone_id": "Asia/Tokyo"}
    async with BrowserEnvironment(
        task, pool=pool, observe=CHANNELS, context_options=options
    ) as environment:
        await environment.reset()
        told = await environment.session.page.evaluate(
            "[navigator.language, Intl.DateTimeFormat().resolvedOptions().timeZone]"
        )
    assert told == ["fr-FR", "Asia/Tokyo"]


@pytest.mark.browser
async def test_a_solution_is_asked_one_action_at_a_time(pool, start_url):
    async def solution(session):
        yield a.Wait(0)
        yield a.Answer(session.page.url)

    task = WebTask(goal="Look", start_url=start_url, solution=solution)
    async with BrowserEnvironment(task, pool=pool, observe=CHANNELS) as environment:
        assert environment.has_oracle
        for _ in range(2):
            await environment.reset()
            assert await environment.cheat() == a.Wait(0)
            assert await environment.cheat() == a.Answer(start_url)
            assert await environment.cheat() is None


@pytest.mark.smoke
@pytest.mark.browser
async def test_tabs_are_opened_switched_and_closed(pool, start_url):
    task = WebTask(goal="Look", start_url=start_url)
    async with BrowserEnvironment(
        task, pool=pool, observe=(*CHANNELS, "tabs"), policy=WebAccess()
    ) as environment:
        await environment.reset()
        refused = await environment.step(a.CloseTab())
        assert refused.observation["last_action"]["error_kind"] == "last_tab"
        opened = await environment.step(a.NewTab())
        assert list(opened.observation["tabs"]) == [start_url, "about:blank"]
        assert (opened.observation["active_tab"], opened.observation["url"]) == (1, "about:blank")
        back = await environment.step(a.FocusTab(0))
        assert back.observation["url"] == start_url
        missing = await environment.step(a.FocusTab(5))
        assert missing.observation["last_action"]["error_kind"] == "no_such_tab"
        await environment.step(a.FocusTab(1))
        closed = await environment.step(a.CloseTab())
        assert list(closed.observation["tabs"]) == [start_url]


@pytest.mark.browser
async def test_history_goes_back_and_forward_as_far_as_it_goes(pool, start_url):
    task = WebTask(goal="Look", start_url=start_url)
    async with BrowserEnvironment(
        task, pool=pool, observe=CHANNELS, policy=WebAccess()
    ) as environment:
        await environment.reset()
        await environment.step(a.Goto("about:blank"))
        back = await environment.step(a.GoBack())
        assert back.observation["url"] == start_url
        forward = await environment.step(a.GoForward())
        assert forward.observation["url"] == "about:blank"
        no_further = await environment.step(a.GoForward())
        assert no_further.observation["last_action"]["error_kind"] == "no_history"
        again = await environment.step(a.Reload())
        assert again.observation["last_action"]["error"] == ""


@pytest.mark.browser
async def test_a_navigation_that_fails_is_the_action_s_failure(pool, start_url):
    task = WebTask(goal="Look", start_url=start_url)
    async with BrowserEnvironment(
        task, pool=pool, observe=CHANNELS, policy=WebAccess(OriginPolicy(allow=("127.0.0.1:*",)))
    ) as environment:
        await environment.reset()
        timestep = await environment.step(a.Goto("http://127.0.0.1:9/"))
        last_action = timestep.observation["last_action"]
        assert last_action["error_kind"] == "navigation_failed"
        assert timestep.mid()


@pytest.mark.gate
@pytest.mark.smoke
@pytest.mark.browser
async def test_files_go_up_from_the_allowed_folder_only(pool, start_url, tmp_path):
    folder = tmp_path / "uploads"
    folder.mkdir()
    (folder / "ours.txt").write_text("ours")
    (folder / "link.txt").symlink_to(tmp_path / "start.html")
    task = WebTask(goal="Look", start_url=start_url)
    async with BrowserEnvironment(
        task, pool=pool, observe=CHANNELS, policy=WebAccess(uploads=folder)
    ) as environment:
        first = await environment.reset()
        ref = first.observation["axtree"].split("button")[0].split("[")[-1].split("]")[0]
        for path in ("../start.html", "link.txt", "/etc/passwd", "missing.txt"):
            timestep = await environment.step(a.UploadFile(ref, [path]))
            assert timestep.observation["last_action"]["error_kind"] == "blocked", path
        timestep = await environment.step(a.UploadFile(ref, ["ours.txt"]))
        assert timestep.observation["last_action"]["error"] == ""
        assert await environment.session.page.evaluate("f.files[0].name") == "ours.txt"


@pytest.mark.parametrize(
    ("policy", "url", "allowed"),
    [
        (NoAccess(), "https://example.com", False),
        (WebAccess(), "https://example.com", True),
        (WebAccess(), "about:blank", True),
        (WebAccess(), "file:///etc/passwd", False),
        (WebAccess(), "javascript:alert(1)", False),
    ],
)
async def test_a_policy_says_what_may_be_opened(policy, url, allowed):
    assert policy.open(url) is allowed
    assert policy.upload("anything") is None


@pytest.mark.gate
@pytest.mark.browser
@pytest.mark.parametrize("denied", [False, True])
async def test_an_agent_may_open_what_is_of_its_task_s_own_origin(pool, denied):
    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nHere")
        await writer.drain()
        writer.close()

    server = LocalServer(answer)
    await server.start()
    task = WebTask(goal="Look around", start_url=f"http://{server.address}/")
    deny = (server.address,) if denied else ()
    policy = WebAccess(OriginPolicy(allow=("*",), deny=deny))
    elsewhere = f"http://{server.address}/elsewhere"
    try:
        async with BrowserEnvironment(task, pool=pool, policy=policy) as environment:
            if denied:
                with pytest.raises(errors.PageLoadError):
                    await environment.reset()
                return
            await environment.reset()
            for action in (a.Goto(elsewhere), a.NewTab(elsewhere)):
                observation = (await environment.step(action)).observation
                assert observation["last_action"]["error"] == ""
                assert observation["url"] == elsewhere
            port = int(server.address.partition(":")[2])
            other = a.Goto(f"http://127.0.0.1:{port - 1}/")  # As private, and not its own.
            observation = (await environment.step(other)).observation
            assert "does not allow opening" in observation["last_action"]["error"]
    finally:
        await server.stop()


@pytest.mark.gate
@pytest.mark.browser
async def test_a_page_that_dies_while_it_loads_is_a_crash():
    asked = asyncio.Event()

    async def never_answer(reader, writer):
        asked.set()
        await reader.read()

    server = LocalServer(never_answer)
    await server.start()
    task = WebTask(goal="Look.", start_url=f"http://{server.address}/")
    async with BrowserPool() as pool, BrowserEnvironment([task], pool=pool) as env:
        loading = asyncio.ensure_future(env.reset())
        await asked.wait()
        for renderer in descendants(word="--type=renderer"):
            with contextlib.suppress(psutil.NoSuchProcess):
                renderer.kill()
        with pytest.raises(errors.BrowserCrashedError):
            await loading
    await server.stop()


async def test_a_task_of_one_s_own_says_only_how_it_starts_and_what_its_goal_is(pool):
    class Blank(BrowserTask):
        name = "blank"

        async def setup(self, session, seed):
            await session.open("about:blank")

        def goal_of(self, begun):
            return "Look"

    async with BrowserEnvironment(Blank(), pool=pool, observe=["goal"]) as environment:
        first = await environment.reset()
        assert first.observation["goal"] == "Look"
        assert not environment.has_oracle
        assert (await environment.step(a.Wait(0))).reward == 0.0


async def test_a_task_starts_where_pages_may_go():
    for url in (
        "data:text/html,Hi",
        "chrome://version",
        "blob:http://a/b",
        "example.com",
        "http://",
    ):
        with pytest.raises(errors.InvalidInputError, match="a task can start at"):
            WebTask(goal="Look", start_url=url)
