"""Pages as people meet them: huge, foreign, slow, broken, or not there at all.

People point the preset `web` at whatever address they have: a site that has moved away, a dev
server that is not running, an address without a scheme or with a password in it, a certificate of
their own making. A page that does not come is an error: of the episode if it was to begin there,
else of the action that led to it. It is never taken for a page.
"""

import asyncio
import contextlib
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import webtraj
from webtraj import errors
from webtraj.environments.browser import network as network_lib
from webtraj.environments.browser import network_policy as network_policy_lib
from webtraj.environments.browser.access import WebAccess
from webtraj.environments.browser.observation import refs_in
from webtraj.environments.browser.settle_policy import SettlePolicy
from webtraj.environments.local_server import LocalServer
from webtraj.metrics.facts import step_facts

pytestmark = pytest.mark.browser

Respond = Callable[[asyncio.StreamReader, asyncio.StreamWriter, str], Awaitable[None]]

ANYWHERE = WebAccess(
    network=network_policy_lib.OriginPolicy(allow=("*", "localhost:*", "127.0.0.1:*", "*.invalid"))
)
TEXT = ("goal", "url", "axtree", "last_action", "http_status")


def page(body: str, status: str = "200 OK", **headers: str) -> bytes:
    content = f"<!doctype html><meta charset=utf-8>{body}".encode()
    lines = [
        f"HTTP/1.1 {status}",
        "Content-Type: text/html",
        f"Content-Length: {len(content)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + content


@contextlib.asynccontextmanager
async def site(
    pages: dict[str, bytes | Respond], tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """Serve pages by path; give the origin without its scheme."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                first = await reader.readexactly(1)
                if not first.isalpha():  # TLS, to a server that has none.
                    writer.write(page("What?", "400 Bad Request"))
                    break
                head = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                found = pages.get(head.split(" ")[1], page("not found", "404 Not Found"))
                if callable(found):
                    await found(reader, writer, head)
                else:
                    writer.write(found)
                await writer.drain()

    server = LocalServer(answer, tls=tls)
    await server.start()
    try:
        yield server.address
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def playing(start: str, **options: Any) -> AsyncIterator[tuple[Any, Any]]:
    """Begin an episode; give the environment and its first step."""
    task = webtraj.WebTask(goal="Look.", start_url=start)
    options = {"policy": ANYWHERE, "observe": TEXT, "max_steps": None, **options}
    async with webtraj.make("web", task=task, **options) as env:
        yield env, await env.reset()


async def empty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str) -> None:
    writer.close()


async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str) -> None:
    writer.write(page("<p>half of it</p>" + "x" * 500)[:-400])
    await writer.drain()
    writer.close()


async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str) -> None:
    # No length: only the way in which the connection ends says that the page is not whole.
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>half of it</p>")
    await writer.drain()
    await asyncio.sleep(0.1)
    linger = b"\1\0\0\0\0\0\0\0"
    writer.get_extra_info("socket").setsockopt(1, 13, linger)  # SOL_SOCKET, SO_LINGER
    writer.transport.abort()


DEAD = {
    "refused": "http://127.0.0.1:9/",
    "unresolvable": "http://no-such-host.invalid/",
    "unresolvable over TLS": "https://no-such-host.invalid/",
    "no TLS there": "https://SITE/",
    "empty answer": "http://SITE/empty",
    "cut midway": "http://SITE/cut",
    "reset midway": "http://SITE/reset",
    "redirects to a dead site": "http://SITE/to-dead",
    "moves on to a dead site": "http://SITE/moves-on",
    "redirects for ever": "http://SITE/loop",
}

PAGES: dict[str, bytes | Respond] = {
    "/empty": empty,
    "/cut": cut,
    "/reset": reset,
    "/to-dead": page("", "302 Found", Location="http://no-such-host.invalid/"),
    "/moves-on": page("<meta http-equiv=refresh content='0; url=http://no-such-host.invalid/'>"),
    "/loop": page("", "302 Found", Location="/loop"),
}


@pytest.mark.parametrize("way", DEAD)
async def test_an_episode_that_begins_at_a_page_that_does_not_come_is_an_error(way: str) -> None:
    collector = webtraj.MemoryTrajectoryCollector()
    async with site(PAGES) as host:
        task = webtraj.WebTask(goal="Look.", start_url=DEAD[way].replace("SITE", host))
        async with webtraj.make(
            "web", task=task, policy=ANYWHERE, trajectory_collector=collector
        ) as env:
            with pytest.raises(errors.PageLoadError, match="did not load: "):
                await env.reset()
    (trajectory,) = collector.trajectories
    assert trajectory.outcome is webtraj.Outcome.ENV_ERROR
    assert trajectory.end is not None
    assert trajectory.end.error is not None
    assert trajectory.end.error.type == "webtraj.errors.PageLoadError"
    assert step_facts(trajectory).first_verb == "invalid_url"  # WebGym's word for it.


@pytest.mark.slow
async def test_the_action_that_leads_to_a_page_that_does_not_come_says_so() -> None:
    async with site(dict(PAGES)) as host:
        urls = {way: url.replace("SITE", host) for way, url in DEAD.items()}
        links = "".join(
            f"<p><a href='{url}'>{way}</a> <a href='{url}' target=_blank>new {way}</a></p>"
            for way, url in urls.items()
        )
        async with (
            site({"/": page(links)}) as home,
            playing(f"http://{home}/", settle=SettlePolicy(network_quiet=0.05)) as (env, first),
        ):
            for way, url in urls.items():
                for what in (f"goto('{url}')", way, f"new {way}", f"new_tab('{url}')"):
                    refs = {found.name: found.ref for found in refs_in(first.observation["axtree"])}
                    step = await env.step(f"click('{refs[what]}')" if what in refs else what)
                    for _ in range(100):  # A page may load for a while before it fails.
                        if step.observation["last_action"]["error"]:
                            break
                        step = await env.step("noop(100)")
                    last = step.observation["last_action"]
                    assert "did not load: " in last["error"], what
                    assert last["error_kind"] == "navigation_failed", what
                    if len(env.session.tabs) > 1:
                        await env.step("tab_close()")
                    first = await env.step(f"goto('http://{home}/')")
                    assert first.observation["last_action"]["error"] == "", what


async def test_a_site_that_answers_with_an_error_of_its_own() -> None:
    pages = {
        "/": page("<h1>Fine</h1>"),
        "/lost": page("<h1>No such page</h1>", "404 Not Found"),
        "/broken": page("<h1>Out of order</h1>", "503 Service Unavailable"),
    }
    async with site(pages) as host:
        # A page in mid-episode,
        async with playing(f"http://{host}/") as (env, _):
            for path, status, heading in (("lost", 404, "No such"), ("broken", 503, "Out of")):
                step = await env.step(f"goto('http://{host}/{path}')")
                assert step.observation["last_action"]["error"] == ""
                assert step.observation["http_status"] == status
                assert f'heading "{heading}' in step.observation["axtree"]
        # and at the start if the page is what is wrong, not the site.
        async with playing(f"http://{host}/lost") as (_, first):
            assert first.observation["http_status"] == 404
        with pytest.raises(errors.PageLoadError, match=r"/broken answered with status 503"):
            async with playing(f"http://{host}/broken", observe=("goal",)):
                pass


@pytest.mark.slow
async def test_a_certificate_of_ones_own_making(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    async with site({"/": page("<h1>Own</h1>")}, tls) as host, site({"/": page("")}) as plain:
        with pytest.raises(errors.PageLoadError, match="ERR_CERT_AUTHORITY_INVALID"):
            async with playing(f"https://{host}/"):
                pass
        async with playing(f"http://{plain}/") as (env, _):
            step = await env.step(f"goto('https://{host}/')")
            assert "ERR_CERT_AUTHORITY_INVALID" in step.observation["last_action"]["error"]
        options = {"ignore_https_errors": True}
        async with playing(f"https://{host}/", context_options=options) as (_, first):
            assert 'heading "Own"' in first.observation["axtree"]


async def test_a_page_that_never_stops_loading() -> None:
    async def forever(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str
    ) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<button>Here</button>")
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"<!-- more -->" * 100)
                await writer.drain()
                await asyncio.sleep(0.05)

    async with (
        site({"/": forever}) as host,
        playing(f"http://{host}/", settle=SettlePolicy(load=1.0)) as (env, first),
    ):
        assert 'button "Here"' in first.observation["axtree"]
        (button,) = refs_in(first.observation["axtree"])[-1:]
        step = await env.step(f"click('{button.ref}')")
        assert step.observation["last_action"]["error"] == ""


async def test_a_site_whose_name_turns_private_after_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DNS rebinding through a real browser, under the policy that is the default."""
    addresses = {"evil.test": "93.184.216.34"}

    async def resolve(host: str, port: int) -> list[str]:
        return [addresses[host]]

    connect = asyncio.open_connection

    async def public(host: str, port: int, **options: Any) -> Any:
        # The internet, as far as this machine has one.
        return await connect("127.0.0.1" if host == "93.184.216.34" else host, port, **options)

    async def closing(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str
    ) -> None:
        writer.write(page("<h1>Evil</h1>", Connection="close"))
        writer.close()

    monkeypatch.setattr(network_lib, "_system_resolve", resolve)
    monkeypatch.setattr(network_lib.asyncio, "open_connection", public)
    async with site({"/": closing, "/inner": page("<h1>Loot</h1>")}) as host:
        start = f"http://evil.test:{host.partition(':')[2]}/"
        async with playing(start, policy=None) as (env, first):
            assert 'heading "Evil"' in first.observation["axtree"]
            for address in ("127.0.0.1", "10.0.0.1", "169.254.169.254"):
                addresses["evil.test"] = address
                step = await env.step(f"goto('{start}inner')")
                assert "Loot" not in step.observation["axtree"]
                assert step.observation["last_action"]["error_kind"] == "blocked"
            addresses["evil.test"] = "93.184.216.34"
            step = await env.step(f"goto('{start}inner')")
            assert 'heading "Loot"' in step.observation["axtree"]
