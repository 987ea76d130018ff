"""A local server that stops leaves no connection open."""

import asyncio
import socket

from webtraj.environments.local_server import HttpServer, Response


async def test_a_server_that_stops_closes_a_connection_it_has_just_accepted(monkeypatch):
    accepted = asyncio.Event()
    writers = []
    made = asyncio.StreamReaderProtocol.connection_made

    def connection_made(protocol, transport):
        accepted.set()  # First, so that who waits runs before the connection's task begins.
        writers.append(transport)
        made(protocol, transport)

    async with HttpServer(lambda request: Response(b"")) as server:
        monkeypatch.setattr(asyncio.StreamReaderProtocol, "connection_made", connection_made)
        port = int(server.origin.rpartition(":")[2])
        client = socket.create_connection(("127.0.0.1", port))  # The loop accepts it below.
        await accepted.wait()
    await asyncio.sleep(0)
    client.close()
    assert [transport.is_closing() for transport in writers] == [True]
