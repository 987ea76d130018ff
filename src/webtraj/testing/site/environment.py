"""The fixture site as an environment: seeded tasks in a real browser, judged by server state."""

from __future__ import annotations

import asyncio
import functools
import shutil
import tempfile
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal, cast
from urllib.parse import urlsplit

from webtraj.environments import actions as actions_lib
from webtraj.environments.browser import (
    environment as environment_lib,
)
from webtraj.environments.browser import (
    network as network_lib,
)
from webtraj.environments.browser import (
    observation as observation_lib,
)
from webtraj.environments.browser import page_script as page_script_lib
from webtraj.environments.browser import (
    pool as pool_lib,
)
from webtraj.environments.browser import (
    session as session_lib,
)
from webtraj.environments.browser import (
    tasks as browser_tasks_lib,
)
from webtraj.environments.browser.oracles import PageView
from webtraj.testing.site import site as site_lib
from webtraj.testing.site import tasks as tasks_lib
from webtraj.testing.site.world import World

__all__ = ["FixtureEnvironment", "FixtureTask", "SiteAccess"]

# The access policy of agents: the site, and the files of the task.


class SiteAccess:
    """The site's two origins, and the files of one folder."""

    def __init__(self) -> None:
        self.origins: tuple[str, ...] = ()
        """The site's origins; empty before it runs."""
        self.folder: Path | None = None
        """The folder of files that may be uploaded."""

    def open(self, url: str) -> bool:
        """See `AccessPolicy.open`."""
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.netloc}" in self.origins

    def travel(self) -> bool:
        """See `AccessPolicy.travel`."""
        return True

    def upload(self, path: str) -> Path | None:
        """See `AccessPolicy.upload`. A path is a file's name, or its whole path in the folder."""
        if self.folder is None:
            return None
        folder = self.folder.resolve()
        file = (folder / path).resolve()
        return file if file.parent == folder and file.is_file() else None


VIEWPORT: Final = (1024, 768)
_MAX_STEPS: Final = 40


class FixtureTask(browser_tasks_lib.BrowserTask):
    """A task of the fixture site as a `BrowserTask`: one visit after another.

    Args:
        task: The task.
        place: The site and folder to use.
    """

    site = "fixture"

    def __init__(self, task: tasks_lib.SiteTask, place: _Place) -> None:
        self.task = task
        self._place = place
        self._visit: site_lib.SiteVisit | None = None
        self._assignment: tasks_lib.Assignment | None = None

    @property
    def world(self) -> World:
        """The state of the last visit."""
        assert self._visit is not None, "There is no world before the first episode."
        return self._visit.world

    @property
    def assignment(self) -> tasks_lib.Assignment:
        """The assignment of the last visit."""
        assert self._assignment is not None, "There is no assignment before the first episode."
        return self._assignment

    @property
    def name(self) -> str:
        """See `BrowserTask.name`."""
        return f"fixture/{self.task.name}"

    @property
    def script(self) -> str:
        """See `BrowserTask.script`."""
        folder = resources.files("webtraj.testing.site")
        return (folder / "page.js").read_text(encoding="utf-8")

    @property
    def local_sites(self) -> network_lib.LocalSites:
        """The site's two origins. See `BrowserTask`."""
        return self._place.local_sites

    @property
    def has_solution(self) -> bool:
        """See `BrowserTask.has_solution`."""
        return self.task.has_oracle

    async def setup(self, session: session_lib.BrowserSession, seed: int) -> None:
        """See `BrowserTask.setup`."""
        await self.teardown(session)
        site = await self._place.open()
        assignments: list[tasks_lib.Assignment] = []
        self._visit = site.visit(
            seed=seed,
            start=self.task.start,
            prepare=lambda world: assignments.append(self.task.begin(world)),
        )
        (self._assignment,) = assignments
        self._place.put_files(self._assignment.files)
        await session.open(site_lib.ORIGINS[0] + self._visit.url.removeprefix(site.origin))

    def goal_of(self, begun: Any) -> str:
        """See `BrowserTask.goal_of`."""
        return self.assignment.goal

    async def validate(
        self, session: session_lib.BrowserSession, state: Any, answer: str | None
    ) -> browser_tasks_lib.Verdict:
        """See `BrowserTask.validate`. Only the world is checked, not the page."""
        if answer is not None:
            self.world.answers.append(answer)
        if self.assignment.done(self.world):
            return browser_tasks_lib.Verdict(
                done=True, reward=1.0, success=True, raw_reward=1.0, scaled_reward=1.0
            )
        if self.assignment.spoiled(self.world):
            return browser_tasks_lib.Verdict(done=True, reason="What was done cannot be undone.")
        return browser_tasks_lib.Verdict()

    async def teardown(self, session: session_lib.BrowserSession) -> None:
        """See `BrowserTask.teardown`. The last world stays readable."""
        self._place.put_files({})
        if self._visit is not None:
            self._place.end_visit(self._visit)

    def solve(
        self, session: session_lib.BrowserSession, goal: str
    ) -> browser_tasks_lib.ScriptedSolution:
        """See `BrowserTask.solve`."""
        return browser_tasks_lib.ScriptedSolution(self._steps(session, goal))

    async def _steps(
        self, session: session_lib.BrowserSession, goal: str
    ) -> AsyncGenerator[actions_lib.Action, None]:
        view = PageView(session, goal=goal)
        for step in self.assignment.steps:
            async for action in step(view):
                yield action


