"""The environment of tasks in real applications."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, cast

from webtraj.environments import browser
from webtraj_apps import app as app_lib
from webtraj_apps import tasks as tasks_lib

__all__ = ["AppEnvironment"]

VIEWPORT: Final = (1280, 720)


class AppEnvironment(browser.BrowserEnvironment):
    """An environment of tasks in real applications; each `reset` starts the next one.

    The same task and seed give the same world, goal and pages, at the same URLs. An episode ends
    when the agent answers or reports that the task is infeasible. Its reward is 1 if the state of
    the applications and the answer are then right, and 0 otherwise.

    Args:
        tasks: A task's name, or several: `shop/add`.
        seed: Episode k, counted over all resets, has the seed `seed + k`.
        pool: The browser pool; None shares one (see `BrowserEnvironment`).
        observe: Channels to observe, or an `Observe`; None for the default ones.
        max_steps: After this many steps an episode is truncated; None never does. By default 25,
            40 or 60, by the task's level.
        settle: The condition for a page to be settled after an action.
        viewport: Width and height in CSS pixels.
        perturbation: A change of what surrounds the tasks (see `BrowserEnvironment`).
        fault: What goes wrong with the applications: `Fault(slow=2.0)`, or the name of one.

    Raises:
        InvalidInputError: A name is unknown.
    """

    def __init__(
        self,
        tasks: str | Sequence[str],
        *,
        seed: int = 0,
        pool: browser.BrowserPool | None = None,
        observe: browser.Observe | Iterable[str] | None = None,
        max_steps: int | Literal["task"] | None = "task",
        settle: browser.SettlePolicy = browser.SERVED_PAGE,
        viewport: tuple[int, int] = VIEWPORT,
        perturbation: browser.Perturbation | str | None = None,
        fault: tasks_lib.Fault | str | None = None,
    ) -> None:
        names = [tasks] if isinstance(tasks, str) else list(tasks)
        templates = [tasks_lib.find_template(name) for name in names]
        chosen = tasks_lib.Fault.of(fault)
        used = {name for template in templates for name in template.apps}
        hosts = tuple(f"http://{name}.test" for name in sorted(used))
        for app in sorted(used):
            app_lib.find_app(app).require()
        super().__init__(
            [tasks_lib.AppTask(template, chosen) for template in templates],
            seed=seed,
            pool=pool,
            observe=observe,
            max_steps=max_steps,
            settle=settle,
            policy=browser.WebAccess(network=browser.OriginPolicy(allow=hosts)),
            # Accounts are fictitious, and some goals contain a password to type.
            redact_passwords=False,
            viewport=viewport,
            perturbation=perturbation,
        )

    @property
    def app_task(self) -> tasks_lib.AppTask:
        """The task of the current episode, or of the first one."""
        return cast(tasks_lib.AppTask, self.task)
