"""Who may look: requests by this address alone, with the token if there is one, and no one else's.

Any page that a browser has open can send requests to this machine. So:

* a request must name the page by an address, or by a name of this machine: names of others may be
  made to lead here (DNS rebinding);
* what pages of other sites ask of `/api/` and `/static/` is refused, by what browsers say of who
  asks;
* where others can reach the address, who asks must have the token. It comes once in the URL that
  the page's command prints, and from then on in a cookie that no script and no other site can use.

Answers say that nothing but the page's own is to be run, loaded or asked: what is shown was written
by strangers.
"""

from __future__ import annotations

import hmac
import urllib.parse
from typing import TYPE_CHECKING

import orjson

from webtraj.hosts import host_of, is_address

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["HEADERS", "Guard"]

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
_CACHE_CONTROL = b"cache-control"
HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (_CACHE_CONTROL, b"no-store"),
)
"""What every answer says, but for `cache-control` where the application has said it."""

_SAFE = ("GET", "HEAD")


class Guard:
    """Answers for an application what it must not answer itself (ASGI).

    Args:
        app: The application. What it has under `/api/` and `/static/` is for its own pages.
        what: What it is called where a request is refused, such as "The viewer".
        command: The command that printed its URL.
        hosts: The names that it may be asked by, without ports, in small letters.
        any_address: Whether it may be asked by any numeric address, too.
        methods: The methods that it may be asked by; None leaves that to the application.
        token: What who asks must have: once as `?token=`, then in a cookie. None for nothing.
        cookie: The cookie's name.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        what: str,
        command: str,
        hosts: frozenset[str],
        any_address: bool = False,
        methods: frozenset[str] | None = None,
        token: str | None = None,
        cookie: str = "webtraj",
    ) -> None:
        self._app = app
        self._what = what
        self._printed = f"open the URL that `{command}` printed"
        self._hosts = hosts
        self._any_address = any_address
        self._methods = methods
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
        refused = self._why_refused(scope, headers)
        if refused is not None:
            await _refuse(send_closed, *refused)
        elif self._token is None or self._has_cookie(headers.get(b"cookie", "")):
            await self._app(scope, receive, send_closed)
        elif self._has_token(scope):
            await _let_in(send_closed, f"{self._cookie}={self._token}")
        else:
            why = f"{self._what} wants its token: {self._printed}, to the end."
            await _refuse(send_closed, 401, why)

    def _why_refused(self, scope: Scope, headers: dict[bytes, str]) -> tuple[int, str] | None:
        """Returns the status and the reason, if even a token would not help."""
        host = headers.get(b"host", "")
        if not self._is_ours(host_of(host)):
            return 421, f"{self._what} answers to its address alone: {self._printed}."
        if not _is_own(scope, headers, host):
            return 403, f"{self._what} answers to no other site's pages."
        if self._methods is not None and scope["method"] not in self._methods:
            methods = " and ".join(sorted(self._methods))
            return 405, f"{self._what} can be asked by {methods} alone."
        return None

    def _is_ours(self, name: str) -> bool:
        return name in self._hosts or (self._any_address and is_address(name))

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


def _is_own(scope: Scope, headers: dict[bytes, str], host: str) -> bool:
    """Returns whether a request comes from a page of the application's own, or from no page."""
    origin = headers.get(b"origin")
    if origin is not None and _netloc_of(origin) != host.lower():
        return False
    # Others may lead to the page by a link, but not use it.
    asks = scope["path"].startswith(("/api/", "/static/")) or scope["method"] not in _SAFE
    return not asks or headers.get(b"sec-fetch-site") in (None, "same-origin", "none")


def _netloc_of(origin: str) -> str:
    try:
        return urllib.parse.urlsplit(origin).netloc.lower()
    except ValueError:  # It is no URL.
        return ""


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
