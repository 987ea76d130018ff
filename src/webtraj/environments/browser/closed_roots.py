"""Closed shadow roots: found through the debugging protocol and shown to the page script.

No script can get from an element to its closed shadow root, but the debugging protocol sees it, and
leaves no trace in the page. A search counts the nodes of all documents in a process, at a cost of
about a millisecond; only where the page script knows fewer is the document read whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from webtraj.environments.browser import page_script as page_script_lib

__all__ = ["show_closed_roots"]

_QUERY: Final = "</"
"""It finds all elements, and the texts and comments that contain it: `found` in `closed.js`."""

_GROUP: Final = {"objectGroup": "webtraj-roots"}


async def show_closed_roots(
    send: page_script_lib.Send, worlds: Sequence[page_script_lib.EnteredWorld]
) -> bool:
    """Show the page script the closed shadow roots that it does not know yet.

    Args:
        send: Sends a command to the documents' process.
        worlds: The worlds of the page script in that process.

    Returns:
        Whether there were any.

    Raises:
        BrowserError: The browser failed, or a document was replaced.
    """
    *counts, _, search, _ = await asyncio.gather(
        *(world.call(send, "found") for world in worlds),
        send("DOM.enable", {}),
        send("DOM.performSearch", {"query": _QUERY}),
        send("DOM.disable", {}),  # Forgets what was found.
    )
    unknown = search["resultCount"] - sum(counts)
    first = worlds[0]
    if unknown <= first.unexplained:
        first.unexplained = max(unknown, 0)
        return False
    snapshot = await send("DOMSnapshot.captureSnapshot", {"computedStyles": []})
    nodes = list(_nodes_within(snapshot))
    try:
        shown = [await world.show_roots_of(send, nodes, _GROUP) for world in worlds]
    finally:
        await send("Runtime.releaseObjectGroup", _GROUP)
    if not any(shown):
        first.unexplained = unknown
    return any(shown)


def _nodes_within(snapshot: Mapping[str, Any]) -> Iterator[int]:
    """Yield backend ids of nodes within closed shadow roots, at least one of each."""
    for document in snapshot["documents"]:
        nodes = document["nodes"]
        kinds = nodes["shadowRootType"]
        first_children = {}  # Roots are left out: their hosts count as the parents.
        for index, kind in zip(kinds["index"], kinds["value"], strict=True):
            if snapshot["strings"][kind] == "closed":
                first_children.setdefault(nodes["parentIndex"][index], index)
        yield from (nodes["backendNodeId"][index] for index in first_children.values())
