"""A server for local pages ends every connection when it stops, whatever its peers do."""

import asyncio
import contextlib

from rows import each
from webtraj.environments.local_server import LocalServer

MUCH = bytes(50_000_000)
"""More than the systems of two peers keep."""


@each("ends", [True, False])
async def test_stopping_cuts_a_connection_that_nobody_reads(ends: bool) -> None:
    written = asyncio.Event()

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(MUCH)
        written.set()
        if not ends:
            await writer.drain()

    server = LocalServer(answer)
    await server.start()
    reader, writer = await asyncio.open_connection(*server.address.split(":"))
    await written.wait()
    await server.stop()
    got = 0
    with contextlib.suppress(ConnectionResetError):
        while chunk := await asyncio.wait_for(reader.read(1 << 20), 30):
            got += len(chunk)
    writer.close()
    assert got < len(MUCH)
