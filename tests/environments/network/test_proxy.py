"""The filtering proxy lets through what its policy allows, over real sockets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import httpx
import pytest

from webtraj.environments.browser.network import FilteringProxy, OriginPolicy


@contextlib.asynccontextmanager
async def http_server() -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that says what it was asked, and keeps every head it got."""
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                heads.append(head)
                length = 0
                for line in head.split(b"\r\n"):
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                body = head.split(b" ")[1] + b" " + await reader.readexactly(length)
                if head.startswith(b"GET /redirect"):
                    writer.write(b"HTTP/1.1 302 Found\r\nLocation: http://evil.test/\r\n")
                else:
                    writer.write(b"HTTP/1.1 200 OK\r\n")
                writer.write(b"Content-Length: %d\r\nConnection: keep-alive\r\n\r\n" % len(body))
                writer.write(body)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], heads
    finally:
        server.close()


def client(proxy: FilteringProxy) -> httpx.AsyncClient:
    return httpx.AsyncClient(proxy=proxy.url, trust_env=False, timeout=10)


async def test_an_allowed_request_passes_with_its_body() -> None:
    async with (
        http_server() as (port, heads),
        FilteringProxy(OriginPolicy(allow=(f"127.0.0.1:{port}",))) as proxy,
        client(proxy) as http,
    ):
        response = await http.post(f"http://127.0.0.1:{port}/a?b=c", content=b"x" * 200_000)
        assert response.content == b"/a?b=c " + b"x" * 200_000
        assert response.headers["connection"] == "close"
        for _ in range(3):  # Each on a connection of its own.
            assert (await http.get(f"http://127.0.0.1:{port}/again")).status_code == 200
        assert not any(b"proxy" in head.lower() for head in heads)
        assert proxy.take_denials() == []


async def test_a_denied_request_reaches_nobody_and_is_noted() -> None:
    async with (
        http_server() as (port, heads),
        FilteringProxy(OriginPolicy(allow=("other.test",))) as proxy,
        client(proxy) as http,
    ):
        response = await http.get(f"http://127.0.0.1:{port}/secret")
        assert response.status_code == 403
        assert "not among the allowed origins" in response.text
        (denial,) = proxy.take_denials()
        assert denial.target == f"http://127.0.0.1:{port}/secret"
        assert heads == []


async def test_each_hop_of_a_redirect_is_judged() -> None:
    async with (
        http_server() as (port, _),
        FilteringProxy(OriginPolicy(allow=(f"127.0.0.1:{port}",))) as proxy,
        client(proxy) as http,
    ):
        response = await http.get(f"http://127.0.0.1:{port}/redirect", follow_redirects=True)
        assert response.status_code == 403
        assert [denial.target for denial in proxy.take_denials()] == ["http://evil.test/"]


async def test_a_public_name_with_a_private_address_is_denied() -> None:
    async with http_server() as (port, heads):

        async def rebound(host: str, port: int) -> list[str]:
            return ["127.0.0.1"]

        policy = OriginPolicy(allow=("*",))
        async with FilteringProxy(policy, resolve=rebound) as proxy, client(proxy) as http:
            response = await http.get(f"http://innocent.test:{port}/")
            assert response.status_code == 403
            assert "private or special address 127.0.0.1" in response.text
            assert heads == []


async def test_a_tunnel_is_opened_only_to_what_is_allowed() -> None:
    async with (
        http_server() as (port, heads),
        FilteringProxy(OriginPolicy(allow=(f"127.0.0.1:{port}",))) as proxy,
    ):
        host, proxy_port = proxy.url.removeprefix("http://").split(":")

        async def connect(target: str) -> tuple[bytes, bytes]:
            reader, writer = await asyncio.open_connection(host, int(proxy_port))
            writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            body = b""
            if b" 200 " in head:
                writer.write(b"GET /through HTTP/1.1\r\nHost: x\r\n\r\n")
                body = await reader.readuntil(b"/through ")
            writer.close()
            return head, body

        head, body = await connect(f"127.0.0.1:{port}")
        assert b" 200 " in head
        assert body.endswith(b"/through ")
        head, _ = await connect("evil.test:443")
        assert b" 403 " in head
        assert [denial.target for denial in proxy.take_denials()] == ["evil.test:443"]
        assert len(heads) == 1


@pytest.mark.parametrize(
    "request_head",
    [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"CONNECT nowhere HTTP/1.1\r\n\r\n",
     b"GET file:///etc/passwd HTTP/1.1\r\n\r\n", b"X" * 70_000 + b"\r\n\r\n", b"\xff\xfe\r\n\r\n"],
)  # fmt: skip
async def test_a_broken_request_is_refused(request_head: bytes) -> None:
    async with FilteringProxy(OriginPolicy(allow=("*",))) as proxy:
        host, port = proxy.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(request_head)
        answer = await asyncio.wait_for(reader.read(-1), 10)
        assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 403"))
        writer.close()
