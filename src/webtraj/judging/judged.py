"""Judge a recorded dataset: the verdicts are stored beside its episodes.

A verdict is stored as soon as it is reached, so judging resumes after a crash, and running it again
judges episodes that were added meanwhile. If a judge was unavailable, the episode waits for the
next run. If a judge could not decide, the verdict is JUDGE_ERROR. The next run asks it again, but
does not store the same answer twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, get_args

from webtraj import errors
from webtraj.datasets.dataset import Dataset, open_dataset
from webtraj.datasets.judgements import FOLDER as JUDGEMENTS
from webtraj.datasets.place import DatasetPlace, Place, open_place
from webtraj.judging.base import (
    PARALLEL,
    Judge,
    NamedJudge,
    has_verdict,
    is_judgeable,
    is_unanswered,
    judgement_by,
    name_judge,
)
from webtraj.runs.spec import When
from webtraj.store import files
from webtraj.store.index import EpisodeSummary
from webtraj.trajectory import Judgement, Outcome, is_finished

__all__ = ["WHEN", "Judged", "check_judging", "judge_dataset"]

WHEN: tuple[When, ...] = get_args(When)
"""Which episodes to judge: those whose outcome is not known, or all that ended by themselves."""

_PATIENCE = 10
"""Episodes in a row without a verdict after which judging stops: the judge is away."""
_LOCK = ".lock"
_POLL = 0.5
"""Seconds between checks for another judging process."""
_UNDECIDED = (Outcome.UNKNOWN, Outcome.JUDGE_ERROR)

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Result of judging a dataset."""

    place: str
    """Path or URL of the dataset."""
    judge: str
    """The judge's name."""
    outcomes: Mapping[str, Outcome]
    """Outcomes of the episodes after judging, by episode id."""
    verdicts: int = 0
    """Number of verdicts that were reached now."""
    known: int = 0
    """Number of episodes that were left out since their outcome is known."""
    failures: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Errors of unjudged episodes, by id: mostly that the judge was unavailable."""
    undecided: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Reasons of the verdicts now that are JUDGE_ERROR, by episode id."""
    stopped: str = ""
    """Why judging stopped early; empty if it finished. Judging again resumes it."""

    @property
    def complete(self) -> bool:
        """Whether every episode was judged."""
        return not self.stopped and not self.failures


def check_judging(judge: Judge, *, when: When = "unknown", parallel: int = PARALLEL) -> NamedJudge:
    """Return the judge with a name and a version, if `judge_dataset` takes these arguments.

    No model is asked.

    Raises:
        InvalidInputError: One is invalid.
    """
    with_name = name_judge(judge)
    if when not in WHEN:
        raise errors.InvalidInputError(
            f"when={when!r:.60} is invalid; expected one of {', '.join(WHEN)}."
        )
    if isinstance(parallel, bool) or not isinstance(parallel, int) or parallel < 1:
        raise errors.InvalidInputError(f"parallel must be 1 or more; got {parallel!r:.60}.")
    return with_name


async def judge_dataset(
    place: Place,
    judge: Judge,
    *,
    when: When = "unknown",
    where: Callable[[EpisodeSummary], bool] | None = None,
    parallel: int = PARALLEL,
    storage_options: Mapping[str, Any] | None = None,
    observer: Callable[[int, int], None] | None = None,
) -> Judged:
    """Judge the episodes of a dataset on which this judge has no verdict yet.

    Episodes that did not end by themselves are left out: there is nothing to judge. So are
        superseded tries. Processes that judge the same folder take turns, so that no episode is
        judged twice.

    Args:
        place: The dataset's folder or URL. Its episodes do not change.
        judge: The judge. It is left open.
        when: "unknown" or "always"; see `WHEN`.
        where: A filter of episodes; by default all.
        parallel: How many episodes to judge at a time.
        storage_options: For a bucket, as `webtraj.store.open_storage` takes them.
        observer: Called with the number of judged episodes and their total, as judging proceeds.

    Returns:
        The outcomes. A judge that fails or is unavailable and a failing store are in it, not
        raised: what was reached is kept.

    Raises:
        InvalidInputError: An argument is invalid, or the judge cannot judge anything or returns
            what is not a judgement of its own.
        NotADatasetError: There is no dataset.
        StorageError: The dataset cannot be read.
    """
    checked = check_judging(judge, when=when, parallel=parallel)
    async with _own_turn(await asyncio.to_thread(open_place, place, storage_options)):
        dataset = await asyncio.to_thread(
            lambda: open_dataset(place, storage_options=storage_options, complete=True)
        )
        if where is not None:
            dataset = dataset.filter(where)
        recorded = await asyncio.to_thread(dataset.as_recorded)
        return await _Judging(dataset, recorded, checked, when, observer).run(parallel)


