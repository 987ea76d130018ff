"""The tasks of the fixture site: seeded, judged by the state of the server."""

from __future__ import annotations

import functools
import importlib

from webtraj import errors as errors_lib
from webtraj.testing.site.names import TASKS
from webtraj.testing.site.tasks.base import Assignment, SiteTask, registered

__all__ = ["TASKS", "Assignment", "SiteTask", "find_task"]

_MODULES = ("shop", "people")


def find_task(name: str) -> SiteTask:
    """Return a task.

    Raises:
        InvalidInputError: The name is unknown.
    """
    _load()
    if name not in registered():
        raise errors_lib.InvalidInputError(
            f"The fixture site has no task {name!r}; it has {', '.join(TASKS)}."
        )
    return registered()[name]


@functools.cache
def _load() -> None:
    for module in _MODULES:
        importlib.import_module(f"{__name__}.{module}")
