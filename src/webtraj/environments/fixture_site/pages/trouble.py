"""Everything that goes wrong on the web: slow, broken and endless answers, pages that misbehave.

Each path does one thing, at once and on purpose; the page `/trouble` lists them.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from webtraj.environments.fixture_site.html import element
from webtraj.environments.fixture_site.messages import Response, found
from webtraj.environments.fixture_site.pages import layout
from webtraj.environments.fixture_site.routing import Visit, routes

__all__: list[str] = []

_MAX_MS: Final = 60_000

_SQUARE: Final = (
    b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9">'
    b'<rect width="9" height="9"/></svg>'
)

_PATHS: Final = {
    "/slow?ms=500": "An answer after half a second",
    "/slow-parts?ms=500": "A page whose script and image are slow",
    "/status/404": "Not found",
    "/status/500": "An internal error",
    "/status/503": "Out of service",
    "/status/204": "No content",
    "/cut": "A connection that breaks",
    "/never": "No answer, ever",
    "/redirects/3": "Three redirects",
    "/loop": "A redirect to itself",
    "/away": "A redirect to another origin",
    "/refresh": "A page that moves on by itself",
    "/run/busy": "A script that never ends",
    "/run/memory": "A script that fills the memory",
    "/run/console": "A script that fills the console",
    "/run/restless": "A page that never stands still",
    "/run/crash": "A script that fails",
    "/run/alerts": "A script that alerts for ever",
    "/run/popups": "A script that opens windows",
    "/large": "A page of 20,000 elements",
}


@routes("GET", "/trouble")
def trouble(visit: Visit) -> Response:
    """Lists what can go wrong."""
    return visit.show(
        "Trouble", layout.listing([layout.link(text, path) for path, text in _PATHS.items()])
    )


@routes("GET", "/slow")
def slow(visit: Visit) -> Response:
    """Answers after `ms` milliseconds."""
    seconds = _seconds(visit)
    page = visit.show("Slow", element("p", f"This took {seconds:g} s."))
    return Response(body=page.body, delay=seconds)


@routes("GET", "/slow-parts")
def slow_parts(visit: Visit) -> Response:
    """Shows a page at once whose parts come after `ms` milliseconds."""
    ms = round(_seconds(visit) * 1000)
    return visit.show(
        "Slow parts",
        element("p", "Not yet.", id="late", role="status"),
        element("script", src=f"/slow-parts/script.js?ms={ms}", defer=True),
        element("img", src=f"/slow-parts/image.svg?ms={ms}", alt="A square"),
    )


@routes("GET", "/slow-parts/script.js")
def slow_script(visit: Visit) -> Response:
    """Gives a script late."""
    body = b'document.getElementById("late").textContent = "Here it is.";'
    return Response(body=body, content_type="text/javascript", delay=_seconds(visit))


@routes("GET", "/slow-parts/image.svg")
def slow_image(visit: Visit) -> Response:
    """Gives an image late."""
    return Response(body=_SQUARE, content_type="image/svg+xml", delay=_seconds(visit))


def _seconds(visit: Visit) -> float:
    ms = int(visit.request.query.get("ms", "500"))
    if not 0 <= ms <= _MAX_MS:
        raise ValueError(f"ms is 0 to {_MAX_MS}; got {ms}.")
    return ms / 1000


@routes("GET", "/status/*")
def status(visit: Visit) -> Response:
    """Answers with a status."""
    code = HTTPStatus(int(visit.arguments[0]))
    if code < 200:
        raise ValueError(f"{code:d} is no final status.")
    if code in (HTTPStatus.NO_CONTENT, HTTPStatus.RESET_CONTENT, HTTPStatus.NOT_MODIFIED):
        return Response(status=code)
    return visit.show(f"{code:d} {code.phrase}", status=code)


@routes("GET", "/cut")
def cut(visit: Visit) -> Response:
    """Breaks the connection in the middle of a page."""
    return Response(body=visit.show("Cut", element("p", "word " * 2000)).body, fault="cut")


@routes("GET", "/never")
def never(visit: Visit) -> Response:
    """Never answers."""
    return Response(fault="hang")


@routes("GET", "/redirects/*")
def redirects(visit: Visit) -> Response:
    """Redirects as many times as the path says."""
    left = int(visit.arguments[0])
    return found(f"/redirects/{left - 1}" if left > 1 else "/trouble")


@routes("GET", "/loop")
def loop(visit: Visit) -> Response:
    """Redirects to itself."""
    return found("/loop")


@routes("GET", "/away")
def away(visit: Visit) -> Response:
    """Redirects to the other origin."""
    return found(f"{visit.other_origin}/trouble?visit={visit.token}")


@routes("GET", "/refresh")
def refresh(visit: Visit) -> Response:
    """Moves on by itself."""
    page = visit.show("One moment", element("p", "You will be taken further."))
    return Response(body=page.body, headers=(("refresh", "0; url=/trouble"),))


@routes("GET", "/run/*")
def run(visit: Visit) -> Response:
    """Shows a page with a button that starts one kind of trouble; `?now=1` starts it at once."""
    (kind,) = visit.arguments
    if f"/run/{kind}" not in _PATHS:
        raise LookupError(visit.request.path)
    return visit.show(
        _PATHS[f"/run/{kind}"],
        element(
            "button",
            "Start",
            id="start",
            type="button",
            data_trouble=kind,
            data_now=visit.request.query.get("now") == "1",
        ),
        element("p", id="count", role="status"),
        layout.script("trouble.js"),
    )


@routes("GET", "/large")
def large(visit: Visit) -> Response:
    """Shows a page of 20,000 elements."""
    return visit.show(
        "Large", [element("div", element("a", i, href=f"#{i}")) for i in range(10_000)]
    )
