"""A rollout that has been configured: playing it, and going on with it after any death.

Beside the plan of each run lies what it was made from::

    <dataset>/runs/<run id>/config.yaml    a configuration
                            command.json   or what a command line said

so that a dataset says how it came about.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from webtraj import errors
from webtraj.rollouts.collecting import collect
from webtraj.rollouts.configuration import loading
from webtraj.rollouts.configuration.milestones import Milestones
from webtraj.rollouts.configuration.players import Player
from webtraj.rollouts.observer import RolloutObserver
from webtraj.rollouts.plan import PlannedEpisode
from webtraj.rollouts.sampling import Blocklist
from webtraj.rollouts.settings import RolloutSettings
from webtraj.rollouts.summary import RolloutSummary
from webtraj.storage import is_url, open_storage

if TYPE_CHECKING:
    from webtraj.environments.browser.pool import BrowserPool

__all__ = ["Browsers", "ConfiguredRollout", "keep_source"]

_logger = logging.getLogger(__name__)

_WHO_PLAYS = ("policy_config.", "context_config.", "model_config.", "agent", "temperature")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Browsers:
    """The browsers of a rollout."""

    contexts: int = 16
    """Episodes that share one."""
    endpoint: str = ""
    """Where they run already; empty to start our own."""
    wait_timeout: float = 120.0
    """Seconds to wait for a page to come free."""
    operation_timeout: float = 30.0
    """Seconds that a call may take."""

    def open(self, parallel: int) -> BrowserPool:
        """Returns a pool for so many episodes at a time. No browser starts before it is needed."""
        from webtraj.environments.browser.limits import PoolLimits
        from webtraj.environments.browser.pool import BrowserPool

        browsers = math.ceil(parallel / self.contexts)
        return BrowserPool(
            browsers,
            math.ceil(parallel / browsers),
            endpoint=self.endpoint,
            limits=PoolLimits(lease=self.wait_timeout, call=self.operation_timeout),
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredRollout:
    """Everything that a configuration says of a rollout."""

    plan: tuple[PlannedEpisode, ...]
    """What is played; on a resumed run all of it, also what has been played already."""
    player: Player
    """Who plays."""
    settings: RolloutSettings
    """How."""
    out: str
    """The dataset: a folder, or a bucket's URL."""
    run_id: str
    """The run's name."""
    resume: bool = False
    """Whether the run is there already, and is gone on with."""
    seed: int = 0
    """The run's seed."""
    storage_options: Mapping[str, Any] | None = None
    """For a bucket."""
    environment_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """For the presets."""
    browsers: Browsers = dataclasses.field(default_factory=Browsers)
    """What pages come from, if any are needed. On a cluster each machine has its own."""
    parallel: int | None = None
    """On a cluster: how many episodes are played at once on all machines together; None for as many
    as they can."""
    blocklist: Blocklist | None = None
    """Takes the sites that refused the agent."""
    save_every_percent: float | None = None
    """A line is logged each time that so many percent more are on record."""
    verbose: bool = False
    """Whether details are asked for; whoever shows anything goes by it."""
    iteration: int | None = None
    """The iteration's number, where there are iterations."""
    source: str = ""
    """What it was made from; kept beside the plan,"""
    source_name: str = "config.yaml"
    """in a file of this name."""

    async def play(
        self, *, observer: RolloutObserver | None = None, ray: str | None = None
    ) -> RolloutSummary:
        """Plays the rollout, or what is left of it.

        Args:
            observer: Is told what happens.
            ray: The address of a Ray cluster to play on; None for this machine.

        Returns:
            Every result, those of a resumed run's earlier episodes included.

        Raises:
            Exception: What `webtraj.rollouts.collect` raises.
        """
        if self.save_every_percent is not None:
            observer = Milestones(self.save_every_percent, observer)
        if self.resume:
            self._warn_of_changes()
        else:
            keep_source(self.out, self.storage_options, self.run_id, self.source_name, self.source)
        if ray is not None:
            from webtraj.rollouts.distributed import collect_on_ray

            return await collect_on_ray(
                self.plan,
                self.player.name,
                agent_options=self.player.options,
                address=ray,
                parallel=self.parallel,
                out=self.out,
                storage_options=self.storage_options,
                run_id=None if self.resume else self.run_id,
                resume=self.run_id if self.resume else False,
                seed=self.seed,
                settings=self.settings,
                environment_options=self.environment_options,
                blocklist=self.blocklist,
                observer=observer,
            )
        agent = self.player.make()
        async with contextlib.AsyncExitStack() as stack:
            if (close := getattr(agent, "aclose", None)) is not None:
                stack.push_async_callback(close)
            pool = None
            if any(planned.selection.uses_browser for planned in self.plan):
                pool = await stack.enter_async_context(self.browsers.open(self.settings.parallel))
            return await collect(
                self.plan,
                agent,
                out=self.out,
                storage_options=self.storage_options,
                run_id=None if self.resume else self.run_id,
                resume=self.run_id if self.resume else False,
                seed=self.seed,
                settings=self.settings,
                environment_options=self.environment_options,
                browser_pool=pool,
                blocklist=self.blocklist,
                observer=observer,
            )

    def _warn_of_changes(self) -> None:
        """Logs in what the agent differs from that which began the run: their episodes will mix."""
        storage = open_storage(self.out, self.storage_options)
        try:
            kept = storage.read(f"runs/{self.run_id}/{self.source_name}").decode()
            begun, now = (dict(_flat(_read(text))) for text in (kept, self.source))
        except (errors.StorageMissingError, errors.InvalidInputError):
            return  # Begun otherwise, or by hand: there is nothing to compare with.
        for key in sorted(set(begun) | set(now)):
            if key.startswith(_WHO_PLAYS) and begun.get(key) != now.get(key):
                _logger.warning(
                    "The run %s was begun with %s=%s, and goes on with %s.",
                    self.run_id, key, begun.get(key), now.get(key),
                )  # fmt: skip


def _read(source: str) -> Mapping[str, Any]:
    """Returns what a configuration says. One that is JSON needs no package to be read."""
    try:
        data = orjson.loads(source)
    except orjson.JSONDecodeError:
        return loading.parse(source, "A configuration")
    return data if isinstance(data, dict) else {}


def _flat(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def keep_source(
    out: str, storage_options: Mapping[str, Any] | None, run_id: str, name: str, content: str
) -> None:
    """Keeps what a run was made from beside its plan, which is yet to be written.

    Raises:
        CollectorError: The dataset's folder cannot be written.
        NotADatasetError: It holds other things.
        StorageError: The bucket cannot be written.
    """
    if not is_url(out):  # A folder has to be a dataset before there is anything else in it.
        from webtraj.collectors.layout import DatasetLayout

        layout = DatasetLayout(Path(out))
        if not layout.header.exists():
            layout.create()
    storage = open_storage(out, storage_options)
    storage.write(f"runs/{run_id}/{name}", content.encode())
