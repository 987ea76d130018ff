"""Pipelines: recorded episodes through steps, into a dataset of their own.

`process` streams: at most `parallel` episodes are in memory at a time. What is decided in the order
of the dataset (by an `OrderedStep`, and what stands in the ledger) does not depend on which episode
was done first. So a run that was killed at any moment and run again makes the same dataset as one
that nobody disturbed.
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
from webtraj.datasets.dataset import Dataset, decode_episode, open_dataset
from webtraj.datasets.place import BucketBlobs, DatasetPlace, Place
from webtraj.datasets.writer import DatasetWriter
from webtraj.processing.base import OrderedStep, Step
from webtraj.processing.flow import Flow, StepFailedError, derived, software
from webtraj.processing.ledger import Entry, Failure, Ledger, Passage, ProcessingReport, make_report
from webtraj.processing.target import HEAD_STEP, Identity, Target, check_apart
from webtraj.store.blobs import BlobSource, blobs_of
from webtraj.store.index import EpisodeSummary
from webtraj.store.layout import format_named
from webtraj.trajectory import Derivation, EpisodeTrajectory

__all__ = ["Pipeline", "Run", "process"]

# One run of a pipeline: who works on which episode, and when what stands in the ledger.

_T = TypeVar("_T")
_SHARD_LINES = 100
_FLUSH_INTERVAL = 30.0
"""Seconds after which the ledger is written, however little there is to write."""
_HEAD_VERSION = "1"
_LONGEST_MESSAGE = 2000
_EPISODE_ERRORS = (errors.CorruptDataError, errors.InvalidInputError, errors.UnwritableValueError)
"""What is wrong with an episode, and not with the place where it lies."""

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class _Outcome:
    """What became of an episode, before it has its number in the ledger."""

    passage: Passage
    failure: Failure | None = None
    found: bool = False


class Run:
    """See `webtraj.processing.pipeline.process`."""

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        where: Callable[[EpisodeSummary], bool] | None,
        parallel: int,
        retry_failed: bool,
        patience: int,
        observer: Callable[[int, int], None] | None,
    ) -> None:
        self._pipeline = pipeline
        self._where = where
        self._parallel = parallel
        self._retry_failed = retry_failed
        self._patience = patience
        self._observer = observer or (lambda done, total: None)
        # An ordered step remembers what it has let in: each run has its own.
        steps = [
            copy.deepcopy(step) if isinstance(step, OrderedStep) else step
            for step in pipeline.steps
        ]
        # A thread each for what waits for storage, and one to write the ledger beside them.
        self._threads = ThreadPoolExecutor(parallel + 1, "webtraj-processing")
        self._flow = Flow(steps, self._in_thread)
        self._early: dict[int, tuple[EpisodeSummary, _Outcome]] = {}
        self._committed = 0
        self._found = 0
        self._failed_in_a_row = 0
        self._flushing = asyncio.Lock()
        self._flushed_at = 0.0
        self._source: DatasetPlace
        self._target: Target
        self._ledger: Ledger
        self._stale: tuple[str, ...] = ()
        self._total = 0

    async def play(
        self,
        read: Place,
        write: Place,
        *,
        format: str | None,  # noqa: A002  (As in DatasetHeader.)
        read_options: Mapping[str, Any] | None,
        write_options: Mapping[str, Any] | None,
    ) -> ProcessingReport:
        """Process what is not done yet; see `process`."""
        with self._threads:
            dataset = await self._in_thread(
                lambda: open_dataset(read, storage_options=read_options, complete=True)
            )
            self._source = dataset.place
            writer = await self._in_thread(
                lambda: DatasetWriter(
                    write,
                    format=format or dataset.place.header.format,
                    storage_options=write_options,
                )
            )
            with contextlib.ExitStack() as stack:
                stack.callback(writer.close)
                self._target = Target(writer, self._pipeline.identity)
                await self._in_thread(lambda: stack.enter_context(self._target.claimed()))
                self._ledger = await self._in_thread(
                    lambda: Ledger(writer.place.storage, self._pipeline.identity.hash)
                )
                await self._process(dataset)
                return await self._in_thread(self._report)

    async def _in_thread(self, function: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)

    async def _process(self, dataset: Dataset) -> None:
        chosen = dataset if self._where is None else dataset.filter(self._where)
        entries = self._ledger.entries
        listed = [output for entry in entries.values() for output in entry.passage.outputs]
        await self._in_thread(lambda: self._target.find_outputs(listed))
        for entry in sorted(entries.values(), key=lambda entry: entry.number):
            self._flow.replay(entry.passage)
        new = [one for one in chosen.summaries if one.episode_id not in entries]
        # What failed before comes last, as it would have if the run had not been cut off.
        failed = [one for one in chosen.summaries if self._is_to_retry(one)]
        todo = enumerate([*new, *failed])
        self._stale = tuple(
            one.episode_id
            for one in chosen.summaries
            if (known := entries.get(one.episode_id)) is not None
            and not known.failure
            and known.sha256 != one.sha256
        )
        self._total = len(new) + len(failed)
        self._observer(0, self._total)
        self._flushed_at = asyncio.get_running_loop().time()
        workers = [
            asyncio.create_task(self._work(todo)) for _ in range(min(self._parallel, self._total))
        ]
        try:
            await asyncio.gather(*workers)
        except BaseException:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            try:
                await self._in_thread(lambda: self._ledger.flush(self._target.flush))
            except errors.StorageError as error:  # All is found again; the first error says more.
                _logger.warning("The ledger could not be written: %s", error)
            raise
        await self._flush()

    def _is_to_retry(self, summary: EpisodeSummary) -> bool:
        entry = self._ledger.entries.get(summary.episode_id)
        return entry is not None and entry.failure is not None and self._retry_failed

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
        found = self._target.outputs_of(episode_id, summary.sha256)
        if found is not None:
            await self._flow.repeat(number, found)
            return _Outcome(found, found=True)
        passage = Passage() if known is None else known.passage
        try:
            source = await self._in_thread(lambda: _read(self._source, summary))
        except _EPISODE_ERRORS as error:
            return _Outcome(passage, _failure("read", error))
        try:
            carried, passage = await self._flow.carry(number, source, passage)
        except StepFailedError as error:
            _logger.info("%s failed on %s", error.step, episode_id, exc_info=error.reason)
            return _Outcome(error.passage, _failure(error.step, error.reason))
        head = self._head(summary)
        data = passage.to_data()
        outputs = [derived(one, source, head, data) for one in carried]
        try:
            for output in outputs:
                await self._in_thread(functools.partial(self._target.add, output))
        except (*_EPISODE_ERRORS, errors.StorageConflictError) as error:
            passage = dataclasses.replace(passage, outputs=())
            return _Outcome(passage, _failure("write", error))
        return _Outcome(passage)

    def _head(self, summary: EpisodeSummary) -> Derivation:
        identity = self._pipeline.identity
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
            source_sha256=summary.sha256,
        )

    def _commit(self) -> None:
        """Put into the ledger what is done, as far as all before it is."""
        while (ready := self._early.pop(self._committed, None)) is not None:
            summary, outcome = ready
            entry = self._ledger.add(functools.partial(_entry, summary, outcome))
            self._committed += 1
            self._found += outcome.found
            self._failed_in_a_row = self._failed_in_a_row + 1 if entry.failure else 0
            self._observer(self._committed, self._total)
            if self._failed_in_a_row == self._patience:
                assert entry.failure is not None
                raise errors.ProcessingStoppedError(
                    f"{self._failed_in_a_row} episodes in a row could not be processed, so it was "
                    f"given up after {self._committed} of {self._total}. The last, "
                    f"{summary.episode_id!r}: {entry.failure.step}: {entry.failure.type}: "
                    f"{entry.failure.message}"
                )

    async def _flush(self) -> None:
        async with self._flushing:
            await self._in_thread(lambda: self._ledger.flush(self._target.flush))
            self._flushed_at = asyncio.get_running_loop().time()

    def _report(self) -> ProcessingReport:
        report = make_report(
            self._pipeline.identity.hash,
            [(step.name, step.version) for step in self._pipeline.steps],
            self._ledger.entries.values(),
            stale=self._stale,
            now=self._committed,
            found=self._found,
        )
        self._ledger.write_report(orjson.dumps(report.to_data(), option=orjson.OPT_INDENT_2))
        return report


def _read(place: DatasetPlace, summary: EpisodeSummary) -> EpisodeTrajectory:
    """Read an episode, checked against the index.

    Raises:
        CorruptDataError: It, or a blob of it, is missing or damaged.
        StorageError: It cannot be read.
    """
    episode_id = summary.episode_id
    content = place.read_episode(episode_id, summary.format, sha256=summary.sha256)
    where = f"{place.url}: {episode_id}"
    stored = format_named(summary.format).decode(content, where)
    blobs: BlobSource = stored.blobs or place.blobs_of(episode_id)
    if isinstance(blobs, BucketBlobs):
        blobs = blobs.read_all(blobs_of(stored.data))
    return decode_episode(stored.data, blobs, where=where, size=len(content))


def _entry(summary: EpisodeSummary, outcome: _Outcome, number: int) -> Entry:
    return Entry(
        number=number,
        source=summary.episode_id,
        sha256=summary.sha256,
        task=summary.task,
        passage=outcome.passage,
        failure=outcome.failure,
    )


def _failure(step: str, error: Exception) -> Failure:
    kind = type(error)
    name = (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
    return Failure(step, name, str(error)[:_LONGEST_MESSAGE])


PARALLEL = 8
PATIENCE = 10


@dataclasses.dataclass(frozen=True, slots=True)
class Pipeline:
    """Steps, in order.

    >>> Pipeline(()).identity.steps
    ()

    Raises:
        InvalidInputError: One is no step, or its settings are no plain data.
    """

    steps: tuple[Step | OrderedStep, ...]
    identity: Identity = dataclasses.field(init=False, repr=False)
    """What the dataset that it makes belongs to: its steps, their versions and settings."""

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
    """Make a processed dataset of a recorded one, which is not changed.

    It may be run again: after a death it goes on; when there are new episodes, it does those; and
    episodes that a step had failed on are tried again.

    Args:
        read: The recorded dataset: its folder, or its URL.
        write: Where the processed one goes: a folder or URL, new, empty, or begun by this pipeline.
        pipeline: What is to be done.
        where: Which episodes; all, if not given.
        parallel: How many are worked on at a time.
        format: The format of what is written; None: as what was recorded.
        retry_failed: Whether episodes are tried again that failed in an earlier run.
        patience: How many may fail in a row, before the run is given up.
        read_options: For a bucket: what `webtraj.store.bucket.BucketStorage` takes.
        write_options: Likewise.
        observer: Is called with how many are done, and of how many, as it goes on.

    Returns:
        What came of all episodes, earlier runs included. An episode that a step failed on is named
        there; nothing is written of it.

    Raises:
        InvalidInputError: The places lie in each other; or what is to be written is another
            pipeline's, of another format, or is being written by another run.
        NotADatasetError: There is nothing recorded, or the place to write holds other things.
        ProcessingStoppedError: Too many episodes failed, one after the other.
        StorageError: One of the places could not be read or written; run it again.
    """
    if parallel < 1 or patience < 1:
        raise errors.InvalidInputError(
            f"parallel={parallel} and patience={patience}; expected numbers of at least 1."
        )
    check_apart(read, write)
    run = Run(
        pipeline,
        where=where,
        parallel=parallel,
        retry_failed=retry_failed,
        patience=patience,
        observer=observer,
    )
    return await run.play(
        read, write, format=format, read_options=read_options, write_options=write_options
    )


def _identity(steps: Iterable[Step | OrderedStep]) -> Identity:
    described: list[dict[str, Any]] = []
    for step in steps:
        if not isinstance(step, OrderedStep) and not (isinstance(step, Step) and callable(step)):
            raise errors.InvalidInputError(
                f"{step!r:.200} is no step; expected one with name, version and settings that is "
                "called with a trajectory (webtraj.processing.base). @step makes one of a function."
            )
        if not step.name or step.name == HEAD_STEP:
            raise errors.InvalidInputError(f"A step cannot be called {step.name!r}.")
        described.append(
            {"name": step.name, "version": step.version, "settings": dict(step.settings)}
        )
    try:
        content = orjson.dumps(described, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise errors.InvalidInputError(
            f"The settings of a step are no plain data: {error}. Steps: "
            f"{', '.join(step['name'] for step in described)}."
        ) from error
    return Identity(hashlib.sha256(content).hexdigest()[:16], tuple(orjson.loads(content)))
