"""What a browser context receives: its traffic, as entries of a HAR 1.2 log, and files.

`TrafficLog` notes each HTTP exchange when it ends; `take` returns those since the last call, one
JSON object per line. Each follows the HAR format, so `webtraj export --format har` only has to put
them together. Cookies are never noted, and headers, parameters and fields with a secret's name
(`Authorization`, `password`, ...) have no values; other secrets are redacted with the observation
that holds the lines. Noting never raises, because lost traffic must not break an episode.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import datetime
import logging
import mimetypes
import re
import tempfile
import urllib.parse
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import orjson

from webtraj.settings import credentials
from webtraj.settings.credentials import HIDDEN

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Download, Page, Request, Response

__all__ = ["DownloadShelf", "DownloadedFile", "TrafficLog", "safe_name"]

_logger = logging.getLogger(__name__)

_MOST_ENTRIES: Final = 2000
"""The most exchanges noted between two observations."""
_ARRIVAL: Final = 0.5
"""The most seconds that an observation waits for files that are arriving."""
_BODY_WAIT: Final = 2.0
"""The most seconds that an observation waits for bodies that are still being read."""
_COOKIES: Final = frozenset({"cookie", "cookie2", "set-cookie", "set-cookie2"})
_AUTHORIZATION: Final = frozenset({"authorization", "proxy-authorization"})
_TEXTS: Final = ("text/", "+json", "+xml", "/json", "/xml", "javascript", "urlencoded")
_FORM: Final = "application/x-www-form-urlencoded"
_TIMINGS: Final = {
    "dns": ("domainLookupStart", "domainLookupEnd"),
    "connect": ("connectStart", "connectEnd"),
    "ssl": ("secureConnectionStart", "connectEnd"),
}


class TrafficLog:
    """The HTTP exchanges of a context.

    Args:
        context: The context.
        body_limit: The largest body that is noted, in bytes; 0 notes none.
    """

    def __init__(self, context: BrowserContext, *, body_limit: int = 0) -> None:
        self._body_limit = body_limit
        self._responses: dict[Request, Response] = {}
        self._entries: list[dict[str, Any]] = []
        self._lost = 0
        self._reading: set[asyncio.Task[None]] = set()
        context.on("response", self._on_response)
        context.on("requestfinished", self._on_end)
        context.on("requestfailed", self._on_end)

    def clear(self) -> None:
        """Forget what was noted, as it belongs to an earlier episode."""
        self._entries, self._lost = [], 0

    async def take(self) -> str:
        """Return the exchanges since the last call, in the order in which they began."""
        if self._reading:
            await asyncio.wait(self._reading, timeout=_BODY_WAIT)
        entries, lost = self._entries, self._lost
        self.clear()
        if lost:
            _logger.warning("%d more HTTP exchanges of a step were not recorded.", lost)
        entries.sort(key=lambda entry: entry["startedDateTime"])
        return "".join(orjson.dumps(entry).decode() + "\n" for entry in entries)

    def _on_response(self, response: Response) -> None:
        try:
            self._responses[response.request] = response
        except Exception:  # Playwright's, here and below: the page has died.
            _logger.debug("A response was not noted.", exc_info=True)

    def _on_end(self, request: Request) -> None:
        response = self._responses.pop(request, None)
        if len(self._entries) >= _MOST_ENTRIES:
            self._lost += 1
            return
        try:
            if not request.url.startswith(("http:", "https:")):
                return
            entry = self._entry(request, response)
        except Exception:
            _logger.debug("A request was not noted.", exc_info=True)
            return
        self._entries.append(entry)
        if self._body_limit and response is not None and not 300 <= response.status < 400:
            task = asyncio.ensure_future(self._read_body(response, entry))
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)

    def _entry(self, request: Request, response: Response | None) -> dict[str, Any]:
        timing = request.timing
        timings = {name: _span(timing, *ends) for name, ends in _TIMINGS.items()}
        timings |= {
            "send": 0,
            "wait": max(_span(timing, "requestStart", "responseStart"), 0),
            "receive": max(_span(timing, "responseStart", "responseEnd"), 0),
        }
        begun = max(timing["startTime"], 0) / 1e3
        entry: dict[str, Any] = {
            "startedDateTime": datetime.datetime.fromtimestamp(begun, datetime.UTC).isoformat(
                timespec="milliseconds"
            ),
            "time": max(timing["responseEnd"], 0),
            "request": self._request(request),
            "response": _response(response),
            "cache": {},
            "timings": timings,
            "_resourceType": request.resource_type,
        }
        if request.failure:
            entry["response"]["_error"] = request.failure
        return entry

    def _request(self, request: Request) -> dict[str, Any]:
        url = _without_secrets(request.url)
        made: dict[str, Any] = {
            "method": request.method,
            "url": url,
            "httpVersion": "HTTP/1.1",
            "cookies": [],
            "headers": _headers(request.headers),
            # A secret may contain `&`: only the export splits the query, once it is redacted.
            "queryString": [],
            "headersSize": -1,
            "bodySize": -1,
        }
        body = request.post_data_buffer if self._body_limit else None
        if body is not None:
            kind = request.headers.get("content-type", "")
            made["postData"] = {"mimeType": kind, "text": self._redact_body(kind, body)}
        return made

    def _redact_body(self, kind: str, body: bytes) -> str:
        """Return a request's body without the values of secret fields."""
        if len(body) > self._body_limit or not (kind.startswith(_FORM) or "json" in kind):
            return HIDDEN
        text = body.decode("utf-8", "replace")
        if kind.startswith(_FORM):
            fields = urllib.parse.parse_qsl(text, keep_blank_values=True)
            if not any(credentials.is_secret_name(name, hints=True) for name, _ in fields):
                return credentials.conceal(text)
            return urllib.parse.urlencode([(n, _value(n, v, hints=True)) for n, v in fields])
        try:
            return orjson.dumps(credentials.conceal_data(orjson.loads(text))).decode()
        except ValueError:
            return credentials.conceal(text)

    async def _read_body(self, response: Response, entry: dict[str, Any]) -> None:
        content = entry["response"]["content"]
        try:
            declared = response.headers.get("content-length", "")
            if declared.isdecimal() and int(declared) > self._body_limit:
                content["comment"] = f"{declared} bytes are above the limit"
                return
            body = await response.body()
        except Exception as error:
            content["comment"] = f"not read: {type(error).__name__}"
            return
        content["size"] = len(body)
        if len(body) > self._body_limit:
            content["comment"] = "above the limit"
        elif any(part in content["mimeType"] for part in _TEXTS):
            content["text"] = body.decode("utf-8", "replace")
        else:
            content |= {"text": base64.b64encode(body).decode(), "encoding": "base64"}


