"""Filters of a replay buffer, and data held out for evaluation."""

from __future__ import annotations

import dataclasses
import enum
import fnmatch
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from webtraj import errors
from webtraj.environments.tasks import read_tasks

if TYPE_CHECKING:
    from webtraj.training.replay.buffer import Selection

__all__ = [
    "EPISODE_REASONS",
    "Filters",
    "HeldOut",
    "LeakError",
    "Reason",
    "check_parts",
    "find_leaking_rows",
    "matches",
]


class Reason(enum.StrEnum):
    """The reason why an episode or step gives no samples. Reports count each by task."""

    WHERE = "not asked for"
    """An episode that does not meet the condition `Filters.where`."""
    UNREADABLE = "unreadable"
    """An episode whose file, or a blob of it, is missing or damaged."""
    UNFINISHED = "unfinished"
    """An episode that did not end by itself."""
    INFRASTRUCTURE = "infrastructure"
    """An episode cut short by infrastructure or the site, or that its judge could not judge."""
    SUPERSEDED = "another try counts"
    """An episode of a planned row of which another try counts."""
    EMPTY = "empty"
    """An episode without actions."""
    TOO_SHORT = "too short"
    """An episode with fewer actions than `Filters.min_steps`."""
    NOT_JUDGED = "not judged"
    """An unjudged episode of unknown outcome, where only successes are wanted."""
    UNDECIDED = "outcome unknown"
    """A judged episode of unknown outcome, where only successes are wanted."""
    NOT_SUCCESSFUL = "not successful"
    """An episode that failed, where only successes are wanted."""
    HOLE = "None in observation, action or response"
    """An episode with a missing observation, action or response."""
    HELD_OUT = "held out"
    """An episode of a task or site that is held out."""
    TOO_EASY_OR_HARD = "outside the success band"
    """An episode of a task that succeeds too often or too rarely to be learned from."""
    REPEATED = "repeated from another episode"
    """A decision that a fork repeats from its parent."""
    NO_MODEL_CALL = "no model call"
    """A decision without a model call and without a renderer."""
    NO_REPLY = "no reply text"
    """A decision whose model calls all failed or returned no text."""
    UNREADABLE_PROMPT = "unreadable prompt"
    """A decision whose prompt has an unknown shape."""
    INVALID_ACTION = "invalid action"
    """A decision that was not a valid action."""
    NO_EFFECT = "no effect"
    """A step that did not change the page."""
    DUPLICATE = "duplicate"
    """A decision with the same prompt and completion as a later one."""
    TASK_CAP = "over the cap of its task"
    SITE_CAP = "over the cap of its site"


