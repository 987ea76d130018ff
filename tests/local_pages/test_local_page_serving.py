"""A page on this machine: a real server, and who is answered by it."""

import contextlib
import os
import re
import socket
import sys
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from rows import each
from webtraj import errors
from webtraj.net import hosts, local_pages
from webtraj.net.local_pages import HEADERS, Guard, serving

TOKEN = "a-token-of-enough-length"

LOOKING = frozenset(("GET", "HEAD"))


async def said(request):
    return Response(f"{request.method} {request.url.path}")


async def kept(request):
    return Response("kept", headers={"cache-control": "private"})


@contextlib.asynccontextmanager
async def served(
    *, host="127.0.0.1", port=0, token=TOKEN, enter=True, methods=None, cookie="webtraj-test"
):
    """Serves a small application, and yields a client and the URL to open."""
    everything = Route("/{rest:path}", said, methods=["GET", "PUT"])
    app = Starlette(routes=[Route("/kept", kept), everything])
    async with (
        serving(
            app,
            host=host,
            port=port,
            token=token,
            what="The test",
            command="webtraj test",
            cookie=cookie,
            methods=methods,
        ) as url,
        httpx.AsyncClient(base_url=httpx.URL(url).copy_with(query=None), trust_env=False) as client,
    ):
        if enter:
            await client.get(url)
        yield client, url


PRINTED = "open the URL that `webtraj test` printed"

REFUSED = [
    ({"Host": "evil.example"}, 421, f"The test only answers at its own address: {PRINTED}."),
    ({"Sec-Fetch-Site": "cross-site"}, 403, "The test does not answer other sites' pages."),
    ({"Origin": "http://evil.example"}, 403, "The test does not answer other sites' pages."),
    ({"Origin": "http://[evil"}, 403, "The test does not answer other sites' pages."),
    ({}, 401, f"The test needs its token: {PRINTED}, the whole of it."),
]


async def test_who_is_refused_is_told_what_to_do():
    async with served(enter=False) as (client, _):
        for headers, status, why in REFUSED:
            reply = await client.get("/api/x", headers=headers)
            assert (reply.status_code, reply.json()) == (status, {"error": why}), headers
            for name, value in HEADERS:
                assert reply.headers[name.decode()] == value.decode()


async def test_methods_are_the_applications_own_affair_unless_they_are_named():
    async with served() as (client, _):
        assert (await client.put("/api/x")).text == "PUT /api/x"
        assert (await client.post("/api/x")).text == "Method Not Allowed"
    async with served(methods=LOOKING) as (client, _):
        assert (await client.get("/api/x")).text == "GET /api/x"
        assert (await client.head("/api/x")).status_code == 200
        for method in ("PUT", "POST", "DELETE", "OPTIONS"):
            reply = await client.request(method, "/api/x")
            assert reply.status_code == 405
            assert reply.json() == {"error": "The test only accepts GET and HEAD requests."}


async def test_pages_at_two_ports_have_cookies_of_their_own():
    async with (
        served(enter=False) as (one, url),
        served(token=f"{TOKEN}-2", enter=False) as (two, other),
    ):
        jar = httpx.Cookies()
        for client, opened in ((one, url), (two, other)):
            reply = await client.get(opened)
            assert (reply.status_code, reply.headers["location"]) == (303, "/")
            assert f"webtraj-test-{client.base_url.port}=" in reply.headers["set-cookie"]
            jar.update(client.cookies)
        assert len(jar) == 2
        cookies = {"Cookie": "; ".join(f"{name}={value}" for name, value in jar.items())}
        for client in (one, two):
            client.cookies.clear()
            assert (await client.get("/api/x")).status_code == 401
            assert (await client.get("/api/x", headers=cookies)).status_code == 200


EVERYWHERE = {
    "192.0.2.7:80": 200,
    "[2001:db8::1]:80": 200,
    "localhost": 200,
    socket.gethostname().upper(): 200,
    "evil.example": 421,
    "192.0.2.7.evil.example": 421,
}


async def test_an_address_that_others_reach_has_a_token_and_goes_by_any_number():
    async with served(host="0.0.0.0", token=None, enter=False) as (client, url):
        assert client.base_url.host == "127.0.0.1"  # 0.0.0.0 cannot be opened everywhere.
        assert len(httpx.URL(url).params["token"]) >= 32
        assert (await client.get(url)).status_code == 303
        for host, status in EVERYWHERE.items():
            reply = await client.get("/api/x", headers={"Host": host})
            assert reply.status_code == status, host


