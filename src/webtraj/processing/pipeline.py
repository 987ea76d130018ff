"""Pipelines: run recorded episodes through steps into a new dataset.

`process` streams: at most `parallel` episodes are in memory at a time. Decisions in the dataset's
order (an `OrderedStep`'s, and the ledger's lines) do not depend on which episode finishes first. So
a run that was killed at any moment and then resumed makes the same dataset as an undisturbed run.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import dataclasses
import functools
import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import orjson

from webtraj import errors
from webtraj.datasets.dataset import Dataset, open_dataset
from webtraj.datasets.place import Place
from webtraj.datasets.writer import DatasetWriter
from webtraj.processing.base import OrderedStep, Step
from webtraj.processing.flow import Flow, StepFailedError, derive, software
from webtraj.processing.ledger import Entry, Failure, Ledger, Passage, ProcessingReport, make_report
from webtraj.processing.target import HEAD_STEP, Identity, Target, check_apart
from webtraj.store.foreign import valid_data
from webtraj.store.index import EpisodeSummary
from webtraj.trajectory import Derivation

__all__ = ["Pipeline", "Run", "process"]

# One run of a pipeline: scheduling episodes and committing them to the ledger.

_T = TypeVar("_T")
_SHARD_LINES = 100
_FLUSH_INTERVAL = 30.0
"""Seconds after which the ledger is written, however few entries are pending."""
_HEAD_VERSION = "1"
_LONGEST_MESSAGE = 2000
_EPISODE_ERRORS = (errors.CorruptDataError, errors.InvalidInputError, errors.UnwritableValueError)
"""Errors of an episode, as opposed to errors of its storage."""

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class _Outcome:
    """An episode's result before it has a number in the ledger."""

    passage: Passage
    failure: Failure | None = None
    found: bool = False


