"""A browser for the tests of a module."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from webtraj.environments.browser.pool import BrowserPool, PoolLimits


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[BrowserPool]:
    async with BrowserPool(limits=PoolLimits(call=10.0, close=3.0)) as pool:
        yield pool


@pytest.fixture(autouse=True)
def _needs_a_browser(request: pytest.FixtureRequest) -> None:
    """Tests that use a browser carry the marker `browser`."""
    if "pool" in request.fixturenames:
        request.applymarker(pytest.mark.browser)
