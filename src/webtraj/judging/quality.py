"""Judge quality: a judge's verdicts compared with labels.

A verdict is SUCCESS, FAILURE or BLOCKED. A judge that gives none (JUDGE_ERROR, UNKNOWN) is neither
right nor wrong: this lowers coverage and recall, not agreement, and never counts as a FAILURE
verdict.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from webtraj import errors
from webtraj.judging.base import Judge, NamedJudge, is_judgeable, judgement_by, name_judge
from webtraj.metrics.rates import Rate
from webtraj.store import files
from webtraj.store.layout import is_episode_id
from webtraj.store.places import open_file
from webtraj.trajectory import Judgement, Outcome

if TYPE_CHECKING:
    from webtraj.datasets.dataset import Dataset

__all__ = [
    "Confusion",
    "Disagreement",
    "LABELS",
    "Label",
    "QualityReport",
    "VERDICT_COLUMNS",
    "evaluate",
    "labels_of_dataset",
    "read_labels",
    "write_labels",
]

# Labels: the known outcomes of episodes, against which judges are measured.
# A labels file has one JSON object per line::
#
#     {"episode_id": "20261120T130405-9f86d081884c7d65", "outcome": "success", "source": "anna"}
# `outcome` is `success`, `failure` or `blocked`, and `source` names where it comes from. A file
# with any bad line is refused: a judge measured on some of the labels could be mistaken for one
# measured on all of them.

LABELS = (Outcome.SUCCESS, Outcome.FAILURE, Outcome.BLOCKED)
"""The outcomes that a label can have."""

_BY_NAME = {outcome.name.lower(): outcome for outcome in LABELS}
_FIELDS = ("episode_id", "outcome", "source")
_MAX_PROBLEMS = 10
_MAX_LINE = 2**16


@dataclasses.dataclass(frozen=True, slots=True)
class Label:
    """The known outcome of one episode."""

    episode_id: str
    outcome: Outcome
    """One of `LABELS`."""
    source: str = ""
    """Where it comes from: `environment`, `corruption/cut`, a person's name, ..."""

    def __post_init__(self) -> None:
        if not is_episode_id(self.episode_id):
            raise errors.InvalidEpisodeIdError(
                f"{self.episode_id!r:.200} is not a valid episode id."
            )
        if self.outcome not in LABELS:
            raise errors.InvalidInputError(
                f"The label is {self.outcome!r}; expected one of {', '.join(_BY_NAME)}."
            )


def labels_of_dataset(dataset: Dataset) -> dict[str, Label]:
    """Return the recorded outcomes of a dataset's episodes as labels.

    Judgements beside the episodes do not count. Episodes whose outcome is not in `LABELS` get no
    label. If a processing step judged the dataset, an episode has its last judge's outcome. So use
    this only for datasets whose environment knows the outcome, such as MiniWoB++ or a benchmark.

    Raises:
        StorageError: The index cannot be read.
    """
    return {
        summary.episode_id: Label(summary.episode_id, summary.outcome, "dataset")
        for summary in dataset.as_recorded().summaries
        if summary.outcome in LABELS
    }