@dataclasses.dataclass(kw_only=True)
class Run:
    """See `webtraj.processing.pipeline.process`."""

    pipeline: Pipeline
    where: Callable[[EpisodeSummary], bool] | None
    parallel: int
    retry_failed: bool
    patience: int
    observer: Callable[[int, int], None]

    def __post_init__(self) -> None:
        # An ordered step remembers what it admitted, so each run has its own copy.
        steps = [
            copy.deepcopy(step) if isinstance(step, OrderedStep) else step
            for step in self.pipeline.steps
        ]
        # One thread per episode that waits for storage, and one to write the ledger.
        self._threads = ThreadPoolExecutor(self.parallel + 1, "webtraj-processing")
        self._flow = Flow(steps, self._in_thread)
        self._early: dict[int, tuple[EpisodeSummary, _Outcome]] = {}
        self._committed = self._found = self._failed_in_a_row = self._total = 0
        self._flushing = asyncio.Lock()
        self._flushed_at = 0.0
        self._source: Dataset
        self._target: Target
        self._ledger: Ledger
        self._stale: tuple[str, ...] = ()
        self._superseded = 0

    async def play(
        self,
        read: Place,
        write: Place,
        *,
        format: str | None,  # noqa: A002  (As in DatasetHeader.)
        read_options: Mapping[str, Any] | None,
        write_options: Mapping[str, Any] | None,
    ) -> ProcessingReport:
        """Process the remaining episodes; see `process`."""
        with self._threads:
            dataset = self._source = await self._in_thread(
                lambda: open_dataset(read, storage_options=read_options, complete=True)
            )
            form = format or dataset.place.header.format
            writer = await self._in_thread(
                lambda: DatasetWriter(write, format=form, storage_options=write_options)
            )
            with contextlib.ExitStack() as stack:
                stack.callback(writer.close)
                self._target = Target(writer, self.pipeline.identity)
                await self._in_thread(lambda: stack.enter_context(self._target.claim()))
                self._ledger = await self._in_thread(
                    lambda: Ledger(writer.place.storage, self.pipeline.identity.hash)
                )
                await self._process(dataset)
                return await self._in_thread(self._report)

    async def _in_thread(self, function: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)

    async def _process(self, dataset: Dataset) -> None:
        matching = dataset if self.where is None else dataset.filter(self.where)
        chosen = matching.counting
        self._superseded = len(matching) - len(chosen)
        entries = self._ledger.entries
        listed = [output for entry in entries.values() for output in entry.passage.outputs]
        await self._in_thread(lambda: self._target.find_outputs(listed))
        for entry in sorted(entries.values(), key=lambda entry: entry.number):
            self._flow.replay(entry.passage)
        new = [one for one in chosen.summaries if one.episode_id not in entries]
        # Retries come last, as they would have in an uninterrupted run.
        failed = [one for one in chosen.summaries if self._is_to_retry(one)]
        todo = enumerate([*new, *failed])
        self._stale = tuple(
            one.episode_id
            for one in chosen.summaries
            if (known := entries.get(one.episode_id)) is not None
            and not known.failure
            and known.sha256 != self._source.judgements.digest(one)
        )
        self._total = len(new) + len(failed)
        self.observer(0, self._total)
        self._flushed_at = asyncio.get_running_loop().time()
        workers = [
            asyncio.create_task(self._work(todo)) for _ in range(min(self.parallel, self._total))
        ]
        try:
            await asyncio.gather(*workers)
        except BaseException:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            try:
                await self._in_thread(lambda: self._ledger.flush(self._target.flush))
            except errors.StorageError as error:  # Nothing is lost, and the first error says more.
                _logger.warning("The ledger could not be written: %s", error)
            raise
        await self._flush()

    def _is_to_retry(self, summary: EpisodeSummary) -> bool:
        entry = self._ledger.entries.get(summary.episode_id)
        return entry is not None and entry.failure is not None and self.retry_failed

    async def _work(self, todo: Iterator[tuple[int, EpisodeSummary]]) -> None:
        for number, summary in todo:
            outcome = await self._take(number, summary)
            self._flow.leave(number)
            self._early[number] = (summary, outcome)
            self._commit()
            due = asyncio.get_running_loop().time() - self._flushed_at >= _FLUSH_INTERVAL
            if self._ledger.pending >= _SHARD_LINES or (due and self._ledger.pending):
                await self._flush()

    async def _take(self, number: int, summary: EpisodeSummary) -> _Outcome:
        episode_id = summary.episode_id
        known = self._ledger.entries.get(episode_id)
        found = self._target.outputs_of(episode_id, self._source.judgements.digest(summary))
        if found is not None:
            await self._flow.repeat(number, found)
            return _Outcome(found, found=True)
        passage = Passage() if known is None else known.passage
        try:
            source = await self._in_thread(lambda: self._source[episode_id])
        except _EPISODE_ERRORS as error:
            return _Outcome(passage, _failure("read", error))
        try:
            carried, passage = await self._flow.carry(number, source, passage)
        except StepFailedError as error:
            _logger.info("%s failed on %s", error.step, episode_id, exc_info=error.reason)
            return _Outcome(error.passage, _failure(error.step, error.reason))
        head = self._head(summary)
        data = passage.to_data()
        outputs = [derive(one, source, head, data) for one in carried]
        try:
            for output in outputs:
                await self._in_thread(functools.partial(self._target.add, output))
        except (*_EPISODE_ERRORS, errors.StorageConflictError) as error:
            passage = dataclasses.replace(passage, outputs=())
            return _Outcome(passage, _failure("write", error))
        return _Outcome(passage)

    def _head(self, summary: EpisodeSummary) -> Derivation:
        identity = self.pipeline.identity
        return Derivation(
            step=HEAD_STEP,
            version=_HEAD_VERSION,
            software=software(),
            settings={
                "hash": identity.hash,
                "steps": [f"{step['name']} {step['version']}" for step in identity.steps],
            },
            source=self._source.url,
            source_episode_id=summary.episode_id,
            source_sha256=self._source.judgements.digest(summary),
        )

    def _entry(self, summary: EpisodeSummary, outcome: _Outcome, number: int) -> Entry:
        return Entry(
            number=number,
            source=summary.episode_id,
            sha256=self._source.judgements.digest(summary),
            task=summary.task,
            passage=outcome.passage,
            failure=outcome.failure,
        )

    def _commit(self) -> None:
        """Commit finished episodes to the ledger, in order, up to the first unfinished one."""
        while (ready := self._early.pop(self._committed, None)) is not None:
            summary, outcome = ready
            entry = self._ledger.add(functools.partial(self._entry, summary, outcome))
            self._committed += 1
            self._found += outcome.found
            self._failed_in_a_row = self._failed_in_a_row + 1 if entry.failure else 0
            self.observer(self._committed, self._total)
            if self._failed_in_a_row == self.patience:
                assert entry.failure is not None
                raise errors.ProcessingStoppedError(
                    f"{self._failed_in_a_row} episodes in a row could not be processed, so the run "
                    f"stopped after {self._committed} of {self._total}. The last one, "
                    f"{summary.episode_id!r}: {entry.failure.step}: {entry.failure.type}: "
                    f"{entry.failure.message}"
                )

    async def _flush(self) -> None:
        async with self._flushing:
            await self._in_thread(lambda: self._ledger.flush(self._target.flush))
            self._flushed_at = asyncio.get_running_loop().time()

    def _report(self) -> ProcessingReport:
        report = make_report(
            self.pipeline.identity.hash,
            [(step.name, step.version) for step in self.pipeline.steps],
            self._ledger.entries.values(),
            stale=self._stale,
            superseded=self._superseded,
            now=self._committed,
            found=self._found,
        )
        self._ledger.write_report(
            orjson.dumps(valid_data(report.to_data()), option=orjson.OPT_INDENT_2)
        )
        return report


