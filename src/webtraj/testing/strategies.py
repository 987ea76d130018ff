"""Hypothesis strategies for recorded data, for property tests of code that reads it.

The module needs Hypothesis and is imported by nothing else. Strategies are made once, since making
one costs far more than drawing from it. `same` compares written with read values: equal values of
equal types, where NaN equals NaN.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from webtraj import trajectory as trajectory_lib
from webtraj.trajectory import EndReason, Outcome, Phase, StepType

__all__ = ["arrays", "decisions", "episode_ids", "same", "scalars", "trajectories", "values"]


@functools.cache
def episode_ids() -> st.SearchStrategy[str]:
    """Return a strategy for valid episode ids."""
    return st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,40}", fullmatch=True)


@functools.cache
def texts() -> st.SearchStrategy[str]:
    """Return a strategy for text, lone surrogates included."""
    return st.text(st.characters(categories=None), max_size=20)


@functools.cache
def dtypes() -> st.SearchStrategy[np.dtype[Any]]:
    """Return a strategy for the dtypes that arrays are stored in, except objects."""
    simple = st.one_of(
        hnp.scalar_dtypes(),
        hnp.unicode_string_dtypes(endianness="?"),
        hnp.byte_string_dtypes(endianness="?"),
    )
    return st.one_of(simple, hnp.array_dtypes(simple, max_size=3, allow_subarrays=True))


@functools.cache
def arrays() -> st.SearchStrategy[np.ndarray[Any, Any]]:
    """Return a strategy for arrays of any dtype and layout, with 0 to 3 dimensions, also empty."""
    shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
    plain = st.tuples(dtypes(), shapes).flatmap(lambda both: hnp.arrays(*both))
    return st.one_of(plain, plain.map(np.transpose), plain.map(np.asfortranarray))


@functools.cache
def scalars() -> st.SearchStrategy[Any]:
    """Return a strategy for numpy scalars."""
    return hnp.scalar_dtypes().flatmap(hnp.from_dtype).filter(lambda x: isinstance(x, np.generic))


@functools.cache
def _keys() -> st.SearchStrategy[Any]:
    return st.one_of(
        texts(),
        st.sampled_from(["$", "v", "dtype", ""]),
        st.integers(),
        st.none(),
        st.binary(max_size=4),
        st.tuples(st.integers(), texts()),
    )


@functools.cache
def values(*, max_leaves: int = 12) -> st.SearchStrategy[Any]:
    """Return a strategy for nested values that can be stored without loss.

    Args:
        max_leaves: The approximate maximum number of leaves.
    """
    leaves = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(min_value=-(2**80), max_value=2**80),
        st.floats(),
        st.complex_numbers(),
        texts(),
        st.binary(max_size=20),
        st.datetimes(timezones=st.none() | st.just(datetime.UTC)),
        arrays(),
        scalars(),
    )
    hashable = st.one_of(st.integers(), texts(), st.tuples(st.booleans(), st.binary(max_size=3)))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.lists(inner, max_size=4).map(tuple),
            st.dictionaries(_keys(), inner, max_size=4),
            st.sets(hashable, max_size=4),
            st.frozensets(hashable, max_size=4),
            st.lists(inner, max_size=3).map(_object_array),
        ),
        max_leaves=max_leaves,
    )


@functools.cache
def decisions() -> st.SearchStrategy[trajectory_lib.Decision]:
    """Return a strategy for decisions with their model calls."""
    return st.builds(
        trajectory_lib.Decision,
        action=_small(),
        thought=texts(),
        memory=texts(),
        parse_error=texts(),
        model_calls=st.lists(_model_calls(), max_size=2).map(tuple),
        metadata=st.dictionaries(texts(), _small(), max_size=2),
    )


@functools.cache
def _model_calls() -> st.SearchStrategy[trajectory_lib.ModelCall]:
    token_ids = st.lists(st.integers(0, 200_000), max_size=4).map(tuple)
    return st.builds(
        trajectory_lib.ModelCall,
        model=texts(),
        policy_version=texts(),
        messages=st.lists(_small(), max_size=2).map(tuple),
        sampling=st.dictionaries(texts(), _small(), max_size=2),
        response=_small(),
        text=texts(),
        usage=st.dictionaries(texts(), st.integers(0, 10**6), max_size=2),
        prompt_token_ids=token_ids,
        completion_token_ids=token_ids,
        logprobs=st.lists(st.floats(), max_size=4).map(tuple),
        start_time=st.none() | _times(),
        latency=st.none() | _times(),
        failed_attempts=st.lists(_failed_attempts(), max_size=2).map(tuple),
    )


def _failed_attempts() -> st.SearchStrategy[trajectory_lib.FailedAttempt]:
    return st.builds(
        trajectory_lib.FailedAttempt,
        error=texts(),
        status=st.none() | st.integers(100, 599),
        start_time=st.none() | _times(),
        latency=st.none() | _times(),
    )


@st.composite
def trajectories(draw: st.DrawFn, *, max_steps: int = 4) -> trajectory_lib.EpisodeTrajectory:
    """Draw an ended episode, of a correct or a faulty environment.

    Args:
        draw: The function that Hypothesis passes.
        max_steps: The maximum number of steps.
    """
    info = draw(_infos())
    num_steps = draw(st.integers(0, max_steps))
    steps = tuple(draw(_steps(index, num_steps)) for index in range(num_steps))
    end = draw(_ends())
    start_time = draw(_times())
    return trajectory_lib.EpisodeTrajectory(info, steps, end, start_time, start_time + 1.0)


@functools.cache
def _infos() -> st.SearchStrategy[trajectory_lib.EpisodeInfo]:
    return st.builds(
        trajectory_lib.EpisodeInfo,
        task=texts(),
        goal=texts(),
        site=texts(),
        seed=st.none() | st.integers(),
        versions=st.dictionaries(texts(), texts(), max_size=2),
        policy=texts(),
        group_id=texts(),
        attempt=st.integers(0, 100),
        parent_episode_id=texts(),
        metadata=st.dictionaries(texts(), _small(), max_size=2),
        derivation=st.lists(_derivations(), max_size=2).map(tuple),
    )


@functools.cache
def _derivations() -> st.SearchStrategy[trajectory_lib.Derivation]:
    return st.builds(
        trajectory_lib.Derivation,
        step=texts(),
        version=texts(),
        settings=st.dictionaries(texts(), _small(), max_size=2),
        model=texts(),
        source=texts(),
        source_episode_id=texts(),
        changes=st.dictionaries(texts(), _small(), max_size=2),
    )


@functools.cache
def _ends() -> st.SearchStrategy[trajectory_lib.EpisodeEnd]:
    error = st.builds(trajectory_lib.ErrorInfo, type=texts(), message=texts(), traceback=texts())
    return st.builds(
        trajectory_lib.EpisodeEnd,
        reason=st.sampled_from([reason for reason in EndReason if reason]),
        phase=st.none() | st.sampled_from(Phase),
        detail=texts(),
        error=st.none() | error,
        action_in_flight=st.booleans(),
        in_flight_action=_small(),
        in_flight_decision=st.none() | decisions(),
        outcome=st.sampled_from(Outcome),
        violations=st.lists(texts(), max_size=2).map(tuple),
        recording_errors=st.lists(texts(), max_size=1).map(tuple),
        judgements=st.lists(_judgements(), max_size=1).map(tuple),
    )


@functools.cache
def _judgements() -> st.SearchStrategy[trajectory_lib.Judgement]:
    return st.builds(
        trajectory_lib.Judgement,
        judge=texts(),
        version=texts(),
        outcome=st.sampled_from(Outcome),
        reward=st.none() | st.floats(0, 1),
        reason=texts(),
        findings=st.dictionaries(texts(), _small(), max_size=2),
        model_calls=st.lists(_model_calls(), max_size=1).map(tuple),
        time=st.none() | _times(),
    )


@functools.cache
def _steps(index: int, num_steps: int) -> st.SearchStrategy[trajectory_lib.StepRecord]:
    step_types = [StepType.FIRST] if index == 0 else [StepType.MID]
    if index == num_steps - 1 > 0:
        step_types.append(StepType.LAST)
    return st.builds(
        trajectory_lib.StepRecord,
        index=st.just(index),
        step_type=st.sampled_from(step_types),
        observation=values(max_leaves=6),
        action=_small(),
        reward=st.none() | st.floats() | _small(),
        discount=st.none() | st.floats(0.0, 1.0),
        start_time=st.none() | _times(),
        end_time=st.none() | _times(),
        decision=st.none() | decisions(),
        ignored_action=_small(),
    )


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal, of equal types, where NaN equals NaN.

    Arrays are equal if dtype, shape and elements are.
    """
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return _same_arrays(one, other)
    if isinstance(one, np.generic):
        return one.dtype == other.dtype and _same_arrays(np.asarray(one), np.asarray(other))
    if isinstance(one, float):
        return repr(one) == repr(other)  # Tells -0.0 from 0.0, not NaN from NaN.
    if isinstance(one, complex):
        return same(one.real, other.real) and same(one.imag, other.imag)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Mapping):
        return len(one) == len(other) and all(
            same(key, other_key) and same(one[key], other[other_key])
            for key, other_key in zip(one, other, strict=True)
        )
    if dataclasses.is_dataclass(one) and not isinstance(one, enum.Enum):
        names = [field.name for field in dataclasses.fields(one)]
        return all(same(getattr(one, name), getattr(other, name)) for name in names)
    return bool(one == other)


def _same_arrays(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.names is not None:
        return all(_same_arrays(one[name], other[name]) for name in one.dtype.names)
    if one.dtype == object:
        return all(map(same, one.ravel(), other.ravel()))
    if one.dtype.kind in "fcmM":
        return bool(np.array_equal(one, other, equal_nan=True))
    return one.tobytes() == other.tobytes()


@functools.cache
def _small() -> st.SearchStrategy[Any]:
    return values(max_leaves=3)


@functools.cache
def _times() -> st.SearchStrategy[float]:
    return st.floats(0.0, 4e9)


def _object_array(items: list[Any]) -> np.ndarray[Any, Any]:
    array = np.empty(len(items), dtype=object)
    for index, item in enumerate(items):
        array[index] = item
    return array
