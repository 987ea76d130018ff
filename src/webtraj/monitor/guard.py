"""Who may see a page on this machine: the Host header, a token, and headers that keep it shut.

A page at a loopback address can be asked for by any page that a browser has open, by a name that
is made to mean this machine (DNS rebinding). So only requests by the address itself are answered.
An address that others can reach asks for a token besides.
"""

from __future__ import annotations

import hmac
import ipaddress
import urllib.parse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["HEADERS", "Guard", "is_loopback", "netloc"]

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


def is_loopback(host: str) -> bool:
    """Returns whether an address is this machine's alone.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def netloc(host: str, port: int) -> str:
    """Returns an address as URLs have it.

    >>> netloc("::1", 80)
    '[::1]:80'
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Guard:
    """Answers for an application what it must not answer itself (ASGI).

    Args:
        app: The application.
        hosts: The names that it may be asked by, without ports; None for any, with a token.
        token: What who asks must have: in `?token=`, which becomes a cookie, or in that cookie.
        cookie: The cookie's name; browsers share cookies among the ports of a host.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: frozenset[str] | None,
        token: str | None,
        cookie: str = "webtraj-monitor",
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._token = token
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or has it answered."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_closed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        headers = {name.lower(): value for name, value in scope["headers"]}
        if self._hosts is not None and _host(headers.get(b"host", b"")) not in self._hosts:
            await _answer(send_closed, 421, "This page is served by its address alone.")
        elif headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin") and (
            scope["path"] != "/"
        ):  # Others may lead here by a link, and use nothing.
            await _answer(send_closed, 403, "This page answers to itself alone.")
        elif scope["method"] not in ("GET", "HEAD"):
            await _answer(send_closed, 405, "This page can only be looked at.")
        elif self._token is None or self._is_known(headers.get(b"cookie", b"")):
            await self._app(scope, receive, send_closed)
        elif self._is_token(scope["query_string"]):
            cookie = f"{self._cookie}={self._token}; HttpOnly; SameSite=Strict; Path=/"
            await _answer(
                send_closed, 303, "",
                ((b"location", b"/"), (b"set-cookie", cookie.encode())),
            )  # fmt: skip
        else:
            await _answer(send_closed, 401, "Open the URL that `webtraj monitor` printed.")

    def _is_token(self, query: bytes) -> bool:
        given = urllib.parse.parse_qs(query.decode("latin-1")).get("token", [""])
        return self._matches(given[-1])

    def _is_known(self, cookies: bytes) -> bool:
        for part in cookies.decode("latin-1").split(";"):
            name, _, value = part.strip().partition("=")
            if name == self._cookie and self._matches(value):
                return True
        return False

    def _matches(self, given: str) -> bool:
        expected = self._token or ""
        return hmac.compare_digest(given.encode(), expected.encode())


def _host(header: bytes) -> str:
    """Returns the name in a Host header, without its port."""
    text = header.decode("latin-1").lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0]


async def _answer(
    send: Send, status: int, text: str, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    body = text.encode()
    about = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
    ]
    await send({"type": "http.response.start", "status": status, "headers": [*about, *headers]})
    await send({"type": "http.response.body", "body": body})