class FixtureEnvironment(environment_lib.BrowserEnvironment):
    """An environment of the fixture site's tasks; each `reset` starts the next one.

    The same task and seed give the same goal and pages, at the same URLs except for the visit's
    token.
    Reward is 1 when the server's state is what the goal asks for, which ends the episode, as does a
    mistake that cannot be undone, with 0; before that it is 0.

    Args:
        tasks: A task's name, or several: `add-to-cart` (see `tasks.TASKS`).
        seed: Episode k, counted over all resets, has the seed `seed + k`.
        pool: The browser pool; None shares one (see `BrowserEnvironment`).
        site: A running site; None makes one, which is closed with the environment.
        observe: Channels to observe, or an `Observe`; None for the default ones.
        max_steps: After this many steps an episode is truncated; None never does. By default 40,
            unless the task has a limit of its own.
        settle: The condition for a page to be settled after an action.
        viewport: Width and height in CSS pixels.

    Raises:
        InvalidInputError: A task's name is unknown.
    """

    def __init__(
        self,
        tasks: str | Sequence[str],
        *,
        seed: int = 0,
        pool: pool_lib.BrowserPool | None = None,
        site: site_lib.FixtureSite | None = None,
        observe: observation_lib.Observe | Iterable[str] | None = None,
        max_steps: int | Literal["task"] | None = "task",
        settle: page_script_lib.SettlePolicy = page_script_lib.LOCAL_PAGE,
        viewport: tuple[int, int] = VIEWPORT,
    ) -> None:
        names = [tasks] if isinstance(tasks, str) else list(tasks)
        self._place = _Place(site)
        super().__init__(
            [FixtureTask(tasks_lib.find_task(name), self._place) for name in names],
            seed=seed,
            pool=pool,
            observe=observe,
            max_steps=max_steps,
            default_max_steps=_MAX_STEPS,
            settle=settle,
            policy=self._place.access,
            # Goals contain passwords to type; they are fictitious.
            redact_passwords=False,
            viewport=viewport,
        )

    @property
    def site_task(self) -> FixtureTask:
        """The task of the current episode, or of the first one."""
        return cast(FixtureTask, self.task)

    @property
    def world(self) -> World:
        """The server's state in the current or last episode."""
        return self.site_task.world

    async def close(self) -> None:
        """See `BrowserEnvironment.close`."""
        try:
            await super().close()
        finally:
            await self._place.close()


class _Place:
    """The site, and the folder of files, that the tasks of one environment share."""

    def __init__(self, site: site_lib.FixtureSite | None) -> None:
        self.access = SiteAccess()
        self.access.origins = site_lib.ORIGINS
        self.local_sites: network_lib.LocalSites = {
            (site_lib.HOST, port): functools.partial(self._serve, index)
            for index, port in enumerate(site_lib.PORTS)
        }
        self._site = site
        self._owns_site = site is None

    async def open(self) -> site_lib.FixtureSite:
        """Return the site, running."""
        if self._site is None:
            self._site = await site_lib.FixtureSite().__aenter__()
        return self._site

    async def _serve(
        self, index: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await (await self.open()).serve(index, reader, writer)

    def put_files(self, files: Mapping[str, bytes]) -> None:
        """Replace the files that may be uploaded."""
        folder, self.access.folder = self.access.folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        if files:
            self.access.folder = Path(tempfile.mkdtemp(prefix="webtraj-files-"))
            for name, content in files.items():
                (self.access.folder / name).write_bytes(content)

    def end_visit(self, visit: site_lib.SiteVisit) -> None:
        if self._site is not None:
            self._site.end_visit(visit)

    async def close(self) -> None:
        self.put_files({})
        site = self._site
        if site is not None and self._owns_site:
            self._site = None
            await site.close()
