"""The environment of tasks in real applications."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from webtraj.environments.apps import app as app_lib
from webtraj.environments.apps import tasks as tasks_lib
from webtraj.environments.browser import access as access_lib
from webtraj.environments.browser import environment as environment_lib
from webtraj.environments.browser import network as network_lib
from webtraj.environments.browser import observation as observation_lib
from webtraj.environments.browser import page_script as page_script_lib
from webtraj.environments.browser import pool as pool_lib

__all__ = ["AppEnvironment"]

VIEWPORT: Final = (1280, 720)


class AppEnvironment(environment_lib.BrowserEnvironment):
    """An environment of tasks in real applications; each `reset` starts the next one.

    The same task and seed give the same world, goal and pages, at the same URLs. An episode ends
    when the agent answers or reports that the task is infeasible. Its reward is 1 if the state of
    the applications and the answer are then right, and 0 otherwise.

    Args:
        tasks: A task's name, or several: `shop/add` (see `apps.names.TEMPLATES`).
        seed: Episode k, counted over all resets, has the seed `seed + k`.
        pool: The browser pool; None shares one (see `BrowserEnvironment`).
        observe: Channels to observe, or an `Observe`; None for the default ones.
        max_steps: After this many steps an episode is truncated; None never does. By default 25,
            40 or 60, by the task's level.
        settle: The condition for a page to be settled after an action.
        viewport: Width and height in CSS pixels.
        fault: What goes wrong with the applications: `Fault(slow=2.0)`.

    Raises:
        InvalidInputError: A task's name is unknown.
    """

    def __init__(
        self,
        tasks: str | Sequence[str],
        *,
        seed: int = 0,
        pool: pool_lib.BrowserPool | None = None,
        observe: observation_lib.Observe | Iterable[str] | None = None,
        max_steps: int | Literal["task"] | None = "task",
        settle: page_script_lib.SettlePolicy = page_script_lib.SERVED_PAGE,
        viewport: tuple[int, int] = VIEWPORT,
        fault: tasks_lib.Fault | None = None,
    ) -> None:
        names = [tasks] if isinstance(tasks, str) else list(tasks)
        templates = [tasks_lib.find_template(name) for name in names]
        used = {name for template in templates for name in template.apps}
        hosts = tuple(f"http://{name}.test" for name in sorted(used))
        for app in sorted(used):
            app_lib.find_app(app).require()
        self._app_tasks = [tasks_lib.AppTask(template, fault) for template in templates]
        super().__init__(
            self._app_tasks,
            seed=seed,
            pool=pool,
            observe=observe,
            max_steps=max_steps,
            settle=settle,
            policy=access_lib.WebAccess(network=network_lib.OriginPolicy(allow=hosts)),
            # Accounts are fictitious, and some goals contain a password to type.
            redact_passwords=False,
            viewport=viewport,
        )

    @property
    def app_task(self) -> tasks_lib.AppTask:
        """The task of the current episode, or of the first one."""
        return self._app_tasks[max(self._episode, 0) % len(self._app_tasks)]

    def describe_episode(self) -> Mapping[str, Any]:
        """Return the description, with what a judge should find. See `DescribesEpisode`."""
        described = super().describe_episode()
        return {**described, "metadata": self.app_task.described()} if self._active else described

    async def close(self) -> None:
        """See `BrowserEnvironment.close`."""
        try:
            await super().close()
        finally:
            for task in self._app_tasks:
                task.discard()
