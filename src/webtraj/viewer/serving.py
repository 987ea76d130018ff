"""Serving the viewer: at an address of this machine, until it is told to end."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from webtraj.local_pages import serving as serving_lib
from webtraj.viewer.app import WHAT, make_app

if TYPE_CHECKING:
    from webtraj.viewer.viewer import Viewer

__all__ = ["serving"]


def serving(
    viewer: Viewer, *, host: str = "127.0.0.1", port: int = 0, token: str | None = None
) -> AbstractAsyncContextManager[str]:
    """Returns what serves a viewer for as long as the context lasts, and yields the URL to open.

    Args:
        viewer: What is served.
        host: The address to listen at.
        port: The port; 0 has the system choose one that is free.
        token: What who looks must have. By default there is none for an address of this machine
            alone, and a new one for any other.

    Raises:
        InvalidInputError: On entering: it cannot listen there, or the token is too short to keep
            anyone out.
        MissingDependencyError: starlette or uvicorn is not installed.
    """
    return serving_lib.serving(
        make_app(viewer),
        host=host,
        port=port,
        token=token,
        what=WHAT,
        command="webtraj view",
        cookie="webtraj-view",
    )
