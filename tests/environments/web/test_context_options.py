"""A site gets the credentials, cookies and user agent that the context's options give."""

import asyncio
import base64
import contextlib

import pytest

import webtraj
from webtraj.environments.local_server import LocalServer


@pytest.mark.slow
@pytest.mark.browser
async def test_credentials_storage_state_and_user_agent_reach_the_site() -> None:
    heads: list[str] = []
    wanted = "authorization: basic " + base64.b64encode(b"ada:lovelace").decode().lower()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            heads.append(head)
            known = wanted in head.lower()
            body = b"<button>Welcome</button>" if known else b"no"
            status = "200 OK" if known else '401 No\r\nWWW-Authenticate: Basic realm="x"'
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nConnection: close\r\n"
                f"Content-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
            await writer.drain()

    server = LocalServer(answer)
    await server.start()
    url = f"http://{server.address}/"
    options = {
        "http_credentials": {"username": "ada", "password": "lovelace"},
        "user_agent": "webtraj-test/1",
        "storage_state": {"cookies": [{"name": "kept", "value": "yes", "url": url}], "origins": []},
        "locale": "fr-FR",
        "timezone_id": "Asia/Tokyo",
    }
    try:
        task = webtraj.WebTask(goal="Look.", start_url=url, context_options=options)
        async with webtraj.make("web", task=task, viewport=(640, 480)) as env:
            timestep = await env.reset()
            assert 'button "Welcome"' in timestep.observation["axtree"]
            assert await env.session.page.evaluate(
                "[navigator.language, Intl.DateTimeFormat().resolvedOptions().timeZone,"
                " innerWidth, innerHeight]"
            ) == ["fr-FR", "Asia/Tokyo", 640, 480]
    finally:
        await server.stop()
    served = next(head for head in heads if wanted in head.lower())
    assert "user-agent: webtraj-test/1" in served.lower()
    assert "cookie: kept=yes" in served.lower()
