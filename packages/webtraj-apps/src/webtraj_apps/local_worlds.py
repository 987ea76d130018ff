"""Worlds of applications at ports of this machine, for a person's browser or a script."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

from webtraj import errors
from webtraj.environments.local_server import LocalServer
from webtraj_apps import app as app_lib
from webtraj_apps import tasks as tasks_lib

__all__ = ["open_app", "open_task", "script_variables"]

_CHUNK = 64 * 1024


@contextlib.asynccontextmanager
async def open_app(app: app_lib.App, *, seed: int = 0, port: int = 0) -> AsyncIterator[str]:
    """Serve a world of an application, as long as the context lasts.

    A browser that comes without cookies is logged in as the world's user, the fact `user`.

    Args:
        app: The application.
        seed: The seed of the world.
        port: The port; 0 for a free one.

    Yields:
        The address. Its host is `NAME.localhost`, so that applications do not share cookies.

    Raises:
        MissingDependencyError: The application is not installed.
        BrowserError: The server does not start.
        InvalidInputError: The port is taken.
    """
    world = await app.world(seed)
    try:
        cookies = world.facts.get("cookies", {}).get(world.facts.get("user"), {})
        async with _served(world, cookies, port) as address:
            yield address
    finally:
        world.discard()


@contextlib.asynccontextmanager
async def open_task(
    task: tasks_lib.AppTask, *, seed: int = 0, port: int = 0
) -> AsyncIterator[Mapping[str, str]]:
    """Serve the worlds of a task, as long as the context lasts; `task.wrong_with` judges them.

    A browser that comes without cookies is logged in as the task's user.

    Args:
        task: The task. It is begun with the seed.
        seed: The seed of the task and its worlds.
        port: The port of the first application. The others get the next ports. 0 means free ports.

    Yields:
        The addresses, by application. See `open_app`.

    Raises:
        MissingDependencyError: An application is not installed.
        BrowserError: A server does not start.
        InvalidInputError: A port is taken.
    """
    await task.begin(seed)
    try:
        async with contextlib.AsyncExitStack() as stack:
            yield {
                name: await stack.enter_async_context(
                    _served(world, task.cookies_of(name), port and port + number)
                )
                for number, (name, world) in enumerate(task.worlds.items())
            }
    finally:
        task.discard()


def script_variables(addresses: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables by which exported scripts find the addresses of a task.

    >>> script_variables({"shop": "http://shop.localhost:1", "mail": "http://mail.localhost:2"})
    {'BASE_URL': 'http://shop.localhost:1', 'MAIL_URL': 'http://mail.localhost:2'}
    """
    first, *others = addresses
    return {"BASE_URL": addresses[first], **{f"{n.upper()}_URL": addresses[n] for n in others}}


@contextlib.asynccontextmanager
async def _served(
    world: app_lib.World, cookies: Mapping[str, str], port: int
) -> AsyncIterator[str]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):  # The browser may go away at any time.
            begun = await reader.read(_CHUNK)
            if cookies and (path := _page_without_cookies(begun)):
                writer.write(_login(path, cookies))
                await writer.drain()
            elif begun:
                await world.serve(reader, writer, begun)

    server = LocalServer(answer, port=port)
    try:
        await server.start()
    except OSError as error:
        raise errors.InvalidInputError(f"Cannot listen at port {port}: {error.strerror}.") from None
    try:
        yield f"http://{world.app.name}.localhost:{server.address.rpartition(':')[2]}"
    finally:
        await server.stop()


def _page_without_cookies(request: bytes) -> str:
    """Return the path of a request for a page, if it carries no cookies; else an empty text."""
    head = request.partition(b"\r\n\r\n")[0]
    lines = head.lower().split(b"\r\n")
    wants_page = any(line.startswith(b"accept:") and b"text/html" in line for line in lines)
    has_cookies = any(line.startswith(b"cookie:") for line in lines)
    if not lines[0].startswith(b"get ") or not wants_page or has_cookies:
        return ""
    return head.split(b" ", 2)[1].decode("latin-1")


def _login(path: str, cookies: Mapping[str, str]) -> bytes:
    """Return a response that sets cookies and leads to the same page."""
    lines = ["HTTP/1.0 302 Found", f"Location: {path}", "Content-Length: 0"]
    lines += [f"Set-Cookie: {name}={value}; Path=/" for name, value in cookies.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