def _response(response: Response | None) -> dict[str, Any]:
    """Return a response without its body. A response that never came has status 0."""
    headers = {} if response is None else response.headers
    return {
        "status": 0 if response is None else response.status,
        "statusText": "" if response is None else response.status_text,
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": _headers(headers),
        "content": {"size": -1, "mimeType": headers.get("content-type", "x-unknown")},
        "redirectURL": _without_secrets(headers.get("location", "")),
        "headersSize": -1,
        "bodySize": -1,
    }


def _headers(headers: dict[str, str]) -> list[dict[str, str]]:
    return [
        {"name": name, "value": HIDDEN if name in _AUTHORIZATION else _value(name, value)}
        for name, value in headers.items()
        if name not in _COOKIES
    ]


def _value(name: str, value: str, *, hints: bool = False) -> str:
    """Return a value, unless its name or form is that of a secret."""
    if credentials.is_secret_name(name, hints=hints):
        return HIDDEN
    return _without_secrets(value) if "://" in value else credentials.conceal(value)


def _without_secrets(url: str) -> str:
    """Return a URL without password and without the values of secret parameters."""
    parts = urllib.parse.urlsplit(url)
    return credentials.conceal(parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl())


def _span(timing: Any, start: str, end: str) -> float:
    """Return a duration in milliseconds; as in HAR, -1 if it does not apply."""
    return timing[end] - timing[start] if timing[start] >= 0 and timing[end] >= 0 else -1


