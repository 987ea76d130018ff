"""A server on this machine that answers each connection in a task of its own, and loses none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["Answer", "LocalServer"]

_CHUNK = 64 * 1024

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]
"""Answers one connection, which is closed when it returns."""


class LocalServer:
    """Listens at a free port of 127.0.0.1 from `start` to `stop`, or to the end of its event loop.

    `asyncio.start_server` with a coroutine function leaks a socket where a task is cancelled before
    it begins, and a listening one where the start itself is, or where nobody stops it.

    Args:
        answer: Answers a connection.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def address(self) -> str:
        """Host and port: `127.0.0.1:41234`."""
        assert self._server is not None, "The server has not been started."
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    async def start(self) -> None:
        """Start listening."""
        server = await asyncio.start_server(
            self._accept, "127.0.0.1", 0, limit=_CHUNK, start_serving=False
        )
        try:
            await server.start_serving()
        except BaseException:
            server.close()
            raise
        self._server = server
        # A task that only ends by being cancelled, as all are when their loop ends.
        self._keep(asyncio.Event().wait(), server.close)

    async def stop(self) -> None:
        """Stop listening and cut all connections. Idempotent."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None or not self._server.is_serving():
            writer.transport.abort()  # It came while the server closed.
            return
        self._keep(self._answer(reader, writer), writer.close)

    def _keep(self, work: Coroutine[Any, Any, Any], close: Callable[[], None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: close())
