"""Assertions about recorded episodes, and about nested values and their specs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.environments import base as base_lib
from webtraj.environments.collecting_environment import error_type
from webtraj.settings.named import nearest
from webtraj.testing import messages
from webtraj.trajectory import EndReason, Phase, StepType

__all__ = [
    "assert_ended",
    "assert_no_open_episode",
    "assert_valid_trajectory",
    "equal",
    "generate",
    "leaves",
    "validate",
]

_Member = TypeVar("_Member", EndReason, Phase)

_RELABELLED = "relabelled"
"""`webtraj.processing.steps.relabel.RELABELLED`."""


def _member(kind: type[_Member], given: _Member | str) -> _Member:
    if not isinstance(given, str) or isinstance(given, kind):
        return given
    name = given.upper()
    names = [member.lower() for member in kind.__members__]
    if name not in kind.__members__:
        raise errors.InvalidInputError(
            f"There is no {kind.__name__} {given!r:.60}. {nearest(given, names)}"
            f"Expected one of {', '.join(names)}."
        )
    return kind[name]


def assert_ended(
    trajectory: trajectory_lib.EpisodeTrajectory,
    reason: EndReason | str,
    *,
    phase: Phase | str | None = None,
    error: type[BaseException] | None = None,
) -> None:
    """Assert that an episode ended for the given reason.

    Args:
        trajectory: The episode.
        reason: An `EndReason`, or its name in any case: "terminated".
        phase: The phase in which it must have ended; None allows any.
        error: The class of the exception that must have ended it; None allows any or none.

    Raises:
        AssertionError: It is open, or ended differently. The message shows the recorded error.
        InvalidInputError: There is no such reason.
    """
    __tracebackhide__ = True
    expected = _member(EndReason, reason)
    end = trajectory.end
    if end is None:
        raise AssertionError(
            f"Episode {trajectory.episode_id} is open after {len(trajectory.steps)} timesteps; "
            f"expected it to have ended {expected.name}."
        )
    found = f"Episode {trajectory.episode_id} ended {end.reason.name}"
    found += f" in {end.phase}" if end.phase else ""
    if end.error is not None:
        found += f" by {end.error.type}: {end.error.message}"
    if end.reason is not expected:
        raise AssertionError(f"{found}; expected {expected.name}.{_traceback_of(end)}")
    if phase is not None and end.phase != phase:
        raise AssertionError(f"{found}; expected it in {phase}.{_traceback_of(end)}")
    if error is not None and (end.error is None or end.error.type != error_type(error)):
        raise AssertionError(f"{found}; expected {error_type(error)}.{_traceback_of(end)}")


def assert_no_open_episode(collector: Any) -> None:
    """Assert that every episode of a collector has ended.

    Args:
        collector: A collector with `open_episodes`, such as the memory collector.

    Raises:
        AssertionError: Some are open; the message names them.
    """
    __tracebackhide__ = True
    still_open = collector.open_episodes
    if still_open:
        raise AssertionError(
            f"{len(still_open)} episode(s) have not ended: {', '.join(still_open)}. "
            "Close the environment, or leave its `async with`, before reading the collector."
        )


def assert_valid_trajectory(
    trajectory: trajectory_lib.EpisodeTrajectory, *, allow_violations: bool = False
) -> None:
    """Assert that an episode's record is complete and consistent.

    Steps are numbered from 0; only the first is FIRST, and only the last may be LAST; each step
    follows dm_env's rules; the end matches the last step; times do not run backwards. Relabelled
    episodes need no rewards.

    Args:
        trajectory: The episode, ended or open.
        allow_violations: Whether the environment may have broken dm_env's rules. If so, rules that
            depend on it are not checked.

    Raises:
        AssertionError: The record is invalid. The message lists every problem.
    """
    __tracebackhide__ = True
    problems = [*_check_numbers(trajectory), *_check_times(trajectory), *_check_end(trajectory)]
    if not allow_violations:
        problems += [*_check_step_types(trajectory), *_check_rules(trajectory)]
    if problems:
        lines = "\n".join(f"  - {problem}" for problem in problems)
        raise AssertionError(f"Episode {trajectory.episode_id} is not valid:\n{lines}")


def _check_numbers(trajectory: trajectory_lib.EpisodeTrajectory) -> Iterator[str]:
    indices = [step.index for step in trajectory.steps]
    if indices != list(range(len(indices))):
        yield f"steps must be numbered 0, 1, 2, ...; they are numbered {indices}"


def _check_times(trajectory: trajectory_lib.EpisodeTrajectory) -> Iterator[str]:
    # Not the episode's start: a collector sets it slightly after the call of `reset` at which the
    # first step starts.
    marks: list[tuple[str, float | None]] = []
    for step in trajectory.steps:
        marks.append((f"the start of step {step.index}", step.start_time))
        marks.append((f"the end of step {step.index}", step.end_time))
    marks.append(("the episode's end", trajectory.end_time))
    known = [(name, time) for name, time in marks if time is not None]
    for (earlier, before), (later, after) in itertools.pairwise(known):
        if after < before:
            yield f"{later} ({after}) must not lie before {earlier} ({before})"


def _check_end(trajectory: trajectory_lib.EpisodeTrajectory) -> Iterator[str]:
    end = trajectory.end
    last = trajectory.steps[-1] if trajectory.steps else None
    if end is None:
        if last is not None and last.last:
            yield "an episode that returned LAST must have ended"
        return
    if end.reason is EndReason.UNKNOWN:
        yield "an end must have a reason"
    yield from (f"not recorded: {error}" for error in end.recording_errors)
    if last is None or not last.last:
        # A TRUNCATED end without a LAST comes from a run loop, and is legal.
        if end.reason is EndReason.TERMINATED:
            yield "an episode that ended TERMINATED must have a LAST step"
        return
    said = EndReason.TRUNCATED
    if base_lib.is_termination(last.discount):
        said = EndReason.TERMINATED
    if end.reason is not said:
        yield (
            f"its LAST step has discount {last.discount!r}, which means {said.name}; "
            f"it ended {end.reason.name}"
        )
    if end.action_in_flight:
        yield "an episode that returned LAST must have no action in flight"


def _check_step_types(trajectory: trajectory_lib.EpisodeTrajectory) -> Iterator[str]:
    for position, step in enumerate(trajectory.steps):
        is_final = position == len(trajectory.steps) - 1
        if step.first != (position == 0):
            yield f"step {position} is {step.step_type.name}; FIRST must come first, and only there"
        if step.last and not is_final:
            yield f"step {position} is LAST, and {len(trajectory.steps) - 1 - position} follow it"


def _check_rules(trajectory: trajectory_lib.EpisodeTrajectory) -> Iterator[str]:
    # A relabelled episode has no rewards: the old ones were for the old goal.
    rewarded = _RELABELLED not in trajectory.info.metadata
    for step in trajectory.steps:
        for rule in base_lib.broken_rules(step, StepType(step.step_type)):
            if rewarded or rule != base_lib.MISSING_REWARD:
                yield f"step {step.index}: {rule}"
        if step.first and step.action is not None:
            yield f"step {step.index}: FIRST must have no action; it has {step.action!r}"
    if trajectory.end is not None:
        yield from (f"the environment: {rule}" for rule in trajectory.end.violations)


def _traceback_of(end: trajectory_lib.EpisodeEnd) -> str:
    if end.error is None or not end.error.traceback:
        return ""
    return f"\nIts recorded traceback:\n{end.error.traceback}"


# Nested values and specs: dicts, lists and tuples with arrays or specs as leaves.
# The spec decides what a leaf is, so one spec can describe a whole structure.


def generate(spec: Any) -> Any:
    """Return a value that conforms to a nest of specs."""
    if isinstance(spec, Mapping):
        return {key: generate(item) for key, item in spec.items()}
    if isinstance(spec, (list, tuple)):
        return type(spec)(generate(item) for item in spec)
    return spec.generate_value()


def validate(value: Any, spec: Any, path: str = "") -> None:
    """Check that a value conforms to a nest of specs.

    Raises:
        AssertionError: Their structures differ.
        ValueError: A leaf does not conform to its spec.
    """
    if isinstance(spec, Mapping):
        if not isinstance(value, Mapping) or value.keys() != spec.keys():
            raise AssertionError(_mismatch(path, spec, value))
        for key in spec:
            validate(value[key], spec[key], f"{path}/{key}")
    elif isinstance(spec, (list, tuple)):
        if not isinstance(value, (list, tuple)) or len(value) != len(spec):
            raise AssertionError(_mismatch(path, spec, value))
        for position, (item, item_spec) in enumerate(zip(value, spec, strict=True)):
            validate(item, item_spec, f"{path}/{position}")
    else:
        try:
            spec.validate(value)
        except ValueError as error:
            raise ValueError(f"Value at path {path!r} failed validation: {error}.") from error


def leaves(value: Any) -> Iterator[Any]:
    """Yield the leaves of a nest, as arrays."""
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)
    else:
        yield np.asarray(value)


def equal(one: Any, other: Any) -> bool:
    """Return whether two nests are equal, comparing arrays by element and NaN as equal to NaN."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        one, other = np.asarray(one), np.asarray(other)
        has_nan = one.dtype.kind in "fc" and other.dtype.kind in "fc"
        return bool(np.array_equal(one, other, equal_nan=has_nan))
    return bool(one == other) or (one != one and other != other)


def _mismatch(path: str, spec: Any, value: Any) -> str:
    return messages.STRUCTURES_MUST_MATCH.format(path=path or "/", spec=spec, value=value)