def _failure(step: str, error: Exception) -> Failure:
    kind = type(error)
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    return Failure(step, name, str(error)[:_LONGEST_MESSAGE])


PARALLEL = 8
PATIENCE = 10


@dataclasses.dataclass(frozen=True, slots=True)
class Pipeline:
    """A sequence of steps.

    >>> Pipeline(()).identity.steps
    ()

    Raises:
        InvalidInputError: A step is not a step, or its settings are not plain data.
    """

    steps: tuple[Step | OrderedStep, ...]
    identity: Identity = dataclasses.field(init=False, repr=False)
    """The identity of the datasets that it makes: steps, versions and settings."""

    def __init__(self, steps: Iterable[Step | OrderedStep]) -> None:
        object.__setattr__(self, "steps", tuple(steps))
        object.__setattr__(self, "identity", _identity(self.steps))


async def process(
    read: Place,
    write: Place,
    pipeline: Pipeline,
    *,
    where: Callable[[EpisodeSummary], bool] | None = None,
    parallel: int = PARALLEL,
    format: str | None = None,  # noqa: A002  (As in DatasetHeader.)
    retry_failed: bool = True,
    patience: int = PATIENCE,
    read_options: Mapping[str, Any] | None = None,
    write_options: Mapping[str, Any] | None = None,
    observer: Callable[[int, int], None] | None = None,
) -> ProcessingReport:
    """Make a processed dataset from a recorded one, which is not changed.

    Calling it again resumes an interrupted run, processes new episodes, and retries episodes that a
    step failed on.

    Args:
        read: The recorded dataset: its folder, or its URL.
        write: The destination: a folder or URL that is new, empty, or begun by this pipeline.
        pipeline: The steps to run.
        where: A filter of episodes. Default: all that count. Superseded tries are never processed.
        parallel: The number of episodes to process at once.
        format: The output's format; None for that of the recorded dataset.
        retry_failed: Whether to retry episodes that failed in an earlier run.
        patience: The number of consecutive failures after which the run stops.
        read_options: Options for a bucket, as `webtraj.store.bucket.BucketStorage` takes them.
        write_options: Options for the destination's bucket.
        observer: A callback with the number of finished episodes and the total.

    Returns:
        The results for all episodes, earlier runs included. It names episodes that a step failed
        on; they have no output.

    Raises:
        InvalidInputError: One place contains the other; or the destination belongs to another
            pipeline, has another format, or another run is writing to it.
        NotADatasetError: `read` is not a dataset, or the destination holds other files.
        ProcessingStoppedError: Too many consecutive episodes failed.
        StorageError: A place could not be read or written; call it again to resume.
    """
    if parallel < 1 or patience < 1:
        raise errors.InvalidInputError(
            f"parallel is {parallel} and patience is {patience}; expected at least 1 for both."
        )
    check_apart(read, write)
    run = Run(
        pipeline=pipeline,
        where=where,
        parallel=parallel,
        retry_failed=retry_failed,
        patience=patience,
        observer=observer or (lambda done, total: None),
    )
    return await run.play(
        read, write, format=format, read_options=read_options, write_options=write_options
    )


def _identity(steps: Iterable[Step | OrderedStep]) -> Identity:
    described: list[dict[str, Any]] = []
    for step in steps:
        if not isinstance(step, OrderedStep) and not (isinstance(step, Step) and callable(step)):
            raise errors.InvalidInputError(
                f"{step!r:.200} is not a step; expected one with name, version, settings that is "
                "called with a trajectory (webtraj.processing.base). @step makes one of a function."
            )
        if not step.name or step.name == HEAD_STEP:
            raise errors.InvalidInputError(
                f"{step.name!r} is not a valid step name; choose another."
            )
        described.append(
            {"name": step.name, "version": step.version, "settings": dict(step.settings)}
        )
    try:
        content = orjson.dumps(described, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise errors.InvalidInputError(
            f"The settings of a step are not plain data: {error}. Steps: "
            f"{', '.join(step['name'] for step in described)}."
        ) from error
    return Identity(hashlib.sha256(content).hexdigest()[:16], tuple(orjson.loads(content)))
