"""Make the environment of a planned episode, and check beforehand that a plan can be played.

A plan that cannot be played must not be written, since resuming it would always fail.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from webtraj import errors
from webtraj.agents.base import Agent
from webtraj.environments import base as environment_lib
from webtraj.environments import bridges
from webtraj.rollouts.deadlines import GuardedEnvironment
from webtraj.runs.plan import PlannedEpisode
from webtraj.runs.spec import RunSpec
from webtraj.settings.configuration import MISSING

if TYPE_CHECKING:
    from webtraj.agents.base import Agent
    from webtraj.environments.browser.pool import BrowserPool
    from webtraj.environments.browser.processes import BrowserExecutable

__all__ = [
    "Browsers",
    "channels_for",
    "check_environments",
    "check_tasks",
    "close_quietly",
    "environment_options",
    "make_environment",
]

# Browser settings of a rollout, in a form that any machine can use.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Browsers:
    """Browser settings of a rollout; on a cluster, of each machine."""

    contexts: int = 16
    """Episodes that share one browser."""
    endpoint: str = ""
    """Address of running browsers; empty to start our own."""
    wait_timeout: float = 120.0
    """Seconds to wait for a free page."""
    operation_timeout: float = 30.0
    """Seconds that one browser call may take."""

    @classmethod
    def of(cls, spec: RunSpec) -> Self:
        """Return the browser settings of a run."""
        return cls(
            contexts=spec.contexts_per_browser,
            endpoint=spec.browser_endpoint,
            wait_timeout=spec.wait_timeout,
            operation_timeout=spec.operation_timeout,
        )

    def find(self) -> BrowserExecutable | None:
        """Return the browser to run, or None if an endpoint is set. Blocks.

        Raises:
            BrowserNotFoundError: No browser is installed.
        """
        if self.endpoint:
            return None
        from webtraj.environments.browser.processes import find_browser

        return find_browser()

    def open(self, parallel: int, executable: BrowserExecutable | None = None) -> BrowserPool:
        """Return a pool for `parallel` episodes. Browsers start when they are first needed."""
        from webtraj.environments.browser.pool import BrowserPool, PoolLimits

        browsers = math.ceil(parallel / self.contexts)
        return BrowserPool(
            browsers,
            math.ceil(parallel / browsers),
            executable=executable,
            endpoint=self.endpoint,
            limits=PoolLimits(lease=self.wait_timeout, call=self.operation_timeout),
        )


# What browsers observe in a rollout: what the agent needs, and what records should contain.

_BODY_LIMIT = 1_000_000
_RECORDED = ("timings", "info")
"""Channels that agents ignore but readers of the records want."""


def channels_for(agent: Agent) -> list[str]:
    """Return an agent's `channels` and the channels to record; empty if it names no channels."""
    channels = getattr(agent, "channels", ())
    return [*channels, *_RECORDED] if channels else []


def environment_options(
    plan: Sequence[PlannedEpisode], given: Mapping[str, Any], channels: Sequence[str]
) -> dict[str, Any]:
    """Return the presets' options, with the channels to observe if all tasks use a browser.

    The option `har` adds the network's: `true`, or `content` for bodies of up to 1 MB too.

    Raises:
        InvalidInputError: `har` is invalid, or a task uses no browser.
    """
    options = dict(given)
    if channels and _all_in_browser(plan):
        asked = options.setdefault("observe", list(channels))
        if isinstance(asked, Mapping):
            options["observe"] = {"channels": list(channels), **asked}
    har = options.pop("har", False)
    if har not in (False, True, "content"):
        raise errors.InvalidInputError(
            f"har={har!r:.60}; expected true, false or content (with bodies of up to 1 MB)."
        )
    if har:
        from webtraj.environments.browser.observation import Observe

        if not _all_in_browser(plan):
            raise errors.InvalidInputError(
                "har records a browser's network traffic, but some of these tasks use no browser."
            )
        observe = Observe.of(options.get("observe"))
        options["observe"] = dataclasses.replace(
            observe,
            channels=(*observe.channels, "network"),
            body_limit=_BODY_LIMIT if har == "content" else observe.body_limit,
        )
    return options


def _all_in_browser(plan: Sequence[PlannedEpisode]) -> bool:
    return all(planned.selection.uses_browser for planned in plan)


_MOST_NAMED = 20

_logger = logging.getLogger(__name__)


def make_environment(
    planned: PlannedEpisode, options: Mapping[str, Any], pool: BrowserPool | None
) -> environment_lib.Environment:
    """Make the environment that plays an episode.

    Args:
        planned: The episode.
        options: Options for the preset's factory. They override the episode's options, except that
            channels to observe are added.
        pool: The pool for factories that use browsers; None lets them start a browser of their own.

    Raises:
        InvalidInputError: The factory rejects the options, or one is not on record.
    """
    given = {**planned.options, **options}
    if "observe" in planned.options and "observe" in options:
        given["observe"] = _observe_both(planned.options["observe"], options["observe"])
    if lost := [name for name, value in given.items() if value == MISSING]:
        raise errors.InvalidInputError(
            f"The option {lost[0]} of the recorded run is not on record. Give it again, with "
            f"--set {lost[0]}=... or environment_options."
        )
    selection = planned.selection
    if selection.uses_browser:
        given["pool"] = pool
    if planned.spec.preset == "web":
        given["task"] = _web_task(planned)
    environment = bridges.as_async(selection.make(**given))
    set_max_steps = getattr(environment, "set_max_steps", None)
    if planned.spec.max_steps and "max_steps" not in given and callable(set_max_steps):
        set_max_steps(planned.spec.max_steps)
    return environment


