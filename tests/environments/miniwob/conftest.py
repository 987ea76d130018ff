"""Fixtures: a browser shared by the tests of a module, and MiniWoB++ environments in it."""

from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from webtraj.environments.browser.pool import BrowserPool
from webtraj.environments.miniwob import MiniwobEnvironment

TEXT = ("goal", "axtree", "last_action", "info")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[BrowserPool]:
    async with BrowserPool() as pool:
        yield pool


@pytest_asyncio.fixture(loop_scope="module")
async def play(pool: BrowserPool) -> AsyncIterator[Callable[..., MiniwobEnvironment]]:
    """Gives a function that makes environments, without screenshots unless asked."""
    environments = []

    def make(tasks: str | list[str], **options: object) -> MiniwobEnvironment:
        environment = MiniwobEnvironment(tasks, pool=pool, **{"observe": TEXT, **options})
        environments.append(environment)
        return environment

    yield make
    for environment in environments:
        await environment.close()


@pytest.fixture(autouse=True)
def _needs_a_browser(request: pytest.FixtureRequest) -> None:
    """Tests that use a browser carry the marker `browser`."""
    if "pool" in request.fixturenames:
        request.applymarker(pytest.mark.browser)
