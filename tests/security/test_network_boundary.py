"""A real browser gets nowhere that its policy does not allow, whatever its pages try."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hostile_web import Response, Site, UdpListener, eventually
from playwright.async_api import Error as PlaywrightError

from webtraj import errors
from webtraj.environments.browser.lease import Lease
from webtraj.environments.browser.network import Gateway
from webtraj.environments.browser.network_policy import NO_NETWORK, PUBLIC_WEB, OriginPolicy
from webtraj.environments.browser.pool import BrowserPool

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.browser, pytest.mark.gate]


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(site: Site) -> AsyncIterator[Gateway]:
    async with Gateway(OriginPolicy(allow=(site.host,))) as gateway:
        yield gateway


@pytest_asyncio.fixture(loop_scope="module")
async def lease(pool: BrowserPool, gateway: Gateway) -> AsyncIterator[Lease]:
    async with await pool.lease(**gateway.context_options) as lease:
        yield lease


async def visit(lease: Lease, url: str) -> None:
    await lease.run(lease.page.goto(url), what="open a page")


async def flush(lease: Lease, site: Site) -> None:
    """Waits for what the page began: its requests to the site it may reach go last of all."""
    await lease.page.evaluate(
        "url => new Promise(done => setTimeout(() => fetch(url).finally(done), 300))",
        site.url("/flush"),
    )


ATTEMPTS = {
    "fetch": "fetch(URL, {mode: 'no-cors'})",
    "fetch, kept alive": "fetch(URL, {mode: 'no-cors', keepalive: true, method: 'POST'})",
    "XMLHttpRequest": "x = new XMLHttpRequest(); x.open('GET', URL); x.send()",
    "beacon": "navigator.sendBeacon(URL, 'data')",
    "image": "new Image().src = URL",
    "script": "add('script', {src: URL})",
    "style sheet": "add('link', {rel: 'stylesheet', href: URL})",
    "style import": "add('style', {textContent: `@import '${URL}'`})",
    "font": "add('style', {textContent: `@font-face {font-family: f; src: url(${URL})} "
    "body {font-family: f}`}); document.body.append('x')",
    "background": "document.body.style.background = `url(${URL})`",
    "iframe": "add('iframe', {src: URL})",
    "object": "add('object', {data: URL})",
    "embed": "add('embed', {src: URL})",
    "audio": "add('audio', {src: URL, autoplay: true, preload: 'auto'})",
    "preload": "add('link', {rel: 'preload', as: 'script', href: URL})",
    "module preload": "add('link', {rel: 'modulepreload', href: URL})",
    "prefetch": "add('link', {rel: 'prefetch', href: URL})",
    "worker": "new Worker(window.URL.createObjectURL(new Blob([`fetch('${URL}', "
    "{mode: 'no-cors'})`])))",
    "import": "import(URL)",
    "event source": "new EventSource(URL)",
    "web socket": "new WebSocket(URL.replace('http', 'ws'))",
    "form": "f = add('form', {action: URL, method: 'post', target: '_blank'}); f.submit()",
    "popup": "window.open(URL)",
    "ping": "a = add('a', {ping: URL, href: '#x'}); a.click()",
    "SVG": "document.body.innerHTML = `<svg><image href='${URL}' width=9 height=9 /></svg>`",
    "localhost": "fetch(URL.replace('127.0.0.1', 'localhost'), {mode: 'no-cors'})",
    "IPv6": "fetch(URL.replace('127.0.0.1', '[::1]'), {mode: 'no-cors'})",
    "mapped IPv6": "fetch(URL.replace('127.0.0.1', '[::ffff:127.0.0.1]'), {mode: 'no-cors'})",
    "decimal address": "fetch(URL.replace('127.0.0.1', '2130706433'), {mode: 'no-cors'})",
    "short address": "fetch(URL.replace('127.0.0.1', '127.1'), {mode: 'no-cors'})",
    "any address": "fetch(URL.replace('127.0.0.1', '0.0.0.0'), {mode: 'no-cors'})",
}

# Hints that a browser may follow or not. None may get through.
HINTS = {
    "manifest": "add('link', {rel: 'manifest', href: URL})",
    "user name": "add('iframe', {src: URL.replace('//', '//' + location.host + '@')})",
    "preconnect": "add('link', {rel: 'preconnect', href: URL})",
    "DNS prefetch": "add('link', {rel: 'dns-prefetch', href: URL})",
    "prerender": "add('script', {type: 'speculationrules', textContent: JSON.stringify("
    "{prerender: [{source: 'list', urls: [URL]}], prefetch: [{source: 'list', urls: [URL]}]})})",
    "icon": "add('link', {rel: 'icon', href: URL})",
    "web transport": "new WebTransport(URL.replace('http', 'https'))",
    "track": "v = add('video', {}); v.append(Object.assign(document.createElement('track'), "
    "{src: URL, default: true}))",
    "payment": "new PaymentRequest([{supportedMethods: URL}], {total: {label: 'x', amount: "
    "{currency: 'USD', value: '1'}}}).canMakePayment()",
}

ADD = """
const add = (tag, properties) => {
  const element = Object.assign(document.createElement(tag), properties);
  document.body.append(element);
  return element;
};
"""


async def attempt(lease: Lease, site: Site, forbidden: Site, script: str) -> None:
    site.pages["/"] = "<body>attempts</body>"
    site.pages["/flush"] = "ok"
    forbidden.pages["/loot"] = "export default 1"
    await visit(lease, site.url())
    await lease.page.evaluate(
        f"URL => {{ {ADD} try {{ {script} }} catch (error) {{ window.failed = `${{error}}`; }} }}",
        forbidden.url("/loot"),
    )


@pytest.mark.parametrize("way", ATTEMPTS)
async def test_no_request_of_a_page_passes_and_each_is_reported(
    lease: Lease, gateway: Gateway, site: Site, forbidden: Site, way: str
) -> None:
    denials: list[Any] = []

    def noted() -> bool:
        denials.extend(gateway.take_denials())
        return any(str(forbidden.port) in denial.target for denial in denials)

    await attempt(lease, site, forbidden, ATTEMPTS[way])
    await eventually(noted)
    assert forbidden.asked == []
    assert all(denial.reason for denial in denials)


@pytest.mark.parametrize("way", HINTS)
async def test_no_hint_of_a_page_is_followed_past_the_policy(
    lease: Lease, site: Site, forbidden: Site, udp: UdpListener, way: str
) -> None:
    await attempt(lease, site, forbidden, HINTS[way])
    await flush(lease, site)
    assert forbidden.asked == []
    assert udp.packets == []


REDIRECTS = {
    "302": Response(status=302, headers={"Location": "TARGET"}),
    "307": Response(status=307, headers={"Location": "TARGET"}),
    "refresh header": Response("x", headers={"Refresh": "0; url=TARGET"}),
    "meta refresh": Response("<meta http-equiv=refresh content='0; url=TARGET'>"),
    "script": Response("<script>location = 'TARGET'</script>"),
    "replaced": Response("<script>location.replace('TARGET')</script>"),
    "link": Response("<a id=a href='TARGET'>x</a><script>a.click()</script>"),
    "base": Response("<base href='TARGET'><a id=a href=''>x</a><script>a.click()</script>"),
    "form": Response("<form id=f action='TARGET'></form><script>f.submit()</script>"),
    "redirecting frame": Response("<iframe src='/inner'></iframe>"),
    "redirecting image": Response("<img src='/inner'>"),
    "redirected fetch": Response("<script>fetch('/inner', {mode: 'no-cors'})</script>"),
}


@pytest.mark.parametrize("way", REDIRECTS)
async def test_no_redirect_leads_past_the_policy(
    lease: Lease, gateway: Gateway, site: Site, forbidden: Site, way: str
) -> None:
    target = forbidden.url("/loot")
    page = REDIRECTS[way]
    headers = {name: value.replace("TARGET", target) for name, value in page.headers.items()}
    site.pages["/"] = Response(page.body.replace("TARGET", target), page.status, headers)
    site.pages["/inner"] = Response(status=302, headers={"Location": target})
    with contextlib.suppress(PlaywrightError):  # The redirect fails: no page of ours stands there.
        await lease.page.goto(site.url(), wait_until="commit")
    (denial, *_) = await eventually(gateway.take_denials)
    assert denial.target == forbidden.host
    assert forbidden.asked == []


async def test_a_service_worker_is_bound_too(
    lease: Lease, gateway: Gateway, site: Site, forbidden: Site
) -> None:
    site.pages["/"] = "<body>x</body>"
    site.pages["/worker.js"] = Response(
        f"""oninstall = () => skipWaiting();
        onactivate = event => event.waitUntil(clients.claim());
        onfetch = event => event.respondWith(
          fetch("{forbidden.url("/loot")}", {{mode: "no-cors"}})
            .then(() => new Response("got through"), () => new Response("stopped")));""",
        headers={"Content-Type": "text/javascript"},
    )
    await visit(lease, site.url())
    answer = await lease.page.evaluate("""async () => {
        await navigator.serviceWorker.register("/worker.js");
        await navigator.serviceWorker.ready;
        if (!navigator.serviceWorker.controller) {
          await new Promise(done => navigator.serviceWorker.oncontrollerchange = done);
        }
        return (await fetch("/asked")).text();
    }""")
    assert answer == "stopped"
    assert forbidden.asked == []
    denials = await eventually(gateway.take_denials)
    assert denials[0].target == forbidden.host


@pytest.mark.smoke
async def test_a_popup_is_bound_too(
    lease: Lease, gateway: Gateway, site: Site, forbidden: Site
) -> None:
    site.pages["/"] = "<body>x</body>"
    await visit(lease, site.url())
    async with lease.page.expect_popup() as popup:
        await lease.page.evaluate(
            "url => { const w = open('about:blank'); w.location = url; }", forbidden.url("/loot")
        )
    await popup.value
    denials = await eventually(gateway.take_denials)
    assert denials[0].target == forbidden.host
    assert forbidden.asked == []


WEB_RTC = """async ([stun, candidate]) => {
  const seen = [];
  const peer = new RTCPeerConnection({iceServers: [{urls: stun}], iceCandidatePoolSize: 2});
  peer.onicecandidate = event => event.candidate && seen.push(event.candidate.candidate);
  const other = new RTCPeerConnection();
  peer.createDataChannel("x");
  await peer.setLocalDescription(await peer.createOffer());
  await other.setRemoteDescription(peer.localDescription);
  await other.setLocalDescription(await other.createAnswer());
  await peer.setRemoteDescription(other.localDescription);
  await peer.addIceCandidate({candidate, sdpMid: "0", sdpMLineIndex: 0}).catch(() => {});
  await new Promise(done => {
    peer.onicegatheringstatechange = () => peer.iceGatheringState === "complete" && done();
    if (peer.iceGatheringState === "complete") done();
    setTimeout(done, 3000);
  });
  await new Promise(done => setTimeout(done, 500));
  return seen;
}"""


async def use_web_rtc(lease: Lease, site: Site, udp: UdpListener) -> list[str]:
    site.pages["/"] = "<body>x</body>"
    await visit(lease, site.url())
    candidate = f"candidate:1 1 udp 2122260223 127.0.0.1 {udp.port} typ host"
    found: list[str] = await lease.page.evaluate(WEB_RTC, [f"stun:127.0.0.1:{udp.port}", candidate])
    return found


async def test_web_rtc_sends_no_packet_and_tells_no_address(
    lease: Lease, site: Site, udp: UdpListener
) -> None:
    assert await use_web_rtc(lease, site, udp) == []
    assert udp.packets == []


async def test_the_browser_looks_up_no_name_and_sends_no_datagram(
    tmp_path: Path, gateway: Gateway, site: Site
) -> None:
    log = tmp_path / "net.json"
    arguments = (f"--log-net-log={log}",)
    hints = ("dns-prefetch", "preconnect", "prefetch", "preload", "stylesheet")
    site.pages["/"] = "".join(f"<link rel={hint} href='//{hint}.leak.test'>" for hint in hints)
    async with (
        BrowserPool(contexts_per_browser=1, arguments=arguments) as pool,
        await pool.lease(**gateway.context_options) as lease,
    ):
        await visit(lease, site.url())
        await flush(lease, site)
    text = log.read_text()
    events = json.loads(text if text.rstrip().endswith("}") else text.rstrip().rstrip(",") + "]}")
    names = {number: name for name, number in events["constants"]["logEventTypes"].items()}
    looked_up = [
        event
        for event in events["events"]
        if names[event["type"]].startswith(
            (
                "DNS_TRANSACTION",
                "HOST_RESOLVER_SYSTEM_TASK",
                "HOST_RESOLVER_DNS_TASK",
                "UDP_BYTES_SENT",
            )
        )
    ]
    assert any("leak.test" in json.dumps(event) for event in events["events"])
    assert looked_up == []


async def test_without_network_nothing_is_reached(pool: BrowserPool, site: Site) -> None:
    site.pages["/"] = "<body>x</body>"
    async with Gateway(NO_NETWORK) as gateway, await pool.lease(**gateway.context_options) as lease:
        await lease.page.evaluate(
            "url => { navigator.sendBeacon(url); return fetch(url).catch(() => 0) }", site.url()
        )
        with pytest.raises(errors.BrowserError, match="ERR_PROXY_CONNECTION_FAILED"):
            await visit(lease, site.url())
        assert site.asked == []
        assert gateway.take_denials() == []


async def test_the_public_web_holds_nothing_private(pool: BrowserPool, site: Site) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async with (
        Gateway(PUBLIC_WEB, resolve=resolve) as gateway,
        await pool.lease(**gateway.context_options) as lease,
    ):
        for host in ("127.0.0.1", "rebound.test"):
            with pytest.raises(errors.BrowserError, match="ERR_SOCKS_CONNECTION_FAILED"):
                await visit(lease, f"http://{host}:{site.port}/")
            (denial, *_) = gateway.take_denials()
            assert "private or special address 127.0.0.1" in denial.reason
    assert site.asked == []


@pytest.mark.smoke
async def test_contexts_of_one_browser_each_have_their_own_policy(
    pool: BrowserPool, site: Site, forbidden: Site
) -> None:
    for server in (site, forbidden):
        server.pages["/"] = "<body>x</body>"
    async with (
        Gateway(OriginPolicy(allow=(site.host,))) as first,
        Gateway(OriginPolicy(allow=(forbidden.host,))) as second,
        await pool.lease(**first.context_options) as one,
        await pool.lease(**second.context_options) as other,
    ):
        await asyncio.gather(visit(one, site.url()), visit(other, forbidden.url()))
        for lease, url in ((one, forbidden.url()), (other, site.url())):
            with pytest.raises(errors.BrowserError, match="ERR_SOCKS_CONNECTION_FAILED"):
                await visit(lease, url)
        assert {denial.target for denial in first.take_denials()} == {forbidden.host}
        assert {denial.target for denial in second.take_denials()} == {site.host}
        assert site.paths == forbidden.paths == {"/"}


async def test_a_closed_gateway_lets_nothing_through(pool: BrowserPool, site: Site) -> None:
    site.pages["/"] = "<body>x</body>"
    gateway = Gateway(OriginPolicy(allow=(site.host,)))
    await gateway.open()
    async with await pool.lease(**gateway.context_options) as lease:
        await gateway.close()
        with pytest.raises(errors.BrowserError, match="ERR_PROXY_CONNECTION_FAILED"):
            await visit(lease, site.url())
    assert site.asked == []
