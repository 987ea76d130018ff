"""A page on this machine: a real server, and who is answered by it."""

import contextlib
import socket

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from rows import each
from webtraj import errors
from webtraj.local_pages import HEADERS, Guard, serving

TOKEN = "a-token-of-enough-length"
LOOKING = frozenset(("GET", "HEAD"))


async def said(request):
    return Response(f"{request.method} {request.url.path}")


async def kept(request):
    return Response("kept", headers={"cache-control": "private"})


@contextlib.asynccontextmanager
async def served(*, host="127.0.0.1", port=0, token=None, methods=None, cookie="webtraj-test"):
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
    async with served(token=TOKEN) as (client, _):
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


EVERYWHERE = {
    "192.0.2.7:80": 200,
    "[2001:db8::1]:80": 200,
    "localhost": 200,
    socket.gethostname().upper(): 200,
    "evil.example": 421,
    "192.0.2.7.evil.example": 421,
}


async def test_an_address_that_others_reach_has_a_token_and_goes_by_any_number():
    async with served(host="0.0.0.0") as (client, url):
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
        ({"port": 99_999}, "port 99999"),
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

    guard = Guard(reached, what="The test", command="webtraj test", hosts=frozenset())
    await guard({"type": kind}, None, send)
    assert sent == answer
