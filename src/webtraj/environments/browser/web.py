"""The preset `web`: one task, or several, on any site."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, Final, Literal

from webtraj import errors
from webtraj.environments.browser import environment as environment_lib
from webtraj.environments.browser import policies as policies_lib
from webtraj.environments.browser import pool as pool_lib
from webtraj.environments.browser import settling as settling_lib
from webtraj.environments.browser import tasks as tasks_lib

__all__ = ["make_web_environment"]

_MAX_STEPS: Final = 30
_OWN: Final = {"tasks", "default_max_steps"}


def make_web_environment(
    *,
    task: tasks_lib.BrowserTask | Iterable[tasks_lib.BrowserTask],
    pool: pool_lib.BrowserPool | None = None,
    max_steps: int | Literal["task"] | None = "task",
    settle: settling_lib.SettlePolicy = settling_lib.LIVE_SITE,
    policy: policies_lib.AccessPolicy | None = None,
    **options: Any,
) -> environment_lib.BrowserEnvironment:
    """Returns an environment for tasks on any site.

    Args:
        task: A `webtraj.WebTask`, or several, played one after the other.
        pool: Where pages come from; None shares one (see `BrowserEnvironment`).
        max_steps: After so many steps an episode is truncated, with discount 1. By default the
            task's own limit, or 30 if it has none.
        settle: When a page counts as settled after an action.
        policy: What pages and agent may reach; by default the public web, nothing private, the
            origin of the task's `start_url`, and no file.
        **options: For `BrowserEnvironment`.

    Raises:
        InvalidInputError: It takes no such option.
    """
    known = inspect.signature(environment_lib.BrowserEnvironment).parameters
    unknown = sorted(options.keys() - (known.keys() - _OWN))
    if unknown:
        raise errors.InvalidInputError(
            f"The preset 'web' does not take {unknown[0]!r:.60}; its options: "
            f"{', '.join(name for name in known if name not in _OWN)}."
        )
    several = isinstance(task, Iterable) and not hasattr(task, "goal_of")
    return environment_lib.BrowserEnvironment(
        tuple(task) if several else (task,),  # type: ignore[arg-type]
        pool=pool,
        max_steps=max_steps,
        default_max_steps=_MAX_STEPS,
        settle=settle,
        policy=policy or policies_lib.WebAccess(),
        **options,
    )