@contextlib.asynccontextmanager
async def _own_turn(place: DatasetPlace) -> AsyncIterator[None]:
    """Wait for a dataset's lock, and hold it. A bucket has no lock.

    Without a lock, such as on a file system without flock, processes judge at the same time.
    """
    waits = False
    with contextlib.ExitStack() as stack:
        while place.layout is not None:
            try:
                path = place.layout.root / JUDGEMENTS / _LOCK
                stack.enter_context(files.lock_file(path, wait=False))
                break
            except BlockingIOError:
                if not waits:
                    _logger.warning("Another process judges %s. Waiting for it.", place.url)
                waits = True
                await asyncio.sleep(_POLL)
            except errors.StorageError as error:
                _logger.info("Judging %s without a lock: %s", place.url, error)
                break
        yield


class _Judging:
    def __init__(
        self,
        dataset: Dataset,
        recorded: Dataset,
        judge: NamedJudge,
        when: When,
        observer: Callable[[int, int], None] | None,
    ) -> None:
        self._dataset = dataset
        self._recorded = recorded
        """What a judge sees: not what other judges have said since."""
        self._judge = judge
        self._observer = observer or (lambda done, total: None)
        self._book = dataset.judgements
        ended = [
            summary
            for summary in dataset.summaries
            if is_finished(summary.outcome, summary.end_reason)
            and summary.episode_id not in dataset.superseded
            and not self._book.has(summary.episode_id, judge.name, judge.version)
        ]
        self._todo = [
            summary for summary in ended if when == "always" or summary.outcome in _UNDECIDED
        ]
        self._known = len(ended) - len(self._todo)
        self._waiting: dict[str, Judgement] = {}
        self._writing = asyncio.Lock()
        self._given: dict[str, Outcome] = {}
        self._failures: dict[str, str] = {}
        self._undecided: dict[str, str] = {}
        self._failed_in_a_row = self._done = 0
        self._stopped = ""

    async def run(self, parallel: int) -> Judged:
        todo = iter(self._todo)
        self._observer(0, len(self._todo))
        workers = [asyncio.create_task(self._work(todo)) for _ in range(parallel)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.wait(workers)
            await self._store()  # Of workers that were cancelled.
            await asyncio.to_thread(self._book.close)
        before = {summary.episode_id: summary.outcome for summary in self._dataset.summaries}
        return Judged(
            place=self._dataset.url,
            judge=self._judge.name,
            outcomes={**before, **{one: out for one, out in self._given.items() if out}},
            verdicts=len(self._given),
            known=self._known,
            failures=self._failures,
            undecided=self._undecided,
            stopped=self._stopped,
        )

    async def _work(self, todo: Iterator[EpisodeSummary]) -> None:
        for summary in todo:
            if self._stopped:
                return
            try:
                await self._take(summary.episode_id)
            except errors.InvalidInputError:
                raise
            except errors.WebtrajError as error:
                self._fail(summary.episode_id, str(error))
            self._done += 1
            self._observer(self._done, len(self._todo))

    async def _take(self, episode_id: str) -> None:
        trajectory = await asyncio.to_thread(self._recorded.__getitem__, episode_id)
        if not is_judgeable(trajectory) or has_verdict(trajectory, self._judge):
            return
        try:
            judgement = await judgement_by(self._judge, trajectory)
        except errors.WebtrajError:
            raise
        except Exception as error:
            self._fail(episode_id, f"{type(error).__name__}: {error}")
            return
        if is_unanswered(judgement):
            self._fail(episode_id, judgement.reason)
            return
        self._failed_in_a_row = 0
        if judgement.outcome is Outcome.JUDGE_ERROR:
            self._undecided[episode_id] = judgement.reason
            if await self._is_last(episode_id, judgement):
                return
        self._waiting[episode_id] = judgement
        await self._store()

    async def _is_last(self, episode_id: str, judgement: Judgement) -> bool:
        """Return whether the episode's last judgement gave the same verdict and reason."""
        before = await asyncio.to_thread(self._book.of, episode_id)
        return [_identify(one) for one in before[-1:]] == [_identify(judgement)]

    async def _store(self) -> None:
        async with self._writing:  # One write takes all that came during the one before.
            batch, self._waiting = self._waiting, {}
            try:
                await asyncio.to_thread(self._book.add, batch.items())
            except errors.WebtrajError as error:
                self._stopped = self._stopped or str(error)
                self._failures |= dict.fromkeys(batch, str(error))
                return
            self._given |= {one: judgement.outcome for one, judgement in batch.items()}

    def _fail(self, episode_id: str, why: str) -> None:
        _logger.info("No verdict on %s: %s", episode_id, why)
        self._failures[episode_id] = why
        self._failed_in_a_row += 1
        if self._failed_in_a_row == _PATIENCE:
            self._stopped = self._stopped or (
                f"{self._failed_in_a_row} episodes in a row got no verdict; the last one, "
                f"{episode_id!r}: {why}"
            )


def _identify(judgement: Judgement) -> tuple[object, ...]:
    """Return a judgement's content without the time and the evidence."""
    return judgement.judge, judgement.version, judgement.outcome, judgement.reason
