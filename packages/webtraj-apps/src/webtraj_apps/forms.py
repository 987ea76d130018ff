"""Fill in forms of pages and send them without a browser, to simulate other people."""

from __future__ import annotations

import dataclasses
import email.message
import email.parser
import html.parser
from collections.abc import Awaitable, Callable, Mapping
from http.cookies import SimpleCookie
from urllib.parse import urldefrag, urlencode, urljoin

__all__ = ["Form", "find_form", "submit"]

Ask = Callable[[bytes], Awaitable[bytes]]
"""Sends an HTTP request, and returns the response."""


@dataclasses.dataclass(slots=True)
class Form:
    """A form, as its page fills it in."""

    action: str
    """The address to send it to; empty for that of the page."""
    names: set[str] = dataclasses.field(default_factory=set)
    """The names of all fields and buttons."""
    values: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    """What is sent if nobody changes anything and presses no button."""


class _Forms(html.parser.HTMLParser):
    """Collects the forms of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self._form: Form | None = None
        self._area: tuple[str, list[str]] | None = None
        self._list: tuple[str, list[str], bool] | None = None
        """The name of the list that is open, its chosen options, and whether it takes several."""
        self._named_by_text = False
        """Whether the last chosen option has no value but its text."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._form = Form(given.get("action", ""))
            self.forms.append(self._form)
        name = given.get("name", "")
        if self._form is None or "disabled" in given:
            return
        if tag == "option" and self._list is not None:
            first = not self._list[1] and not self._list[2]
            if "selected" in given or first:
                if "selected" in given and not self._list[2]:
                    self._list[1].clear()
                self._list[1].append(given.get("value", ""))
                self._named_by_text = "value" not in given
        if not name:
            return
        self._form.names.add(name)
        if tag == "textarea":
            self._area = (name, [])
        elif tag == "select":
            self._list = (name, [], "multiple" in given)
        elif tag == "input":
            kind = given.get("type", "text")
            ticks = kind in ("checkbox", "radio")
            if kind not in ("submit", "button", "image", "file", "reset") and (
                not ticks or "checked" in given
            ):
                self._form.values.append((name, given.get("value", "on" if ticks else "")))

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            self._area[1].append(data)
        elif self._named_by_text and self._list is not None:
            self._list[1][-1] = f"{self._list[1][-1]}{data}".strip()

    def handle_endtag(self, tag: str) -> None:
        self._named_by_text = False
        if self._form is not None and tag == "textarea" and self._area is not None:
            self._form.values.append((self._area[0], "".join(self._area[1]).removeprefix("\n")))
            self._area = None
        elif self._form is not None and tag == "select" and self._list is not None:
            self._form.values += [(self._list[0], chosen) for chosen in self._list[1]]
            self._list = None
        elif tag == "form":
            self._form = None


def find_form(page: str, *names: str) -> Form:
    """Return the first form of a page that has fields or buttons of these names.

    Raises:
        LookupError: No form has them.
    """
    parser = _Forms()
    parser.feed(page)
    for form in parser.forms:
        if form.names.issuperset(names):
            return form
    raise LookupError(f"No form of the page has the fields {', '.join(names)}.")


async def submit(
    ask: Ask, origin: str, path: str, fields: Mapping[str, str], cookies: Mapping[str, str]
) -> None:
    """Open a page, fill in its form with these fields, and send it.

    Args:
        ask: Sends a request to the site.
        origin: The site's origin, as browsers see it.
        path: The path of the page.
        fields: Values of fields, and of the button to press, by name. Other fields keep their
            values.
        cookies: The user's cookies.

    Raises:
        LookupError: There is no such page or form, or the site refuses it.
    """
    jar = dict(cookies)
    page = await _request(ask, "GET", origin + path, jar)
    form = find_form(page, *fields)
    sent = [(name, value) for name, value in form.values if name not in fields]
    action = urldefrag(urljoin(origin + path, form.action)).url
    await _request(ask, "POST", action, jar, urlencode([*sent, *fields.items()]))


async def _request(ask: Ask, method: str, url: str, jar: dict[str, str], body: str = "") -> str:
    """Send a request, and return the page; cookies of the response go into the jar.

    The request is not one by which a browser opens a page, so the world's clock stands still.
    """
    host, _, path = url.partition("://")[2].partition("/")
    cookies = "; ".join(f"{name}={value}" for name, value in jar.items())
    lines = [f"{method} /{path} HTTP/1.1", f"Host: {host}", "Accept: */*", f"Cookie: {cookies}"]
    if body:
        lines += [
            "Content-Type: application/x-www-form-urlencoded",
            f"Content-Length: {len(body)}",
            f"Origin: {url.partition('://')[0]}://{host}",
            f"Referer: {url}",
        ]
    response = await ask("\r\n".join([*lines, "", body]).encode())
    head, _, content = response.partition(b"\r\n\r\n")
    status, _, headers = head.decode("latin-1").partition("\r\n")
    parsed: email.message.Message = email.parser.HeaderParser().parsestr(headers)
    for given in parsed.get_all("Set-Cookie", ()):
        jar |= {name: one.value for name, one in SimpleCookie(given).items()}
    if int(status.split()[1]) >= 400:
        raise LookupError(f"{method} {url} answered {status}.")
    return content.decode(parsed.get_content_charset("utf-8"), "replace")
