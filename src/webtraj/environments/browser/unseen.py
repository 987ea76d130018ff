"""Show the page script what it cannot see by itself: closed shadow roots and click handlers.

No script can get from an element to its closed shadow root, and no script in an isolated world can
see the handlers that the page's own scripts set. The debugging protocol sees both, and leaves no
trace in the page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from webtraj.environments.browser import page_script as page_script_lib

__all__ = ["show_click_handlers", "show_closed_roots"]

_QUERY: Final = "</"
"""A search that finds all elements, and the texts and comments that contain it. `found` in
`unseen.js` counts the same nodes."""

_MOST_HANDLERS: Final = 500
"""The most click handlers of a process that are shown."""


async def show_closed_roots(
    send: page_script_lib.Send, worlds: Sequence[page_script_lib.EnteredWorld]
) -> bool:
    """Show the page script the closed shadow roots that it does not know yet.

    A search counts the nodes of all documents in a process, which takes about a millisecond. The
    whole document is read only if the page script knows fewer nodes.

    Args:
        send: Sends a command to the documents' process.
        worlds: The worlds of the page script in that process.

    Returns:
        Whether there were new ones.

    Raises:
        BrowserError: The browser failed, or a document was replaced.
    """
    *counts, _, search, _ = await asyncio.gather(
        *(world.call(send, "found") for world in worlds),
        send("DOM.enable", {}),
        send("DOM.performSearch", {"query": _QUERY}),
        send("DOM.disable", {}),  # Forgets what was found.
    )
    if None in counts:  # Reading a page that large takes too long.
        return False
    unknown = search["resultCount"] - sum(counts)
    first = worlds[0]
    if unknown <= first.unexplained:
        first.unexplained = max(unknown, 0)
        return False
    snapshot = await send("DOMSnapshot.captureSnapshot", {"computedStyles": []})
    shown = await _show(send, worlds, "showRootsOf", list(_nodes_within(snapshot)))
    if not shown:
        first.unexplained = unknown
    return shown


async def show_click_handlers(
    send: page_script_lib.Send, worlds: Sequence[page_script_lib.EnteredWorld]
) -> bool:
    """Tell the page script which elements have click handlers.

    Args:
        send: Sends a command to the documents' process.
        worlds: The worlds of the page script in that process.

    Returns:
        Whether any of them is new to the page script.

    Raises:
        BrowserError: The browser failed, or a document was replaced.
    """
    options = {"expression": "document", "contextId": worlds[0].context}
    document = {"objectId": (await send("Runtime.evaluate", options))["result"]["objectId"]}
    whole = {**document, "depth": -1, "pierce": True}
    told, _ = await asyncio.gather(
        send("DOMDebugger.getEventListeners", whole), send("Runtime.releaseObject", document)
    )
    listeners = told["listeners"]
    nodes = [each["backendNodeId"] for each in listeners if each["type"] == "click"]
    return await _show(send, worlds, "showHandlers", list(dict.fromkeys(nodes))[:_MOST_HANDLERS])


async def _show(
    send: page_script_lib.Send,
    worlds: Sequence[page_script_lib.EnteredWorld],
    function: str,
    nodes: Sequence[int],
) -> bool:
    """Call a page script function with nodes by backend id; return whether any is new to it."""
    group = {"objectGroup": f"webtraj-{function}"}
    try:
        news = [await world.show(send, function, nodes, group) for world in worlds]
    finally:
        await send("Runtime.releaseObjectGroup", group)
    return any(news)


def _nodes_within(snapshot: Mapping[str, Any]) -> Iterator[int]:
    """Yield backend ids of nodes within closed shadow roots, at least one per root."""
    for document in snapshot["documents"]:
        nodes = document["nodes"]
        kinds = nodes["shadowRootType"]
        first_children: dict[int, int] = {}  # Roots are left out: their hosts count as the parents.
        for index, kind in zip(kinds["index"], kinds["value"], strict=True):
            if snapshot["strings"][kind] == "closed":
                first_children.setdefault(nodes["parentIndex"][index], index)
        yield from (nodes["backendNodeId"][index] for index in first_children.values())
