"""Pipelines: recorded episodes through steps, into a dataset of their own.

`process` streams: at most `parallel` episodes are in memory at a time. What is decided in the order
of the dataset (by an `OrderedStep`, and what stands in the ledger) does not depend on which episode
was done first. So a run that was killed at any moment and run again makes the same dataset as one
that nobody disturbed.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from webtraj import errors
from webtraj.datasets.place import Place
from webtraj.processing.base import OrderedStep, Step
from webtraj.processing.report import ProcessingReport
from webtraj.processing.target import HEAD_STEP, Identity, check_apart
from webtraj.store.index import EpisodeSummary

__all__ = ["Pipeline", "process"]

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
    """Makes a processed dataset of a recorded one, which is not changed.

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
    from webtraj.processing.running import Run

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
