"""How a node records: its own writer into the shared store, and what had waited there before."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from webtraj import errors
from webtraj.collectors.bucket import S3TrajectoryCollector
from webtraj.collectors.spool import Spool
from webtraj.datasets.pushing import push
from webtraj.rollouts.distributed.messages import Work
from webtraj.rollouts.recording import open_collector
from webtraj.rollouts.runs import Run
from webtraj.store.layout import DatasetLayout

__all__ = ["NodeWriter"]

_logger = logging.getLogger(__name__)


class NodeWriter:
    """The collector of a node."""

    def __init__(self, work: Work) -> None:
        """Opens the collector.

        Raises:
            WebtrajError: As the collectors' initializers do.
        """
        self._storage_options = work.storage_options
        self._spool: Spool | None = None
        self.collector = open_collector(
            work.out, work.storage_options, work.format, close_timeout=work.close_timeout
        )
        if isinstance(self.collector, S3TrajectoryCollector):
            self._spool = Spool.open(self.collector.spool)[0]
            self._layout = self._spool.layout
        else:
            self._layout = DatasetLayout(self.collector.path)

    def send_what_waits(self, run: Run) -> list[str]:
        """Sends what waits in the spool; of a folder's journals the driver takes care.

        Returns:
            The ids of a run's episodes among it.

        Raises:
            CollectorError: Some of that run could not be sent.
        """
        if self._spool is None:
            return []
        waiting = {*self._spool.waiting(), *self._layout.open_episodes()}
        if not waiting:
            return []
        report = push(self._spool.path, storage_options=self._storage_options)
        unsent = [one.episode_id for one in report.unsent if run.place_of(one.episode_id)]
        if unsent:
            raise errors.CollectorError(
                f"{len(unsent)} episodes of the run {run.run_id!r}, such as {unsent[0]!r}, wait in "
                f"{str(self._spool.path)!r} and could not be sent to {report.destination!r}. Run "
                f"`webtraj push {self._spool.path}` there."
            )
        for problem in report.recovery.unreadable:
            _logger.warning("%s", problem)
        return sorted(episode_id for episode_id in waiting if run.place_of(episode_id))

    def stored(self, episode_ids: Iterable[str]) -> list[str]:
        """Returns which of those episodes, all ended, are in the store."""
        if self._spool is None:
            return [one for one in episode_ids if not self._layout.journal(one).exists()]
        # An episode has a journal until it has a file, and that until it is in the bucket.
        return [
            one
            for one in episode_ids
            if not self._layout.journal(one).exists()
            and not self._layout.episode(one, self._spool.format).exists()
        ]

    async def flush(self) -> str:
        """Waits until every record is in the store; returns why not, if that fails."""
        try:
            await self.collector.flush()
        except errors.CollectorError as error:
            return str(error)
        return ""

    async def aclose(self) -> None:
        """Sends what it can, and closes.

        Raises:
            CollectorError: Something is not in the store.
        """
        await self.collector.aclose()
