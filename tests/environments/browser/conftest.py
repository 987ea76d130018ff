"""Fixtures: a browser for the tests of a module, and environments over pages given as HTML."""

import dataclasses
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, ClassVar

import pytest_asyncio

from webtraj.environments.browser.environment import BrowserEnvironment
from webtraj.environments.browser.pool import BrowserPool, PoolLimits
from webtraj.environments.browser.session import BrowserSession
from webtraj.environments.browser.tasks import BrowserTask, Verdict

# The page says when it is done by `window.finish(reward)`.
_TASK_SCRIPT = """
page.task = {
  begin(argument) { window.began = argument; return {goal: document.title}; },
  state() { return window.finished ?? null; },
};
"""


@dataclasses.dataclass(frozen=True, slots=True)
class HtmlTask(BrowserTask):
    """A page of its own HTML; `window.finished = reward` ends its episode."""

    url: str
    name: str = "test/page"
    site: str = "test"
    script: str = _TASK_SCRIPT
    hidden: str = ".hidden-from-tree"
    shares_context: bool = True
    metadata: ClassVar[Mapping[str, Any]] = {"kind": "a page of its own"}

    async def setup(self, session: BrowserSession, seed: int) -> Mapping[str, Any]:
        await session.open(self.url)
        return {"seed": seed}

    def goal_of(self, begun: Any) -> str:
        return str(begun["goal"])

    async def validate(self, session: BrowserSession, state: Any, answer: str | None) -> Verdict:
        done = state is not None
        reward = float(state or 0)
        return Verdict(done=done, reward=reward, success=reward == 1, raw_reward=reward)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[BrowserPool]:
    async with BrowserPool(limits=PoolLimits(call=10.0, close=3.0)) as pool:
        yield pool


@pytest_asyncio.fixture(loop_scope="module")
async def open_page(
    pool: BrowserPool, tmp_path: Any
) -> AsyncIterator[Callable[..., BrowserEnvironment]]:
    """Gives a function from HTML to an environment, not yet reset."""
    environments = []
    numbers = itertools.count()

    def open_html(
        html: str, *more: str, title: str = "Do it", **options: Any
    ) -> BrowserEnvironment:
        tasks = []
        for source in (html, *more):
            path = tmp_path / f"page-{next(numbers)}.html"
            path.write_text(f"<!doctype html><meta charset=utf-8><title>{title}</title>{source}")
            tasks.append(HtmlTask(path.as_uri()))
        options.setdefault("observe", ("goal", "axtree", "focused", "last_action", "info"))
        environment = BrowserEnvironment(tasks, pool=pool, **options)
        environments.append(environment)
        return environment

    yield open_html
    for environment in environments:
        await environment.close()
