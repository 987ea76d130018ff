"""Labels: what episodes are known to be worth, so that judges can be measured by it.

A labels file has a JSON object a line::

    {"episode_id": "20261120T130405-9f86d081884c7d65", "outcome": "success", "source": "anna"}

`outcome` is `success`, `failure` or `blocked`, and `source` says who or what knows it. A file with
bad lines is refused as a whole: a judge that is measured by a part of the labels would be taken for
one that was measured by all of them.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from webtraj import errors
from webtraj.store import files
from webtraj.store.layout import is_episode_id
from webtraj.store.places import open_file
from webtraj.trajectory import Outcome

if TYPE_CHECKING:
    from webtraj.datasets.dataset import Dataset

__all__ = ["LABELS", "Label", "labels_of_dataset", "read_labels", "write_labels"]

LABELS = (Outcome.SUCCESS, Outcome.FAILURE, Outcome.BLOCKED)
"""The outcomes that a label can have: what is true of an episode, whoever judges it."""

_BY_NAME = {outcome.name.lower(): outcome for outcome in LABELS}
_FIELDS = ("episode_id", "outcome", "source")
_MAX_PROBLEMS = 10
_MAX_LINE = 2**16


@dataclasses.dataclass(frozen=True, slots=True)
class Label:
    """What one episode is known to be worth."""

    episode_id: str
    outcome: Outcome
    """One of `LABELS`."""
    source: str = ""
    """Who or what knows it: `environment`, `corruption/cut`, a person's name, ..."""

    def __post_init__(self) -> None:
        if not is_episode_id(self.episode_id):
            raise errors.InvalidEpisodeIdError(f"{self.episode_id!r:.200} is no episode's id.")
        if self.outcome not in LABELS:
            raise errors.InvalidInputError(
                f"A label is one of {', '.join(_BY_NAME)}; got {self.outcome!r}."
            )


def labels_of_dataset(dataset: Dataset) -> dict[str, Label]:
    """Returns the outcomes that a dataset's episodes were recorded with, as labels.

    Episodes with another outcome than those of `LABELS` have none: nothing is known of them. The
    outcome of an episode that was judged is its last judge's, so this is for what was recorded
    where the environment knows: MiniWoB++, the fixture site, a benchmark.
    """
    return {
        summary.episode_id: Label(summary.episode_id, summary.outcome, "dataset")
        for summary in dataset.summaries
        if summary.outcome in LABELS
    }


def read_labels(
    place: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> dict[str, Label]:
    """Returns the labels of a file, by episode, in its order.

    Args:
        place: A `.jsonl` file: its path, or its URL in a bucket.
        storage_options: For a bucket, as `webtraj.store.open_storage` takes them.

    Raises:
        InvalidInputError: There is no such file, or lines of it are wrong.
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
                        f"{label.episode_id!r} has a label already, in line "
                        f"{lines[label.episode_id]}; expected one for each episode"
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
            f"{name!r} has bad lines{more}:\n  " + "\n  ".join(problems) + "\nMend or remove them."
        )
    return labels


def write_labels(path: str | os.PathLike[str], labels: Iterable[Label]) -> int:
    """Writes a labels file, whole or not at all, in the order of the ids; returns their number.

    Raises:
        InvalidInputError: An episode has two labels.
        OSError: It cannot be written.
    """
    ordered = sorted(labels, key=lambda label: label.episode_id)
    for one, other in itertools.pairwise(ordered):
        if one.episode_id == other.episode_id:
            raise errors.InvalidInputError(
                f"The episode {one.episode_id!r} has two labels: {one.outcome.name.lower()} and "
                f"{other.outcome.name.lower()}. Give one."
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
        raise errors.InvalidInputError(f"no JSON: {error}") from None
    if not isinstance(row, dict) or not row.keys() >= {"episode_id", "outcome"}:
        raise errors.InvalidInputError(
            'expected an object such as {"episode_id": "...", "outcome": "success"}'
        )
    if unknown := sorted(row.keys() - set(_FIELDS)):
        raise errors.InvalidInputError(
            f"{unknown[0]!r:.60} is no field of a label; expected {', '.join(_FIELDS)}"
        )
    outcome, source = row["outcome"], row.get("source", "")
    if not isinstance(outcome, str) or outcome not in _BY_NAME:
        raise errors.InvalidInputError(
            f"outcome is one of {', '.join(_BY_NAME)}; got {outcome!r:.60}"
        )
    if not isinstance(source, str) or not isinstance(row["episode_id"], str):
        raise errors.InvalidInputError("episode_id and source are text")
    return Label(row["episode_id"], _BY_NAME[outcome], source)