EPISODE_REASONS = frozenset(
    {
        Reason.WHERE,
        Reason.UNREADABLE,
        Reason.UNFINISHED,
        Reason.INFRASTRUCTURE,
        Reason.SUPERSEDED,
        Reason.EMPTY,
        Reason.TOO_SHORT,
        Reason.NOT_JUDGED,
        Reason.UNDECIDED,
        Reason.NOT_SUCCESSFUL,
        Reason.HOLE,
        Reason.HELD_OUT,
        Reason.TOO_EASY_OR_HARD,
    }
)
"""The reasons for leaving out whole episodes; the others are for single steps."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Filters of a replay buffer. Episodes without anything to learn are always left out."""

    filter_successful_only: bool = True
    """Whether to use successful episodes only."""
    filter_same_screenshot: bool = True
    """Whether to leave out steps without effect, judged by more than pictures: see
    `webtraj.processing.steps.prune`."""
    same_screenshot_except: tuple[str, ...] = ()
    """Patterns of tasks and environments that keep steps without effect: `miniwob/*`."""
    min_steps: int = 1
    """The fewest actions in an episode. Tasks of a single click need 1."""
    valid_actions_only: bool = True
    """Whether to leave out replies that were not valid actions. Imitation needs this;
    reinforcement learning needs the replies, so `webtraj train export` keeps them for tokens and
    preferences by default."""
    distinct: bool = True
    """Whether to keep only the latest of decisions with the same prompt and completion."""
    max_per_task: int | None = None
    """The most samples of one task, drawn by the buffer's seed; None for no cap."""
    max_per_site: int | None = None
    """The most samples of one site, drawn likewise. Samples without a site have no cap."""
    success_band: tuple[float, float] | None = None
    """The inclusive range of a task's success rate: (0.05, 0.75) leaves out tasks that are
    hopeless or already solved."""
    where: str = ""
    """A condition on episodes: see `webtraj.datasets.dataset`."""

    def __post_init__(self) -> None:
        flags = (
            "filter_successful_only", "filter_same_screenshot", "valid_actions_only", "distinct",
        )  # fmt: skip
        for name in flags:
            if not isinstance(getattr(self, name), bool):
                raise _refusal(name, getattr(self, name), "True or False")
        for name, least in (("min_steps", 0), ("max_per_task", 1), ("max_per_site", 1)):
            value = getattr(self, name)
            if value is None and name != "min_steps":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise _refusal(name, value, f"a whole number of at least {least}")
        patterns = self.same_screenshot_except
        if isinstance(patterns, str) or not all(isinstance(p, str) for p in patterns):
            raise _refusal("same_screenshot_except", patterns, "a list of patterns")
        object.__setattr__(self, "same_screenshot_except", tuple(patterns))
        if self.success_band is not None:
            band = tuple(self.success_band)
            if len(band) != 2 or not 0.0 <= band[0] <= band[1] <= 1.0 or math.isnan(sum(band)):
                raise _refusal("success_band", band, "two rates from 0 to 1, the lower one first")
            object.__setattr__(self, "success_band", band)

    def to_data(self) -> dict[str, Any]:
        """Return the filters as JSON data."""
        return {
            field.name: list(value) if isinstance(value, tuple) else value
            for field in dataclasses.fields(self)
            for value in [getattr(self, field.name)]
        }


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name matches any of the names or patterns.

    >>> matches("miniwob/click-test", ["miniwob/*"])
    True
    """
    return any(name == pattern or fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _refusal(name: str, value: Any, expected: str) -> errors.InvalidInputError:
    return errors.InvalidInputError(f"Filters.{name} is {value!r:.100}; expected {expected}.")


# Held-out data that is in the training data.

_MOST_NAMED = 5
_FILES = (".jsonl", ".parquet")


class LeakError(errors.InvalidInputError):
    """Held-out tasks or sites are in the training data."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Tasks and sites that are held out from training."""

    tasks: tuple[str, ...] = ()
    """Names, patterns (`miniwob/*`), or task files (`.jsonl`, `.parquet`)."""
    sites: tuple[str, ...] = ()
    """Names or patterns."""
    on_leak: Literal["error", "drop"] = "error"
    """Raise a `LeakError` for their episodes, or leave them out and count them."""

    def __post_init__(self) -> None:
        for name in ("tasks", "sites"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise errors.InvalidInputError(
                    f"HeldOut.{name} is {value!r:.100}; expected a list of names and patterns."
                )
            object.__setattr__(self, name, tuple(os.fspath(entry) for entry in value))
        if self.on_leak not in ("error", "drop"):
            raise errors.InvalidInputError(
                f"HeldOut.on_leak is {self.on_leak!r:.100}; expected 'error' or 'drop'."
            )

    def read(self, storage_options: Mapping[str, Any] | None = None) -> HeldOut:
        """Return a copy with task files replaced by the names of their tasks.

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
        """Return whether a task is held out by its name or site."""
        return matches(task, self.tasks) or (bool(site) and matches(site, self.sites))

    def refuse(self, found: Mapping[str, int]) -> LeakError:
        """Return the error for leaked tasks.

        Args:
            found: The number of episodes of each leaked task.
        """
        tasks = "1 held-out task is" if len(found) == 1 else f"{len(found)} held-out tasks are"
        return LeakError(
            f"{tasks} in the training data: {_list_names(found)}. Keep rollouts for evaluation in "
            "the split 'test', or leave these out by HeldOut(on_leak='drop')."
        )


def check_parts(
    train: Selection, validation: Selection, *, by: Sequence[str] = ("episode", "prompt", "page")
) -> None:
    """Check that two selections, of one buffer or two, have nothing in common.

    Args:
        train: The samples to train on.
        validation: The samples to validate on.
        by: What the selections must not share: "episode", "task", "site", "prompt" (identical text
            and pictures) or "page" (the same observation for the same goal).

    Raises:
        LeakError: They share something.
    """
    for kind in by:
        ours, theirs = _units(train, kind), _units(validation, kind)
        shared = sorted(ours & theirs)
        if shared:
            named = {_text(one): 0 for one in shared}
            units = f"1 {kind} is" if len(shared) == 1 else f"{len(shared)} {kind}s are"
            raise LeakError(
                f"{units} in both training and validation data: "
                f"{_list_names(named)}. Split by 'task' or 'site', so that similar samples stay in "
                "one part."
            )


def find_leaking_rows(train: NDArray[Any], validation: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of the validation rows whose prompt or page also occurs in training rows."""
    found: NDArray[np.bool_] = np.isin(_pack(validation["prompt"]), _pack(train["prompt"]))
    pages = _pack(train["page"])
    seen = np.isin(_pack(validation["page"]), pages[pages != _NO_PAGE])
    return found | seen


_NO_PAGE = bytes(0)


def _pack(values: NDArray[Any]) -> NDArray[Any]:
    # numpy sorts byte strings but not raw bytes. Hashes ending in zeros stay distinct, since all
    # have the same length.
    return np.ascontiguousarray(values).view(f"S{values.dtype.itemsize}")


def _units(selection: Selection, kind: str) -> set[Any]:
    if kind in ("prompt", "page"):
        values = _pack(selection.records[kind]).tolist()
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
        f"check_parts(by={kind!r:.100}): expected episode, task, site, prompt or page."
    )


def _text(unit: Any) -> str:
    return unit.hex() if isinstance(unit, bytes) else str(unit)


def _list_names(found: Mapping[str, int]) -> str:
    shown: Iterable[str] = (
        f"{name!r} ({count} episodes)" if count else repr(name)
        for name, count in list(found.items())[:_MOST_NAMED]
    )
    more = len(found) - _MOST_NAMED
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
