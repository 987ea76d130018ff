"""Who may look: requests by this address alone, with the token if there is one, and no one else's.

Any page that a browser has open can send requests to this machine. So:

* a request must name the viewer by an address, or by a name of this machine: names of others may be
  made to lead here (DNS rebinding);
* what pages of other sites ask of the API is refused, by what browsers say of who asks;
* where others can reach the address, who asks must have the token. It comes once in the URL that
  `webtraj view` prints, and from then on in a cookie that no script and no other site can use.

Answers say that nothing but the viewer's own is to be run, loaded or asked: what episodes hold was
written by strangers.
"""

from __future__ import annotations

import hmac
import ipaddress
import urllib.parse
from typing import TYPE_CHECKING

import orjson

from webtraj.monitor.guard import HEADERS

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["HEADERS", "Guard", "cookie_name", "host_of"]

_CACHE_CONTROL = b"cache-control"
_SAFE = ("GET", "HEAD")


class Guard:
    """Answers for an application what it must not answer itself (ASGI).

    Args:
        app: The application.
        hosts: The names that it may be asked by, without ports.
        any_address: Whether it may be asked by any numeric address, too.
        token: What who asks must have: once as `?token=`, then in a cookie. None for nothing.
        cookie: The cookie's name.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: frozenset[str],
        any_address: bool = False,
        token: str | None = None,
        cookie: str = "webtraj-view",
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._any_address = any_address
        self._token = token
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or has it answered."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":  # There are none here.
                await send({"type": "websocket.close", "code": 1008})
            return

        async def send_closed(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = message["headers"]
                cached = any(name == _CACHE_CONTROL for name, _ in given)
                closed = [pair for pair in HEADERS if not (cached and pair[0] == _CACHE_CONTROL)]
                message["headers"] = [*given, *closed]
            await send(message)

        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        if not self._is_ours(host_of(host)):
            await _refuse(
                send_closed, 421, "The viewer answers to its address alone: open the URL that "
                "`webtraj view` printed.",
            )  # fmt: skip
        elif not _is_own(scope, headers, host):
            await _refuse(send_closed, 403, "The viewer answers to its own pages alone.")
        elif self._token is None or self._has_cookie(headers.get(b"cookie", "")):
            await self._app(scope, receive, send_closed)
        elif self._has_token(scope):
            await _let_in(send_closed, f"{self._cookie}={self._token}")
        else:
            await _refuse(
                send_closed, 401, "The viewer wants its token: open the URL that `webtraj view` "
                "printed, to the end.",
            )  # fmt: skip

    def _is_ours(self, name: str) -> bool:
        return name in self._hosts or (self._any_address and _is_address(name))

    def _has_token(self, scope: Scope) -> bool:
        if scope["method"] not in _SAFE or scope["path"].startswith("/api/"):
            return False
        query = urllib.parse.parse_qs(scope["query_string"].decode("latin-1"))
        return self._matches(query.get("token", [""])[-1])

    def _has_cookie(self, cookies: str) -> bool:
        for part in cookies.split(";"):  # Others set cookies that a strict parser stops at.
            name, _, value = part.strip().partition("=")
            if name == self._cookie and self._matches(value):
                return True
        return False

    def _matches(self, given: str) -> bool:
        expected = self._token or ""
        return hmac.compare_digest(given.encode(), expected.encode())


def cookie_name(port: int) -> str:
    """Returns the name of a viewer's cookie: browsers share cookies among the ports of a host.

    >>> cookie_name(8123)
    'webtraj-view-8123'
    """
    return f"webtraj-view-{port}"


def host_of(header: str) -> str:
    """Returns the name in a Host header, without its port.

    >>> host_of("LocalHost:80"), host_of("[::1]:80"), host_of("a@b")
    ('localhost', '::1', 'a@b')
    """
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_own(scope: Scope, headers: dict[bytes, str], host: str) -> bool:
    """Returns whether a request comes from a page of the viewer's own, or from no page."""
    origin = headers.get(b"origin")
    if origin is not None and urllib.parse.urlsplit(origin).netloc.lower() != host.lower():
        return False
    # Others may lead to the viewer by a link, but not use it.
    asks = scope["path"].startswith(("/api/", "/static/")) or scope["method"] not in _SAFE
    return not asks or headers.get(b"sec-fetch-site") in (None, "same-origin", "none")


async def _let_in(send: Send, cookie: str) -> None:
    jar = f"{cookie}; HttpOnly; SameSite=Strict; Path=/"
    headers = [(b"location", b"/"), (b"set-cookie", jar.encode()), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _refuse(send: Send, status: int, why: str) -> None:
    body = orjson.dumps({"error": why})
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
