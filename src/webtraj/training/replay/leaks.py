"""Leaks: what is kept for evaluation, and is in the training data all the same."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from webtraj import errors
from webtraj.rollouts.tasks.reading import read_tasks
from webtraj.training.replay.filters import matches

if TYPE_CHECKING:
    from webtraj.training.replay.selection import Selection

__all__ = ["HeldOut", "LeakError", "check_parts", "leaking_rows"]

_MOST_NAMED = 5
_FILES = (".jsonl", ".parquet")


class LeakError(errors.InvalidInputError):
    """What is kept for evaluation is in the training data."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Tasks and sites that are never trained on."""

    tasks: tuple[str, ...] = ()
    """Names, patterns (`miniwob/*`), or task files (`.jsonl`, `.parquet`) whose tasks they are."""
    sites: tuple[str, ...] = ()
    """Names or patterns."""
    on_leak: Literal["error", "drop"] = "error"
    """What becomes of episodes of theirs: a `LeakError`, or they are left out, and counted."""

    def __post_init__(self) -> None:
        for name in ("tasks", "sites"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise errors.InvalidInputError(
                    f"HeldOut.{name} is {value!r:.200}; expected a list of names and patterns."
                )
            object.__setattr__(self, name, tuple(os.fspath(entry) for entry in value))
        if self.on_leak not in ("error", "drop"):
            raise errors.InvalidInputError(
                f"HeldOut.on_leak is {self.on_leak!r}; expected 'error' or 'drop'."
            )

    def read(self, storage_options: Mapping[str, Any] | None = None) -> HeldOut:
        """Returns the same with the names of the tasks in place of their files.

        Raises:
            InvalidInputError: A file is missing or wrong.
        """
        names: list[str] = []
        for entry in self.tasks:
            if entry.endswith(_FILES):
                names += (spec.name for spec in read_tasks(entry, storage_options=storage_options))
            else:
                names.append(entry)
        return dataclasses.replace(self, tasks=tuple(names))

    def has(self, task: str, site: str) -> bool:
        """Returns whether a task is held out, by its name or its site."""
        return matches(task, self.tasks) or (bool(site) and matches(site, self.sites))

    def refuse(self, found: Mapping[str, int]) -> LeakError:
        """Returns the error that names what leaked.

        Args:
            found: How many episodes there are of each task.
        """
        return LeakError(
            f"{len(found)} held-out tasks are in the training data: {_named(found)}. Keep "
            "rollouts for evaluation in the split 'test', or leave these out by "
            "HeldOut(on_leak='drop')."
        )


def check_parts(
    train: Selection, validation: Selection, *, by: Sequence[str] = ("episode", "prompt", "page")
) -> None:
    """Checks that two parts have nothing in common, of one buffer or two.

    Args:
        train: What is trained on.
        validation: What is not.
        by: What they must not share: of "episode", "task", "site", "prompt" (to the letter, its
            pictures to the byte) and "page" (what was observed, for the same goal).

    Raises:
        LeakError: They share something.
    """
    for kind in by:
        ours, theirs = _units(train, kind), _units(validation, kind)
        shared = sorted(ours & theirs)
        if shared:
            named = {_text(one): 0 for one in shared}
            raise LeakError(
                f"{len(shared)} {kind}s are in both training and validation data: "
                f"{_named(named)}. Split by 'task' or 'site', so that what is alike stays in one "
                "part."
            )


def leaking_rows(train: NDArray[Any], validation: NDArray[Any]) -> NDArray[np.bool_]:
    """Returns which rows of the second have a prompt or a page that is in the first, too."""
    found: NDArray[np.bool_] = np.isin(_packed(validation["prompt"]), _packed(train["prompt"]))
    pages = _packed(train["page"])
    seen = np.isin(_packed(validation["page"]), pages[pages != _NO_PAGE])
    return found | seen


_NO_PAGE = bytes(0)


def _packed(values: NDArray[Any]) -> NDArray[Any]:
    # numpy sorts and compares strings of bytes, and no raw ones. Hashes that end in zeros stay
    # apart: all are of one length.
    return np.ascontiguousarray(values).view(f"S{values.dtype.itemsize}")


def _units(selection: Selection, kind: str) -> set[Any]:
    if kind in ("prompt", "page"):
        values = _packed(selection.records[kind]).tolist()
        return set(values) - {_NO_PAGE}
    view = selection.view
    match kind:
        case "episode":
            return set(selection.episode_ids)
        case "task":
            return {view.tasks[number] for number in np.unique(view.task)}
        case "site":
            return {view.sites[number] for number in np.unique(view.site)} - {""}
    raise errors.InvalidInputError(
        f"check_parts(by={kind!r}): expected episode, task, site, prompt or page."
    )


def _text(unit: Any) -> str:
    return unit.hex() if isinstance(unit, bytes) else str(unit)


def _named(found: Mapping[str, int]) -> str:
    shown: Iterable[str] = (
        f"{name!r} ({count} episodes)" if count else repr(name)
        for name, count in list(found.items())[:_MOST_NAMED]
    )
    more = len(found) - _MOST_NAMED
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
