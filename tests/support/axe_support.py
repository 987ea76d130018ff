"""axe, which finds what keeps people from using a page, in pages that tests look at."""

import functools
from importlib import resources

import pytest

RUN = "options => axe.run(document, options)"


@functools.cache
def script():
    """axe itself, to be evaluated in a page; a test is skipped without it."""
    pytest.importorskip("axe_playwright_python")
    return (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


def options(rules=()):
    """What axe is told: all of its rules by default, or only some."""
    chosen = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else {}
    return {"resultTypes": ["violations"], **chosen}


def lines(found):
    """What axe found, a line for each of the first elements."""
    return [
        f"{one['id']}: {one['help']}: {node['html'][:200]}"
        for one in found["violations"]
        for node in one["nodes"][:3]
    ]


async def violations(page, rules=()):
    """Returns what axe finds in a page of Playwright's async API, a line for each."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(script())
    return lines(await page.evaluate(RUN, options(rules)))


def violations_now(page, rules=()):
    """Returns the same of a page of Playwright's sync API."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(script())
    return lines(page.evaluate(RUN, options(rules)))
