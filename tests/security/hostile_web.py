"""Servers that see what reaches them, for the tests of this folder."""

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from webtraj.environments.local_server import LocalServer


@dataclasses.dataclass(slots=True)
class Response:
    body: str = ""
    status: int = 200
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)


class Site:
    """A web server on the loopback interface. It keeps the first line of all it was asked."""

    def __init__(self) -> None:
        self.pages: dict[str, str | Response] = {}
        self.asked: list[str] = []
        self._server = LocalServer(self._answer)

    @property
    def port(self) -> int:
        return int(self.host.partition(":")[2])

    @property
    def host(self) -> str:
        return self._server.address

    def url(self, path: str = "/") -> str:
        return f"http://{self.host}{path}"

    @property
    def paths(self) -> set[str]:
        """What it was asked for, but for the icon that browsers look for on their own."""
        return {line.split(" ")[1] for line in self.asked} - {"/favicon.ico"}

    async def __aenter__(self) -> "Site":
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                self.asked.append(head.partition("\r\n")[0])
                page = self.pages.get(head.split(" ")[1].partition("?")[0], Response("?", 404))
                if isinstance(page, str):
                    page = Response(page)
                body = page.body.encode()
                headers = {
                    "Content-Type": "text/html; charset=utf-8",
                    "Content-Length": str(len(body)),
                    **page.headers,
                }
                lines = [f"HTTP/1.1 {page.status} x", *(f"{k}: {v}" for k, v in headers.items())]
                writer.write("\r\n".join([*lines, "", ""]).encode() + body)
                await writer.drain()


class UdpListener(asyncio.DatagramProtocol):
    """Counts the packets that reach it."""

    def __init__(self) -> None:
        self.packets: list[bytes] = []
        self.port = 0

    def connection_made(self, transport: Any) -> None:
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, address: Any) -> None:
        self.packets.append(data)


async def eventually(condition: Callable[[], Any], *, seconds: float = 60.0) -> Any:
    """Waits until a condition holds; returns what it gave."""
    async with asyncio.timeout(seconds):
        while not (found := condition()):
            await asyncio.sleep(0.02)
    return found