def _observe_both(recorded: Any, given: Any) -> Any:
    """Return recorded settings of observations with further channels added."""
    from webtraj.environments.browser.observation import Observe

    first, more = Observe.of(recorded), Observe.of(given)
    return dataclasses.replace(
        first,
        channels=(*first.channels, *more.channels),
        body_limit=max(first.body_limit, more.body_limit),
    )


async def check_environments(
    plan: Iterable[PlannedEpisode], options: Mapping[str, Any], *, elsewhere: bool = False
) -> None:
    """Make and close one environment of each kind in a plan, without playing it.

    Args:
        plan: The episodes.
        options: Options for the presets' factories.
        elsewhere: Whether the episodes are played on other machines. A preset or package missing
            on this machine is then not an error.

    Raises:
        InvalidInputError: The options are invalid.
        Exception: Anything else that a factory raises.
    """
    for planned in _one_of_each(plan, lenient=elsewhere):
        try:
            environment = make_environment(planned, options, None)
        except errors.MissingDependencyError:
            if elsewhere:
                continue
            raise
        except (TypeError, ValueError) as error:
            if isinstance(error, errors.WebtrajError) or not options:
                raise
            raise errors.InvalidInputError(
                f"Cannot make the preset {planned.spec.preset!r} with the options "
                f"{', '.join(f'{key}={value!r:.60}' for key, value in options.items())}: "
                f"{type(error).__name__}: {error}"
            ) from error
        await close_quietly(environment)


async def check_tasks(
    plan: Iterable[PlannedEpisode],
    agent: Agent,
    options: Mapping[str, Any],
    *,
    elsewhere: bool = False,
) -> None:
    """Ask an agent with `can_play` whether it can play each task of a plan. Plays nothing.

    Args:
        plan: The episodes.
        agent: The agent.
        options: Options for the presets' factories.
        elsewhere: Whether the episodes are played on other machines. Tasks whose preset or package
            is missing on this machine are then not checked.

    Raises:
        InvalidInputError: The agent cannot play every task.
    """
    can_play = getattr(agent, "can_play", None)
    if not callable(can_play):
        return
    one_of_each = {planned.spec.preset: planned for planned in plan}
    playable: dict[str, bool] = {}
    for planned in one_of_each.values():
        try:
            environment = make_environment(planned, options, None)
        except (errors.MissingDependencyError, errors.UnknownPresetError):
            if elsewhere:
                continue
            raise
        try:
            playable[planned.spec.preset] = can_play(environment)
        finally:
            await close_quietly(environment)
    without = [task for task, yes in playable.items() if not yes]
    if without:
        others = [task for task, yes in playable.items() if yes]
        remedy = "Use another agent."
        if others:
            remedy = f"Use another agent, or play only the others: {_some(others)}."
        raise errors.InvalidInputError(
            f"The agent {agent.name!r} cannot play {len(without)} of {len(playable)} tasks: "
            f"{_some(without)}. {remedy}"
        )


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


async def close_quietly(environment: environment_lib.Environment) -> None:
    """Close an environment between episodes. A failure is logged, as it belongs to no episode."""
    try:
        await GuardedEnvironment(environment).close()
    except Exception:
        _logger.warning("Could not close an environment.", exc_info=True)


def _one_of_each(plan: Iterable[PlannedEpisode], *, lenient: bool) -> Iterator[PlannedEpisode]:
    """Yield the first episode of each factory and its options."""
    seen: list[Any] = []
    for planned in plan:
        name = planned.spec.preset.partition(":")[0]
        if (name, planned.options) in seen:
            continue
        seen.append((name, planned.options))
        try:
            factory: Any = planned.selection.preset.factory
        except errors.UnknownPresetError:
            if lenient:
                continue
            raise
        if (factory, planned.options) not in seen:
            seen.append((factory, planned.options))
            yield planned


def _web_task(planned: PlannedEpisode) -> Any:
    """Return the `web` preset's task for a planned episode."""
    from webtraj.environments.browser.tasks import WebTask

    spec = planned.spec
    if not spec.start_url:
        raise errors.InvalidInputError(
            f"The task {spec.name!r} of the preset 'web' has no start_url. Use tasks that have "
            "one: a task file, as in `webtraj rollout --config-name rollout_train "
            "data_path=FOLDER`, or TaskSpec(goal=..., start_url=...)."
        )
    return WebTask(name=spec.name, goal=spec.goal, start_url=spec.start_url, site=spec.site)
