"""Playwright's ARIA snapshot of a page, with our refs in it and without passwords.

Playwright writes `[ref=e5]` and knows these names only until its next snapshot. Each is replaced by
the ref that all other channels and actions use, `[ref=12]`: Playwright says where the element is in
its document, and the page script finds it there. An element that it cannot find, such as one in a
frame of another origin, keeps its line and has no ref.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

from webtraj import errors
from webtraj.environments.browser import session as session_lib

__all__ = ["aria_refs_in", "aria_snapshot"]

_REF = re.compile(r" \[ref=((?:f\d+)?e\d+)\]")
_OURS = re.compile(r"\[ref=([A-Za-z0-9]+)\]")
_VALUE = re.compile(r"(\[ref=[A-Za-z0-9]+\](?: \[[^\]]*\])*): .*")
_TEXT = re.compile(r"^( *- text: ).*")
_BULLETS = "\u2022" * 4
_SECONDS = 5.0

_PATH = """element => {
  const path = [];
  for (let node = element; node;) {
    if (node.parentNode) {
      path.push([...node.parentNode.childNodes].indexOf(node));
      node = node.parentNode;
    } else if (node.host) {
      path.push("shadow");
      node = node.host;
    } else {
      let frame = null;
      try { frame = node.defaultView?.frameElement ?? null; } catch { return null; }
      if (!frame && node.defaultView !== node.defaultView?.top) return null;
      if (frame) path.push("frame");
      node = frame;
    }
  }
  return path.reverse();
}"""


def aria_refs_in(snapshot: str) -> list[str]:
    r"""Return the refs in a snapshot, in order.

    >>> aria_refs_in('- main [ref=1]:\n  - button "Go" [ref=2]')
    ['1', '2']
    """
    return _OURS.findall(snapshot)


async def aria_snapshot(session: session_lib.BrowserSession, *, hidden: str, limit: int) -> str:
    """Return the snapshot of the active tab; empty if the page navigates meanwhile.

    Args:
        session: The session.
        hidden: A CSS selector of elements to leave out.
        limit: The longest snapshot, in characters; the rest is cut off and counted.

    Raises:
        BrowserError: The browser failed.
    """
    page = session.page
    try:
        text = await session.run(
            page.aria_snapshot(mode="ai", timeout=_SECONDS * 1e3), "take an ARIA snapshot"
        )
        theirs = list(dict.fromkeys(_REF.findall(text)))
        paths = await asyncio.gather(*(_path(page, ref) for ref in theirs))
        found = await session.elements_at(paths, hidden=hidden)
    except errors.BrowserCrashedError:
        raise
    except errors.BrowserError:
        return ""
    return _rewritten(text.split("\n"), dict(zip(theirs, found, strict=True)), limit)


async def _path(page: Any, ref: str) -> Any:
    import playwright.async_api

    try:
        return await page.locator(f"aria-ref={ref}").evaluate(_PATH, timeout=_SECONDS * 1e3)
    except playwright.async_api.Error:  # Gone, or in a frame that is.
        return None


def _rewritten(lines: list[str], found: dict[str, Any], limit: int) -> str:
    kept: list[str] = []
    size = 0
    dropped = secret = -1
    """The indents of the element whose lines are dropped, or whose texts are secret."""
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip(" "))
        dropped = -1 if indent <= dropped else dropped
        secret = -1 if indent <= secret else secret
        if dropped >= 0:
            continue
        theirs = _REF.search(line)
        ours = found.get(theirs[1]) if theirs else None
        if theirs is not None:
            line = _REF.sub(f" [ref={ours['ref']}]" if ours else "", line, count=1)
        if ours and ours["hidden"]:
            dropped = indent
            continue
        if ours and ours["password"]:
            secret = indent
            line = _VALUE.sub(rf"\1: {_BULLETS}", line)
        elif secret >= 0:
            line = _TEXT.sub(rf"\1{_BULLETS}", line)
        size += len(line) + 1
        if size > limit:
            return "\n".join([*kept, f"... {len(lines) - number} more lines"])
        kept.append(line)
    return "\n".join(kept)