# Downloaded files: recorded with the step in which they arrive, up to a size limit.

_MAX_WAITING: Final = 100
"""The most files kept between two steps; a page may offer any number."""

_MAX_NAME: Final = 120
_UNSAFE = re.compile(r'[\x00-\x1f\x7f<>:"|?*\u202a-\u202e\u2066-\u2069]+')
_TOO_LARGE: Final = "larger than {limit} bytes"
_UNKNOWN_TYPE: Final = "application/octet-stream"


@dataclasses.dataclass(frozen=True, slots=True)
class DownloadedFile:
    """A file that a page offered for download."""

    name: str
    """A plain file name, whatever the page called it."""
    url: str
    mime_type: str
    """By the name's ending."""
    size: int
    """Bytes; 0 if it did not arrive."""
    content: bytes
    """Empty if it is not kept."""
    error: str
    """Why the file is not kept; empty if it is."""


class DownloadShelf:
    """A collection of the files that a session's pages offer.

    Args:
        limit: The size in bytes of the largest file that is kept.
    """

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._files: list[DownloadedFile] = []
        self._arriving: set[asyncio.Task[None]] = set()

    def watch(self, page: Page) -> None:
        """Start collecting a page's downloads."""
        page.on("download", self._on_download)

    def take(self) -> list[DownloadedFile]:
        """Return the files that arrived or failed since the last call."""
        taken, self._files = self._files, []
        return taken

    async def settle(self) -> None:
        """Wait a moment for files that are arriving."""
        if self._arriving:
            await asyncio.wait(self._arriving, timeout=_ARRIVAL)

    def _on_download(self, download: Download) -> None:
        arrival = asyncio.ensure_future(self._receive(download))
        self._arriving.add(arrival)
        arrival.add_done_callback(self._arriving.discard)

    async def _receive(self, download: Download) -> None:
        from playwright.async_api import Error as PlaywrightError

        size, content, error = 0, b"", ""
        try:
            with tempfile.TemporaryDirectory(prefix="webtraj-download-") as folder:
                # Not `path`, which a remote browser cannot provide.
                file = Path(folder) / "file"
                await download.save_as(file)
                size = file.stat().st_size
                if size > self._limit:
                    error = _TOO_LARGE.format(limit=self._limit)
                else:
                    content = await asyncio.to_thread(file.read_bytes)
            await download.delete()
        except (PlaywrightError, OSError) as failure:
            error = error or str(failure).partition("\n")[0]
        if len(self._files) < _MAX_WAITING:
            name = safe_name(download.suggested_filename)
            mime_type = mimetypes.guess_type(name)[0] or _UNKNOWN_TYPE
            self._files.append(DownloadedFile(name, download.url, mime_type, size, content, error))


def safe_name(name: str) -> str:
    """Return a name that is valid on any file system and contains no folder.

    >>> safe_name("../../etc/passwd")
    'passwd'
    >>> safe_name(".bashrc"), safe_name("..")
    ('bashrc', 'download')
    """
    plain = _UNSAFE.sub("_", PurePosixPath(name.replace("\\", "/")).name).strip(". ")
    # Well-formed UTF-8, so that the name can be written.
    plain = plain.encode("utf-8", "replace").decode()
    stem, dot, ending = plain.rpartition(".")
    if dot and len(ending) < _MAX_NAME // 4:
        plain = f"{stem[: _MAX_NAME - len(ending) - 1]}.{ending}"
    return plain[:_MAX_NAME] or "download"
