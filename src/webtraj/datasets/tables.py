"""A dataset as tables: a row for each episode, or for each step.

The columns of an episode are the fields of `webtraj.store.index.EpisodeSummary`, and `superseded`:
whether another try of its row counts instead. Those of a step are `STEP_COLUMNS`. Times are seconds
since the epoch (UTC), as in the index; outcomes and end reasons are names in lower case. A seed
beyond 64 bits becomes null, and lone surrogates become question marks; the episode itself keeps
both.
"""

from __future__ import annotations

import csv
import enum
import functools
import os
import secrets
import typing
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.store.files import make_folder
from webtraj.store.foreign import valid_text
from webtraj.store.index import EpisodeSummary
from webtraj.store.places import is_url

__all__ = ["STEP_COLUMNS", "episode_columns", "episode_row", "step_rows", "to_frame", "write_csv"]

STEP_COLUMNS = (
    "episode_id", "task", "policy", "step", "step_type", "action", "reward", "discount", "url",
    "thought", "model", "model_calls", "start_time", "end_time",
)  # fmt: skip
"""The columns of `step_rows`, in order. `reward` and `discount` are single numbers, `action` is
text, and `url` is the page's address after the action."""


@functools.cache
def episode_columns() -> dict[str, type]:
    """Return the type of each column of `episode_row`, without None and bounds."""
    hints = typing.get_type_hints(EpisodeSummary)
    return {**{name: _bare(hint) for name, hint in hints.items()}, "superseded": bool}


def episode_row(summary: EpisodeSummary, superseded: Container[str]) -> dict[str, Any]:
    """Return a summary as a row of plain values.

    Args:
        summary: The summary.
        superseded: The dataset's `superseded`: the ids of tries that do not count.
    """
    values = {
        name: _cell(getattr(summary, name), of)
        for name, of in episode_columns().items()
        if name != "superseded"
    }
    return {**values, "superseded": summary.episode_id in superseded}


def step_rows(
    episodes: Iterable[trajectory_lib.EpisodeTrajectory],
) -> Iterator[dict[str, Any]]:
    """Yield a row of plain values for each step of some episodes; see `STEP_COLUMNS`."""
    from webtraj.datasets.exporters.plain import action_text, to_json

    for episode in episodes:
        about = {
            "episode_id": episode.episode_id,
            "task": valid_text(episode.info.task),
            "policy": valid_text(episode.info.policy),
        }
        for step in episode.steps:
            text = None if step.first else action_text(step.action)
            if text is None and not step.first:
                text = to_json(step.action)
            decision = step.decision or trajectory_lib.Decision()
            calls = decision.model_calls
            seen = step.observation
            url = seen.get("url") if isinstance(seen, Mapping) else None
            yield about | {
                "step": step.index,
                "step_type": step.step_type.name.lower(),
                "action": None if text is None else valid_text(text),
                "reward": _number(step.reward),
                "discount": _number(step.discount),
                "url": valid_text(url) if isinstance(url, str) else None,
                "thought": valid_text(decision.thought) or None,
                "model": valid_text(calls[-1].model) if calls else None,
                "model_calls": len(calls),
                "start_time": step.start_time,
                "end_time": step.end_time,
            }


def to_frame(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> Any:
    """Return rows as a pandas DataFrame.

    Raises:
        MissingDependencyError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise errors.missing_dependency(f"A DataFrame needs pandas ({error})", "pandas") from error
    return pandas.DataFrame(list(rows), columns=list(columns))


def write_csv(
    path: str | os.PathLike[str], columns: Sequence[str], rows: Iterable[Mapping[str, Any]]
) -> int:
    """Write rows as CSV with a header, completely or not at all, and return their number.

    Raises:
        InvalidInputError: The path is a URL.
        StorageError: The file cannot be written.
    """
    if is_url(path):
        raise errors.InvalidInputError(
            f"A CSV file is written to this machine; got {os.fspath(path)!r:.200}. Give a path, or "
            "write a bucket's table with --parquet."
        )
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    number = 0
    try:
        make_folder(target.parent)
        try:
            with temporary.open("w", encoding="utf-8", errors="replace", newline="") as file:
                writer = csv.DictWriter(file, columns)
                writer.writeheader()
                for row in rows:
                    writer.writerow(row)
                    number += 1
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        if isinstance(error, errors.WebtrajError):
            raise
        raise errors.StorageError(
            f"{str(target)!r} cannot be written: {errors.reason(error)}."
        ) from error
    return number


def _number(value: Any) -> float | None:
    return None if value is None else trajectory_lib.reward_value(value)


def _bare(hint: Any) -> Any:
    return next((of for of in typing.get_args(hint) if of is not type(None)), hint)


def _cell(value: Any, of: type[Any]) -> Any:
    if value is None:
        return None
    if of is str:
        return valid_text(value)
    if issubclass(of, enum.Enum):
        return value.name.lower()
    if of is int and not -(2**63) <= value < 2**63:
        return None
    return of(value)