@each(
    ("given", "message"),
    [
        ({"host": "192.0.2.1"}, "The test cannot listen on '192.0.2.1', port 0"),
        ({"host": "no such host"}, "Choose an address of this machine"),
        ({"port": 99_999}, r"port 99999: .* 0-65535\. Choose"),
        ({"token": "short"}, "at least 16 characters"),
        ({"token": ""}, "at least 16 characters"),
        ({"token": f"{TOKEN}; Path=/x"}, "at least 16 characters"),
    ],
)
async def test_where_it_cannot_be_served_is_named(given, message):
    with pytest.raises(errors.InvalidInputError, match=message):
        async with served(**given):
            pass


async def test_a_port_that_is_taken_is_named():
    async with served() as (client, _):
        port = client.base_url.port
        with pytest.raises(errors.InvalidInputError, match=f"port {port}"):
            async with served(port=port):
                pass


@pytest.mark.parametrize(
    ("kind", "answer"),
    [("websocket", [{"type": "websocket.close", "code": 1008}]), ("lifespan", [])],
    ids=["websocket", "lifespan"],
)
async def test_what_is_no_request_does_not_reach_the_application(kind, answer):
    async def reached(scope, receive, send):
        raise AssertionError(scope)

    sent = []

    async def send(message):
        sent.append(message)

    guard = Guard(reached, what="The test", command="webtraj test", hosts=frozenset(), token=TOKEN)
    await guard({"type": kind}, None, send)
    assert sent == answer


# Servers for programs.


async def hello(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["path"].encode()})
    else:
        message = await receive()
        if scope["type"] == "lifespan":
            await send({"type": f"{message['type']}.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})


OURS, OTHERS, UNKNOWN = True, False, None

WHO = [
    # The owner of the connection, the path, headers, and the status.
    (OURS, "/mcp", {}, 200),
    (OTHERS, "/mcp", {}, 401),
    (UNKNOWN, "/mcp", {}, 401),
    (OTHERS, "/TOKEN/mcp", {}, 200),
    (UNKNOWN, "/TOKEN", {}, 200),
    (OTHERS, "/TOKENmcp", {}, 401),
    (OTHERS, "/TOKEN-of-another/mcp", {}, 401),
    (OTHERS, "/mcp?token=TOKEN", {}, 401),
    (OURS, "/mcp", {"Origin": "http://localhost:1"}, 403),
    (OURS, "/TOKEN/mcp", {"Origin": "null"}, 403),
    (OURS, "/mcp", {"Host": "evil.example"}, 403),
    (OURS, "/mcp", {"Host": "192.0.2.7"}, 403),
]


async def test_servers_for_programs_let_in_their_user_and_who_knows_the_token(monkeypatch):
    monkeypatch.setattr(local_pages.secrets, "token_urlsafe", lambda size: TOKEN)
    async with (
        local_pages.serving_programs(hello, what="It", host="127.0.0.1", port=0) as url,
        httpx.AsyncClient(trust_env=False) as client,
    ):
        base = url.removesuffix(f"/{TOKEN}")
        for owner, path, headers, status in WHO:
            monkeypatch.setattr(local_pages, "is_mine", lambda peer, here, said=owner: said)
            reply = await client.get(base + path.replace("TOKEN", TOKEN), headers=headers)
            assert reply.status_code == status, (owner, path, headers)
            if status == 200:
                assert reply.text == (path.replace("/TOKEN", "") or "/")


@pytest.mark.parametrize(("host", "known"), [("127.0.0.1", False), ("0.0.0.0", True)])
async def test_the_address_has_the_token_where_the_owner_is_unknown(monkeypatch, host, known):
    monkeypatch.setattr(local_pages, "knows_owners", lambda: known)
    monkeypatch.setattr(local_pages, "is_mine", lambda peer, here: None)
    async with (
        local_pages.serving_programs(hello, what="It", host=host, port=0) as url,
        httpx.AsyncClient(trust_env=False) as client,
    ):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}", url)
        assert (await client.get(f"{url}/x")).text == "/x"
        assert (await client.get(httpx.URL(url).join("/x"))).status_code == 401


@pytest.mark.skipif(sys.platform != "linux" or not hosts.knows_owners(), reason="needs sock_diag")
@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_the_kernel_tells_a_connection_of_another_user(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as listener:
        for user, mine in ((65534, False), (0, True)):
            with socket.socket(family) as client:
                os.fchown(client.fileno(), user, -1)
                client.connect(listener.getsockname())
                accepted, peer = listener.accept()
                with accepted:
                    assert hosts.is_mine(peer, accepted.getsockname()) is mine


def test_a_url_with_a_token_is_opened_by_a_file_of_the_user_alone(monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    local_pages.open_privately("http://127.0.0.1:1/?token=abc#/run")
    page = Path(opened[0].removeprefix("file://"))
    assert "token=abc#/run" in page.read_text()
    assert "abc" not in opened[0]
    assert page.parent.stat().st_mode & 0o077 == 0