def read_labels(
    place: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> dict[str, Label]:
    """Return the labels of a file by episode id, in the file's order.

    Args:
        place: The path of a `.jsonl` file, or its URL in a bucket.
        storage_options: Options for a bucket, as `webtraj.store.open_storage` takes them.

    Raises:
        InvalidInputError: The file does not exist, or has bad lines.
        StorageError: The bucket cannot be read.
    """
    name = os.fspath(place)
    labels: dict[str, Label] = {}
    lines: dict[str, int] = {}
    problems: list[str] = []
    with open_file(name, storage_options, what="labels file", expected="a .jsonl file") as file:
        for number, line in _lines(file):
            try:
                label = _label_of(line)
                if label.episode_id in lines:
                    raise errors.InvalidInputError(
                        f"{label.episode_id!r} already has a label, in line "
                        f"{lines[label.episode_id]}; expected one per episode"
                    )
            except errors.InvalidInputError as error:
                problems.append(f"line {number}: {error}")
                if len(problems) == _MAX_PROBLEMS:
                    break
                continue
            labels[label.episode_id], lines[label.episode_id] = label, number
    if problems:
        more = " (there may be more)" if len(problems) == _MAX_PROBLEMS else ""
        raise errors.InvalidInputError(
            f"{name!r} has bad lines{more}:\n  " + "\n  ".join(problems) + "\nFix or remove them."
        )
    return labels


def write_labels(path: str | os.PathLike[str], labels: Iterable[Label]) -> int:
    """Write a labels file atomically, sorted by id, and return the number of labels.

    Raises:
        InvalidInputError: An episode has two labels.
        OSError: The file cannot be written.
    """
    ordered = sorted(labels, key=lambda label: label.episode_id)
    for one, other in itertools.pairwise(ordered):
        if one.episode_id == other.episode_id:
            raise errors.InvalidInputError(
                f"The episode {one.episode_id!r} has two labels: {one.outcome.name.lower()} and "
                f"{other.outcome.name.lower()}. Give only one."
            )
    rows = (
        {
            "episode_id": label.episode_id,
            "outcome": label.outcome.name.lower(),
            "source": label.source,
        }
        for label in ordered
    )
    content = b"".join(orjson.dumps(row) + b"\n" for row in rows)
    files.write_atomically(Path(path), content)
    return len(ordered)


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := file.readline(_MAX_LINE):
        number += 1
        if line.strip():
            yield number, line


def _label_of(line: bytes) -> Label:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise errors.InvalidInputError(f"invalid JSON: {error}") from None
    if not isinstance(row, dict) or not row.keys() >= {"episode_id", "outcome"}:
        raise errors.InvalidInputError(
            'expected an object such as {"episode_id": "...", "outcome": "success"}'
        )
    if unknown := sorted(row.keys() - set(_FIELDS)):
        raise errors.InvalidInputError(
            f"unknown field {unknown[0]!r:.60}; expected {', '.join(_FIELDS)}"
        )
    outcome, source = row["outcome"], row.get("source", "")
    if not isinstance(outcome, str) or outcome not in _BY_NAME:
        raise errors.InvalidInputError(
            f"outcome is {outcome!r:.60}; expected one of {', '.join(_BY_NAME)}"
        )
    if not isinstance(source, str) or not isinstance(row["episode_id"], str):
        raise errors.InvalidInputError("episode_id and source must be text")
    return Label(row["episode_id"], _BY_NAME[outcome], source)


VERDICT_COLUMNS = (*LABELS, Outcome.JUDGE_ERROR, Outcome.UNKNOWN)
"""The columns of tables: what a judge can say."""

_MAX_DISAGREEMENTS = 100


@dataclasses.dataclass(frozen=True, slots=True)
class Confusion:
    """Counts of verdicts by label, and the rates that follow from them."""

    counts: Mapping[tuple[Outcome, Outcome], int]
    """The number of episodes by label and verdict."""

    def count(self, *, label: Outcome | None = None, verdict: Outcome | None = None) -> int:
        """Return the number of episodes with a label, a verdict, or both."""
        return sum(
            number
            for (one, other), number in self.counts.items()
            if label in (None, one) and verdict in (None, other)
        )

    @property
    def judged(self) -> int:
        """The number of judged episodes."""
        return self.count()

    @property
    def given(self) -> int:
        """The number of episodes with a verdict."""
        return sum(self.count(verdict=verdict) for verdict in LABELS)

    @property
    def coverage(self) -> Rate:
        """The share of episodes with a verdict."""
        return Rate(self.given, self.judged)

    @property
    def agreement(self) -> Rate:
        """The share of verdicts that match the label."""
        return Rate(sum(self.counts.get((label, label), 0) for label in LABELS), self.given)

    @property
    def precision(self) -> Rate:
        """The share of SUCCESS verdicts whose label is success."""
        success = Outcome.SUCCESS
        return Rate(self.counts.get((success, success), 0), self.count(verdict=success))

    @property
    def recall(self) -> Rate:
        """The share of labelled successes with a SUCCESS verdict; no verdict counts as a miss."""
        success = Outcome.SUCCESS
        return Rate(self.counts.get((success, success), 0), self.count(label=success))

    @property
    def f1(self) -> float | None:
        """The harmonic mean of precision and recall; None if either is undefined."""
        called = self.count(verdict=Outcome.SUCCESS)
        successes = self.count(label=Outcome.SUCCESS)
        if not called or not successes:
            return None
        return 2 * self.precision.numerator / (called + successes)

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa over the given verdicts: 1 is full agreement, 0 is chance level.

        None if undefined: there are no verdicts, or all labels and verdicts are the same.
        """
        total = self.given
        if not total:
            return None
        by_chance = 0
        for outcome in LABELS:
            labelled = sum(self.counts.get((outcome, verdict), 0) for verdict in LABELS)
            by_chance += labelled * self.count(verdict=outcome)
        if by_chance == total * total:
            return None
        agreed, expected = self.agreement.numerator / total, by_chance / total**2
        return (agreed - expected) / (1 - expected)

    def rows(self) -> Iterator[tuple[Outcome, list[int]]]:
        """Yield each label that occurs, with its count for each of `VERDICT_COLUMNS`."""
        for label in LABELS:
            if self.count(label=label):
                yield label, [self.counts.get((label, verdict), 0) for verdict in VERDICT_COLUMNS]

    def to_data(self) -> dict[str, Any]:
        """Return the counts and rates as JSON data."""
        return {
            "judged": self.judged,
            **{
                name: getattr(self, name).to_data()
                for name in ("coverage", "agreement", "precision", "recall")
            },
            "f1": self.f1,
            "kappa": self.kappa,
            "confusion": {
                label.name.lower(): {
                    verdict.name.lower(): number
                    for verdict, number in zip(VERDICT_COLUMNS, numbers, strict=True)
                }
                for label, numbers in self.rows()
            },
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Disagreement:
    """An episode on which the judge and the label disagree."""

    episode_id: str
    task: str
    label: Label
    judgement: Judgement

    def to_data(self) -> dict[str, str]:
        """Return it as JSON data."""
        return {
            "episode_id": self.episode_id,
            "task": self.task,
            "label": self.label.outcome.name.lower(),
            "source": self.label.source,
            "verdict": self.judgement.outcome.name.lower(),
            "reason": self.judgement.reason,
        }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class QualityReport:
    """The result of an evaluation. Every label is in `overall` or in one of the three lists."""

    judge: str
    """The judge's name."""
    version: str
    """Its version."""
    overall: Confusion
    by_task: Mapping[str, Confusion]
    """The same by task, in alphabetical order."""
    disagreements: tuple[Disagreement, ...]
    """The first hundred episodes with a wrong verdict or none."""
    missing: tuple[str, ...] = ()
    """The labelled episodes missing from the dataset."""
    unjudgeable: tuple[str, ...] = ()
    """The labelled episodes that did not end by themselves and so were not judged."""
    unreadable: tuple[str, ...] = ()
    """The labelled episodes that could not be read; `webtraj verify` shows why."""

    def to_data(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return {
            "judge": self.judge,
            "version": self.version,
            "overall": self.overall.to_data(),
            "by_task": {task: found.to_data() for task, found in self.by_task.items()},
            "disagreements": [found.to_data() for found in self.disagreements],
            "missing": list(self.missing),
            "unjudgeable": list(self.unjudgeable),
            "unreadable": list(self.unreadable),
        }


async def evaluate(
    judge: Judge,
    dataset: Dataset,
    labels: Mapping[str, Label],
    *,
    parallel: int = 8,
    judged: Callable[[Label, Judgement], None] | None = None,
) -> QualityReport:
    """Judge the labelled episodes of a dataset and compare the verdicts with the labels.

    Nothing is written. The judge sees the episodes as recorded, including their outcome and earlier
    judgements: if it uses those, the labels must come from elsewhere.

    Args:
        judge: The judge.
        dataset: The dataset; its other episodes are not read.
        labels: The labels of its episodes, by episode id.
        parallel: The number of episodes to judge at once.
        judged: A callback for each judgement, in completion order.

    Raises:
        InvalidInputError: The judge is misconfigured, or no episode has a label.
    """
    if not labels:
        raise errors.InvalidInputError(
            "There are no labels to measure the judge by. Give a file of them (--labels), or a "
            "dataset whose episodes were recorded with their outcome."
        )
    if parallel < 1:
        raise errors.InvalidInputError(f"parallel is {parallel}; expected at least 1.")
    # A judge sees what was recorded, not what other judges have said since.
    dataset = await asyncio.to_thread(dataset.as_recorded)
    run = _Run(name_judge(judge), dataset, judged or (lambda label, judgement: None))
    known = [summary.episode_id for summary in dataset.summaries if summary.episode_id in labels]
    if not known:
        raise errors.InvalidInputError(
            f"No label is for one of the {len(dataset)} episodes that are to be judged; the first "
            f"of {len(labels)} is for {next(iter(labels))!r:.100}. Give labels whose episode_id is "
            "an episode's of this dataset; `webtraj ls` shows them."
        )
    waiting = iter([labels[episode_id] for episode_id in known])
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(parallel, len(known))):
                group.create_task(run.work(waiting))
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from failed
    return run.report(known, missing=sorted(labels.keys() - set(known)))


@dataclasses.dataclass(slots=True)
class _Run:
    judge: NamedJudge
    dataset: Dataset
    judged: Callable[[Label, Judgement], None]
    found: dict[str, Disagreement] = dataclasses.field(default_factory=dict)
    unjudgeable: list[str] = dataclasses.field(default_factory=list)
    unreadable: list[str] = dataclasses.field(default_factory=list)
    counts: dict[str, collections.Counter[tuple[Outcome, Outcome]]] = dataclasses.field(
        default_factory=lambda: collections.defaultdict(collections.Counter)
    )

    async def work(self, waiting: Iterator[Label]) -> None:
        for label in waiting:
            await self._one(label)

    async def _one(self, label: Label) -> None:
        try:
            trajectory = await asyncio.to_thread(self.dataset.__getitem__, label.episode_id)
        except errors.DatasetError:
            self.unreadable.append(label.episode_id)
            return
        if not is_judgeable(trajectory):
            self.unjudgeable.append(label.episode_id)
            return
        judgement = await judgement_by(self.judge, trajectory)
        task = trajectory.info.task
        self.counts[task][label.outcome, judgement.outcome] += 1
        if judgement.outcome is not label.outcome:
            slim = dataclasses.replace(judgement, model_calls=(), findings={})
            self.found[label.episode_id] = Disagreement(label.episode_id, task, label, slim)
        self.judged(label, judgement)

    def report(self, known: list[str], missing: list[str]) -> QualityReport:
        overall: collections.Counter[tuple[Outcome, Outcome]] = collections.Counter()
        for counted in self.counts.values():
            overall.update(counted)
        disagreed = [self.found[episode_id] for episode_id in known if episode_id in self.found]
        return QualityReport(
            judge=self.judge.name,
            version=self.judge.version,
            overall=Confusion(dict(overall)),
            by_task={task: Confusion(dict(self.counts[task])) for task in sorted(self.counts)},
            disagreements=tuple(disagreed[:_MAX_DISAGREEMENTS]),
            missing=tuple(missing),
            unjudgeable=tuple(sorted(self.unjudgeable)),
            unreadable=tuple(sorted(self.unreadable)),
        )
