"""Where demonstrations take place: a page, a preset's task, or a running browser."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from webtraj import errors
from webtraj.collectors.base import TrajectoryCollector
from webtraj.demonstrating.recorder import Decisions, Recorder
from webtraj.environments.browser import access as access_lib
from webtraj.environments.browser import network_policy as network_policy_lib
from webtraj.environments.browser import pool as pool_lib
from webtraj.environments.browser import processes as processes_lib
from webtraj.environments.browser import session as session_lib
from webtraj.environments.browser import settle_policy as settle_policy_lib
from webtraj.environments.browser import tasks as tasks_lib
from webtraj.environments.browser.environment import BrowserEnvironment
from webtraj.redaction import RedactionRules

__all__ = [
    "SETTLED",
    "attached",
    "borrow_environment",
    "make_headed_pool",
    "page_environment",
    "preset_environment",
]

SETTLED: Final = settle_policy_lib.SettlePolicy(quiet=0.1, cap=4.0, network_quiet=0.3)
"""When a page counts as settled: a little sooner than for agents, since people do not wait."""

_LOGGER = logging.getLogger(__name__)

_SCREENS: Final = {"DISPLAY", "WAYLAND_DISPLAY"}
_NO_SCREEN = (
    "A recording needs a screen, but neither DISPLAY nor WAYLAND_DISPLAY is set. Run it on a "
    "desktop, or under a virtual display: xvfb-run webtraj record ..."
)
_WATCHED = "{selector!r} has no browser to act in. Choose a preset of pages, such as {example}."
_SEVERAL = "{selector!r} has several tasks. Choose one of them, such as {example}."


@dataclasses.dataclass(frozen=True, kw_only=True)
class _RunningTask(tasks_lib.WebTask):
    """A task on the page that a running browser shows: nothing is opened."""

    async def setup(self, session: session_lib.BrowserSession, seed: int) -> None:
        """See `BrowserTask.setup`."""


def make_headed_pool(
    *, arguments: tuple[str, ...] = (), headless: bool = False
) -> pool_lib.BrowserPool:
    """Return a pool of one browser with a window.

    Args:
        arguments: More command-line arguments for the browser.
        headless: Whether to show no window, for programs that act over the debugging protocol.

    Raises:
        BrowserNotFoundError: No browser that can show a window was found.
        InvalidInputError: There is no screen.
    """
    if not headless and sys.platform == "linux" and not _SCREENS.intersection(os.environ):
        raise errors.InvalidInputError(_NO_SCREEN)
    return pool_lib.BrowserPool(
        1,
        4,
        executable=None if headless else processes_lib.find_headed_browser(),
        headless=headless,
        arguments=arguments,
    )


def page_environment(
    url: str,
    *,
    pool: pool_lib.BrowserPool,
    goal: str = "",
    name: str = "web",
    observe: Any = None,
    redaction: RedactionRules | Mapping[str, Any] | None = None,
    viewport: tuple[int, int] | None = None,
    context_options: Mapping[str, Any] | None = None,
) -> BrowserEnvironment:
    """Return an environment that begins at a URL.

    Its pages may also reach private addresses by number. By name, they may reach them only as
    `network_policy.Names` allows.

    Args:
        url: The first page.
        pool: The browsers.
        goal: The goal, for the record.
        name: The task's name.
        observe: What to observe (see `BrowserEnvironment`).
        redaction: What else must not be recorded, besides passwords.
        viewport: Width and height in CSS pixels; None leaves them to the window.
        context_options: For Playwright's `Browser.new_context`. A proxy in it is used unchanged.

    Raises:
        InvalidInputError: `url` is not a URL that a browser can open.
    """
    free = {"viewport": None, "no_viewport": True} if viewport is None else {}
    has_proxy = bool((context_options or {}).get("proxy"))
    return BrowserEnvironment(
        tasks_lib.WebTask(goal=goal, start_url=url, name=name),
        pool=pool,
        observe=observe,
        max_steps=None,
        settle=SETTLED,
        policy=access_lib.WebAccess(network=None if has_proxy else network_policy_lib.ANYWHERE),
        redaction=redaction,
        viewport=viewport or (1280, 720),
        context_options={**free, **(context_options or {})},
    )


def preset_environment(
    selector: str,
    *,
    pool: pool_lib.BrowserPool,
    seed: int = 0,
    observe: Any = None,
    redaction: RedactionRules | Mapping[str, Any] | None = None,
) -> BrowserEnvironment:
    """Return the environment of a preset with one task, without a limit of steps.

    Args:
        selector: The preset's name.
        pool: The browsers.
        seed: The first episode's seed.
        observe: What to observe (see `BrowserEnvironment`).
        redaction: What must not be recorded, besides what the preset itself redacts.

    Raises:
        InvalidInputError: The preset is not one of pages, or has several tasks.
    """
    from webtraj import registry

    selected = registry.select(selector)
    no_browser = errors.InvalidInputError(
        _WATCHED.format(selector=selector, example="miniwob/click-test")
    )
    if not selected.uses_browser:
        raise no_browser
    parts = selected.split()
    if len(parts) > 1:
        message = _SEVERAL.format(selector=selector, example=parts[0].name)
        raise errors.InvalidInputError(message)
    options = {} if observe is None else {"observe": observe}
    environment = selected.make(pool=pool, seed=seed, max_steps=None, **options)
    if not isinstance(environment, BrowserEnvironment):
        raise no_browser
    if redaction is not None:
        environment.secret_keeper.add_rules(RedactionRules.of(redaction))
    return environment


def borrow_environment(
    endpoint: str,
    *,
    goal: str = "",
    name: str = "web",
    observe: Any = None,
    redaction: RedactionRules | Mapping[str, Any] | None = None,
) -> tuple[BrowserEnvironment, pool_lib.BrowserPool]:
    """Return an environment in a running Chromium's own tabs, and its connection.

    Nothing is opened, closed or changed in the browser. The caller closes the connection.

    Args:
        endpoint: The browser's debugging address: `http://127.0.0.1:9222`, or its WebSocket.
        goal: The goal, for the record.
        name: The task's name.
        observe: What to observe (see `BrowserEnvironment`).
        redaction: What else must not be recorded, besides passwords.
    """
    pool = pool_lib.BrowserPool(1, 1, endpoint=endpoint, borrow=True)
    environment = BrowserEnvironment(
        _RunningTask(goal=goal, start_url=session_lib.BLANK, name=name),
        pool=pool,
        observe=observe,
        max_steps=None,
        settle=SETTLED,
        policy=access_lib.WebAccess(network=None),
        redaction=redaction,
        context_options={"viewport": None},
    )
    return environment, pool


@contextlib.asynccontextmanager
async def attached(
    endpoint: str,
    collector: TrajectoryCollector,
    *,
    goal: str = "",
    name: str = "web",
    policy: str = "attached",
    observe: Any = None,
    redaction: RedactionRules | Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    decisions: Decisions | None = None,
) -> AsyncIterator[Recorder]:
    """Record what happens in a running Chromium as one episode, until the block ends.

    ```python
    async with attached("http://127.0.0.1:9222", collector, goal="Buy a lamp") as recorder:
        await agent.run()
        recorder.stop(Outcome.SUCCESS, answer="Bought.")
    ```

    What other programs send over the debugging protocol counts as input. The browser and its tabs
    are left as they are. A failure to record is logged, and does not end the block.

    Args:
        endpoint: The browser's debugging address: `http://127.0.0.1:9222`, or its WebSocket.
        collector: Stores the episode.
        goal: The goal, for the record.
        name: The task's name.
        policy: Who acts, for the record: `browser-use`, ...
        observe: What to observe (see `BrowserEnvironment`).
        redaction: What else must not be recorded, besides passwords.
        metadata: More for the record.
        decisions: The source of the steps' decisions, such as a `webtraj.gateway.Joiner`.

    Raises:
        BrowserError: No connection to the browser could be made.
    """
    environment, pool = borrow_environment(
        endpoint, goal=goal, name=name, observe=observe, redaction=redaction
    )
    recorder = Recorder(
        environment,
        collector,
        policy=policy,
        metadata={"source": "attach", **(metadata or {})},
        ends_with_browser=False,
        decisions=decisions,
    )
    begun = asyncio.ensure_future(recorder.wait_until_begun())
    recording = asyncio.ensure_future(recorder.record_episode())
    try:
        await asyncio.wait((begun, recording), return_when=asyncio.FIRST_COMPLETED)
        if recording.done() and (failure := recording.exception()) is not None:
            raise failure
        yield recorder
    finally:
        begun.cancel()  # It may have failed first.
        recorder.stop()
        try:
            await recording
        except errors.BrowserError as error:
            _LOGGER.warning("The recording of %s ended early: %s", endpoint, error)
        finally:
            await recorder.close()
            await pool.close()
