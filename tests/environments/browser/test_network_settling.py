"""Waiting for the network, on a page that fetches what it shows."""

import asyncio

import pytest
import pytest_asyncio

from webtraj.environments.actions import Click, Goto, TypeInto, Wait
from webtraj.environments.browser.access import NoAccess, WebAccess
from webtraj.environments.browser.network_watch import NetworkWatch
from webtraj.environments.browser.session import BrowserSession
from webtraj.environments.browser.settle_policy import SettlePolicy
from webtraj.environments.local_server import LocalServer

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANY_NETWORK = NoAccess(network=None)

PATIENT = SettlePolicy(quiet=0.0, cap=10.0, network_quiet=0.05)


class Server:
    """Answers each request when it is told to, and only then."""

    def __init__(self):
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def handle(self, reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        self.asked.set()
        await self.may_answer.wait()
        writer.write(
            b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nContent-Length: 7\r\n"
            b"Connection: close\r\n\r\nfetched"
        )
        await writer.drain()


@pytest_asyncio.fixture(loop_scope="module")
async def server():
    server = Server()
    async with LocalServer(server.handle) as listening:
        server.url = f"http://{listening.address}/"
        yield server
        server.may_answer.set()


def page(server):
    show = "fetch(this.value).then(r => r.text()).then(t => document.body.append(t))"
    return f'<button value="{server.url}" onclick="{show}">fetch</button>'


async def click_and_answer(environment, server, after=0.5):
    """Click, and answer the request later than a step that does not wait would end."""
    step = asyncio.ensure_future(environment.step(Click("1")))
    await server.asked.wait()
    await asyncio.sleep(after)
    assert not step.done()
    server.may_answer.set()
    return await step


@pytest.mark.browser
async def test_what_is_fetched_is_waited_for(open_page, server):
    environment = open_page(page(server), settle=PATIENT, policy=ANY_NETWORK)
    await environment.reset()
    step = asyncio.ensure_future(environment.step(Click("1")))
    await server.asked.wait()
    assert not step.done()
    server.may_answer.set()
    timestep = await step
    assert "fetched" in timestep.observation["axtree"]
    assert timestep.observation["last_action"]["settled"] == "quiet"


@pytest.mark.browser
async def test_what_a_timer_fetches_is_waited_for(open_page, server):
    fetch = "fetch(this.value).then(r => r.text()).then(t => document.body.append(t))"
    html = (
        f'<button value="{server.url}" onclick="setTimeout(() => {{ {fetch} }}, 250)">go</button>'
    )
    settle = SettlePolicy(quiet=0.0, cap=60.0, network_quiet=0.05, timers=15.0)
    environment = open_page(html, settle=settle, policy=ANY_NETWORK)
    await environment.reset()
    assert "fetched" in (await click_and_answer(environment, server)).observation["axtree"]


@pytest.mark.browser
async def test_a_request_that_is_not_answered_is_given_up_at_the_cap(open_page, server):
    environment = open_page(
        page(server),
        settle=SettlePolicy(quiet=0.0, cap=0.3, network_quiet=0.05),
        policy=ANY_NETWORK,
    )
    await environment.reset()
    timestep = await environment.step(Click("1"))
    assert timestep.observation["last_action"]["settled"] == "cap"
    assert server.asked.is_set()


@pytest.mark.browser
async def test_an_answer_is_waited_for_beyond_the_cap(open_page, server):
    settle = SettlePolicy(quiet=0.0, cap=1.0, network_quiet=0.05, answers=60.0)
    environment = open_page(page(server), settle=settle, policy=ANY_NETWORK)
    await environment.reset()
    timestep = await click_and_answer(environment, server, after=2.5)
    assert "fetched" in timestep.observation["axtree"]
    assert timestep.observation["last_action"]["settled"] == "quiet"


@pytest.mark.browser
async def test_what_a_slow_script_fetches_is_waited_for_beyond_the_cap(open_page, server):
    work = "const end = performance.now() + 3500; while (performance.now() < end);"
    fetch = "fetch(this.value).then(r => r.text()).then(t => document.body.append(t))"
    go = f"setTimeout(() => {{ {work} {fetch} }}, 100)"
    html = f'<button value="{server.url}" onclick="{go}">go</button>'
    settle = SettlePolicy(quiet=0.0, cap=3.0, network_quiet=0.05, timers=15.0, answers=60.0)
    environment = open_page(html, settle=settle, policy=ANY_NETWORK)
    await environment.reset()
    assert "fetched" in (await click_and_answer(environment, server)).observation["axtree"]


@pytest.mark.browser
async def test_a_document_on_its_way_to_a_frame_is_waited_for(open_page, server):
    go = "setTimeout(() => { frames[0].location = this.value }, 50)"
    html = f'<button value="{server.url}" onclick="{go}">go</button><iframe srcdoc="old"></iframe>'
    environment = open_page(html, settle=SettlePolicy(departure=60.0), policy=ANY_NETWORK)
    await environment.reset()
    assert "fetched" in (await click_and_answer(environment, server)).observation["axtree"]


@pytest.mark.browser
async def test_an_answer_is_waited_for_though_the_page_often_asks_the_same_address(open_page):
    """Webmail asks one address for everything; what it asks for is in the query."""
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def handle(reader, writer):
        if b"action=move" in await reader.readuntil(b"\r\n\r\n"):
            asked.set()
            await may_answer.wait()
        head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nAccess-Control-Allow-Origin: *\r\n"
        writer.write(head + b"Content-Length: 5\r\n\r\nmoved")
        await writer.drain()

    async with LocalServer(handle) as listening:
        url = f"http://{listening.address}/?action="
        move = f"fetch('{url}move').then(r => r.text()).then(t => document.body.append(t))"
        html = f"""<button onclick="{move}">go</button>
            <script>for (let n = 0; n < 3; n++) fetch("{url}news&_=" + n)</script>"""
        settle = SettlePolicy(quiet=0.0, cap=1.0, network_quiet=0.05, answers=60.0)
        environment = open_page(html, settle=settle, policy=ANY_NETWORK)
        await environment.reset()
        step = asyncio.ensure_future(environment.step(Click("1")))
        try:
            await asked.wait()
            await asyncio.sleep(2.5)  # Longer than for what the page asks by itself.
            assert not step.done()
        finally:
            may_answer.set()
        assert "moved" in (await step).observation["axtree"]


@pytest.mark.browser
async def test_a_form_sent_to_a_frame_that_was_just_made_is_waited_for(open_page, server):
    make = "i = document.createElement('iframe'); i.name = 'new'; document.body.append(i)"
    html = f"""<button onclick="{make}; f.submit()">go</button>
        <form id=f target=new action="{server.url}"></form>"""
    settle = SettlePolicy(quiet=0.0, cap=60.0, network_quiet=0.001, answers=60.0)
    environment = open_page(html, settle=settle, policy=ANY_NETWORK)
    await environment.reset()
    assert "fetched" in (await click_and_answer(environment, server)).observation["axtree"]


class Told:
    """A debugging session whose browser tells what the test says."""

    def __init__(self):
        self._handlers = {}

    def on(self, event, handler):
        self._handlers[event] = handler

    def emit(self, event, told):
        self._handlers[event](told)

    async def send(self, method):
        assert method == "Page.enable"


@pytest.mark.parametrize("end", ["frameStartedNavigating", "frameNavigated", "frameDetached"])
async def test_a_frame_that_will_ask_for_a_document_is_waited_for_until_it_does(end):
    """A busy browser asks for it long after the page sent the frame there."""
    page, told = Told(), Told()
    watch = NetworkWatch(Told())
    await watch.attend(page, told)
    wait = {"quiet": 0.0, "cap": 60.0, "restless": 60.0, "departure": 0.0}
    assert await watch.wait_until_quiet(page, **wait)
    for url, where in (("about:blank", "currentTab"), ("http://a.test/", "newTab")):
        asks = {"frameId": "F", "url": url, "disposition": where}
        told.emit("Page.frameRequestedNavigation", asks)
        assert await watch.wait_until_quiet(page, **wait)
    told.emit("Page.frameRequestedNavigation", {**asks, "disposition": "currentTab"})
    waiting = asyncio.ensure_future(watch.wait_until_quiet(page, **wait))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    told.emit(f"Page.{end}", {"frame": {"id": "F"}} if end == "frameNavigated" else asks)
    assert await waiting


@pytest.mark.browser
async def test_what_was_fetched_and_answered_while_the_page_was_looked_at_is_seen(
    open_page, server, monkeypatch
):
    """The answer changes the page after its tree was taken."""
    observe, looks = BrowserSession._observe_page, []

    async def slowly(self, options, **settings):
        seen = await observe(self, options, **settings)
        looks.append(seen["axtree"])
        if len(looks) == 2:
            ask = "fetch(document.querySelector('button').value).then(r => r.text())"
            script = f"{ask}.then(text => document.body.append(text))"
            await self.page.evaluate(script)
        return seen

    monkeypatch.setattr(BrowserSession, "_observe_page", slowly)
    server.may_answer.set()
    environment = open_page(page(server), settle=PATIENT, policy=ANY_NETWORK)
    await environment.reset()
    timestep = await environment.step(Wait(0))
    assert "fetched" not in looks[1]
    assert "fetched" in timestep.observation["axtree"]


FRAME = """
    <iframe hidden onload="if (this.srcdoc) document.body.append('shown')"></iframe>
    <button value="{url}" onclick="frames[0].frameElement.srcdoc = `<img src='${{this.value}}'>`">
    </button>"""


@pytest.mark.browser
async def test_what_a_frame_loads_is_waited_for_once(open_page, server):
    """Its scripts, and handlers of its `load`, may change the page around it."""
    html = FRAME.format(url=server.url)
    environment = open_page(html, settle=SettlePolicy(cap=60.0), policy=ANY_NETWORK)
    await environment.reset()
    assert "shown" in (await click_and_answer(environment, server)).observation["axtree"]
    server.may_answer.clear()
    environment = open_page(html, settle=SettlePolicy(cap=2.0), policy=ANY_NETWORK)
    await environment.reset()
    ends = [
        (await environment.step(action)).observation["last_action"]["settled"]
        for action in (Click("1"), Wait(0.0))
    ]
    assert ends == ["cap", "quiet"]


def page_of_pictures(server):
    show = (
        "this.after(Object.assign(new Image(), {src: this.value, onerror: () => this.append('!')}))"
    )
    return f'<button value="{server.url}" onclick="{show}">show</button>'


@pytest.mark.browser
async def test_a_picture_in_view_is_waited_for(open_page, server):
    settle = SettlePolicy(cap=60.0, pictures=60.0)
    environment = open_page(page_of_pictures(server), settle=settle, policy=ANY_NETWORK)
    await environment.reset()
    step = asyncio.ensure_future(environment.step(Click("1")))
    await server.asked.wait()
    assert not step.done()
    server.may_answer.set()
    timestep = await step  # What comes is no picture, which is as good.
    assert "show!" in timestep.observation["axtree"]
    assert timestep.observation["last_action"]["settled"] == "quiet"


@pytest.mark.browser
@pytest.mark.parametrize("script", ["<script src='late.js'>", "<script defer src='late.js'>"])
@pytest.mark.parametrize(("departure", "seen"), [(60.0, True), (0.0, False)])
async def test_a_document_whose_scripts_are_late_is_waited_for(open_page, departure, seen, script):
    """A busy site: the document is there, and shows or does nothing before its script came."""
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def handle(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        body = f"<!doctype html><head>{script}</script></head><p id=here>Here".encode()
        kind = b"text/html"
        if b"late.js" in head:
            asked.set()
            await may_answer.wait()
            kind = b"text/javascript"
            body = b"addEventListener('DOMContentLoaded', () => here.append(' it is.'))"
        writer.write(
            b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
            b"Content-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (kind, len(body), body)
        )
        await writer.drain()

    async with LocalServer(handle) as listening:
        url = f"http://{listening.address}/"
        policy = SettlePolicy(cap=0.3, departure=departure)
        environment = open_page(f"<a href='{url}'>go</a>", settle=policy, policy=ANY_NETWORK)
        await environment.reset()
        step = asyncio.ensure_future(environment.step(Click("1")))
        try:
            await asyncio.wait((step,), timeout=2.0 if seen else 60.0)
            assert step.done() != seen
        finally:
            may_answer.set()
        timestep = await step
        assert asked.is_set() or not seen
        assert ("Here it is." in timestep.observation["axtree"]) == seen


RESTLESS = {
    "polls": "setInterval(() => fetch('/n'), 50)",
    "counts": "setInterval(() => { p.textContent = performance.now() }, 10)",
    "moves": "const f = t => { p.style.opacity = t % 9 / 9; requestAnimationFrame(f) }; f(0)",
}

NO_NEW_PAGE = {
    "a file": (b"200 OK", b"text/csv", b"Content-Disposition: attachment; filename=a.csv\r\n"),
    "no content": (b"204 No Content", b"text/plain", b""),
}

BOUNDED = SettlePolicy(
    quiet=0.02, cap=60.0, departure=60.0, network_quiet=0.1, restless=0.5, after_typing=0.4
)


def _serve(answers):
    """Return a server of pages by path; anything else is an empty text."""

    async def handle(reader, writer):
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        status, kind, more, body = answers.get(path, (b"200 OK", b"text/plain", b"", b""))
        writer.write(
            b"HTTP/1.1 %b\r\nConnection: close\r\n"
            b"Content-Type: %b\r\n%bContent-Length: %d\r\n\r\n%b"
            % (status, kind, more, len(body), body)
        )
        await writer.drain()

    return LocalServer(handle)


def _page(html):
    return b"200 OK", b"text/html", b"", f"<!doctype html>{html}".encode()


@pytest.mark.browser
@pytest.mark.gate
async def test_a_page_that_never_rests_is_not_waited_for_to_the_cap(open_page):
    for case, script in RESTLESS.items():
        html = f"<button>Next</button><p id=p></p><script>{script}</script>"
        async with _serve({"/": _page(html)}) as listening:
            link = f"<a href='http://{listening.address}/'>go</a>"
            async with open_page(link, settle=BOUNDED, policy=ANY_NETWORK) as environment:
                await environment.reset()
                async with asyncio.timeout(30):  # Half of the cap.
                    timestep = await environment.step(Click("1"))
                    assert "Next" in timestep.observation["axtree"], case
                    await environment.step(Wait(0))


@pytest.mark.browser
@pytest.mark.gate
async def test_a_link_that_brings_no_page_ends_with_its_answer(open_page):
    for case, (status, kind, more) in NO_NEW_PAGE.items():
        async with _serve({"/x": (status, kind, more, b"")}) as listening:
            link = f"<a href='http://{listening.address}/x'>go</a><a href='tel:123'>call</a>"
            async with open_page(link, settle=BOUNDED, policy=ANY_NETWORK) as environment:
                await environment.reset()
                async with asyncio.timeout(30):
                    for ref in ("1", "2"):
                        timestep = await environment.step(Click(ref))
                        assert '"go"' in timestep.observation["axtree"], case


@pytest.mark.browser
@pytest.mark.gate
async def test_a_search_that_waits_for_the_typing_to_pause_is_seen(open_page):
    search = "clearTimeout(window.t); t = setTimeout(() => { p.textContent = 'FOUND' }, 300)"
    html = f'<input oninput="{search}"><p id=p></p>'
    environment = open_page(html, settle=BOUNDED)
    await environment.reset()
    timestep = await environment.step(TypeInto("1", "ab"))
    assert "FOUND" in timestep.observation["axtree"]


BREAKING = {
    "reloads for ever": "location.reload()",
    "loops for ever": "for (;;);",
}


@pytest.mark.browser
@pytest.mark.gate
async def test_a_page_that_breaks_at_a_click_is_an_observation_and_the_episode_goes_on(open_page):
    for case, script in BREAKING.items():
        answers = {"/broken": _page(f"<script>{script}</script>"), "/calm": _page("<p>calm")}
        async with _serve(answers) as listening:
            origin = f"http://{listening.address}"
            html = f"<a href='{origin}/broken'>go</a>"
            async with open_page(html, settle=BOUNDED, policy=WebAccess(network=None)) as broken:
                await broken.reset()
                timestep = await broken.step(Click("1"))
                assert timestep.mid(), case
                assert timestep.observation["last_action"]["error_kind"] == "page_broke", case
                timestep = await broken.step(Goto(f"{origin}/calm"))
                assert "calm" in timestep.observation["axtree"], case
