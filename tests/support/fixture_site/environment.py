"""The fixture site as an environment: seeded tasks in a real browser, judged by server state."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from fixture_site import site as site_lib
from fixture_site import tasks as tasks_lib
from webtraj.environments.browser import environment as environment_lib
from webtraj.environments.browser import settle_policy as settle_policy_lib
from webtraj.environments.browser import tasks as browser_tasks_lib
from webtraj.environments.browser.oracles import PageView

PAGE_SCRIPT = Path(__file__).with_name("page.js")


class SiteAccess:
    """The access policy of agents: the site's two origins, and the files of one folder."""

    def __init__(self):
        self.folder: Path | None = None

    def open(self, url: str) -> bool:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.netloc}" in site_lib.ORIGINS

    def travel(self) -> bool:
        return True

    def upload(self, path: str) -> Path | None:
        if self.folder is None:
            return None
        folder = self.folder.resolve()
        file = (folder / path).resolve()
        return file if file.parent == folder and file.is_file() else None


class FixtureTask(browser_tasks_lib.BrowserTask):
    """A task of the fixture site as a `BrowserTask`: one visit after another."""

    site = "fixture"
    name = ""
    script = PAGE_SCRIPT.read_text(encoding="utf-8")
    local_sites = MappingProxyType({})
    has_solution = True

    def __init__(self, task: tasks_lib.SiteTask, place: _Place):
        self.task = task
        self.name = f"fixture/{task.name}"
        self.local_sites = place.local_sites
        self._place = place
        self._visit: site_lib.SiteVisit | None = None
        self.assignment: tasks_lib.Assignment | None = None

    @property
    def world(self):
        """The state of the last visit."""
        return self._visit.world

    async def setup(self, session, seed):
        await self.teardown(session)
        site = await self._place.open()
        self._visit = site.visit(seed=seed, start=self.task.start)
        self.assignment = self.task.begin(self._visit.world)
        self._place.put_files(self.assignment.files)
        await session.open(site_lib.ORIGINS[0] + self._visit.url.removeprefix(site.origin))

    def goal_of(self, begun):
        return self.assignment.goal

    async def validate(self, session, state, answer):
        """Judge the world, not the page."""
        if answer is not None:
            self.world.answers.append(answer)
        if self.assignment.done(self.world):
            return browser_tasks_lib.Verdict(
                done=True, reward=1.0, success=True, raw_reward=1.0, scaled_reward=1.0
            )
        if self.assignment.spoiled(self.world):
            return browser_tasks_lib.Verdict(done=True, reason="What was done cannot be undone.")
        return browser_tasks_lib.Verdict()

    async def teardown(self, session):
        """End the visit; its world stays readable."""
        self._place.put_files({})
        if self._visit is not None:
            self._place.end_visit(self._visit)

    def solve(self, session, goal):
        return browser_tasks_lib.ScriptedSolution(self._steps(session, goal))

    async def _steps(self, session, goal):
        view = PageView(session, goal=goal)
        for step in self.assignment.steps:
            async for action in step(view):
                yield action


class FixtureEnvironment(environment_lib.BrowserEnvironment):
    """An environment of the fixture site's tasks; each `reset` starts the next one.

    The same task and seed give the same goal and pages, at the same URLs except for the visit's
    token. Reward is 1 when the server's state is what the goal asks for, which ends the episode, as
    does a mistake that cannot be undone, with 0; before that it is 0.
    """

    def __init__(
        self, tasks: str | Sequence[str], *, seed=0, pool=None, observe=None, max_steps="task"
    ):
        names = [tasks] if isinstance(tasks, str) else list(tasks)
        self._place = _Place()
        super().__init__(
            [FixtureTask(tasks_lib.find_task(name), self._place) for name in names],
            seed=seed,
            pool=pool,
            observe=observe,
            max_steps=max_steps,
            default_max_steps=40,
            settle=settle_policy_lib.LOCAL_PAGE,
            policy=self._place.access,
            # Goals contain passwords to type; they are fictitious.
            redact_passwords=False,
            viewport=(1024, 768),
        )

    async def close(self):
        try:
            await super().close()
        finally:
            await self._place.close()


class _Place:
    """The site, and the folder of files, that the tasks of one environment share."""

    def __init__(self):
        self.access = SiteAccess()
        self.local_sites = {
            (site_lib.HOST, port): functools.partial(self._serve, index)
            for index, port in enumerate(site_lib.PORTS)
        }
        self._site: site_lib.FixtureSite | None = None

    async def open(self) -> site_lib.FixtureSite:
        """Return the site, running."""
        if self._site is None:
            self._site = await site_lib.FixtureSite().__aenter__()
        return self._site

    async def _serve(self, index, reader, writer):
        await (await self.open()).serve(index, reader, writer)

    def put_files(self, files: Mapping[str, bytes]):
        """Replace the files that may be uploaded."""
        folder, self.access.folder = self.access.folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        if files:
            self.access.folder = Path(tempfile.mkdtemp(prefix="webtraj-files-"))
            for name, content in files.items():
                (self.access.folder / name).write_bytes(content)

    def end_visit(self, visit):
        if self._site is not None:
            self._site.end_visit(visit)

    async def close(self):
        self.put_files({})
        site, self._site = self._site, None
        if site is not None:
            await site.close()
