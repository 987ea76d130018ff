"""Metrics as rows of text, for tables. Unknown values are `-`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from webtraj.metrics.rates import Rate, Ratio
from webtraj.metrics.tally import RolloutMetrics

__all__ = ["GROUP_COLUMNS", "comparison", "details", "group_row", "group_comparison"]

_UNKNOWN = "-"


def details(metrics: RolloutMetrics) -> list[tuple[str, str, str, str]]:
    """Return rows of a metric's name, value, 95 % interval, and underlying counts."""
    names = {name: value(metrics) for name, value in _rows_of(metrics).items()}
    notes = _notes(metrics)
    return [(name, text, *notes.get(name, ("", ""))) for name, text in names.items()]


def comparison(columns: Sequence[RolloutMetrics]) -> list[tuple[str, ...]]:
    """Return rows of a metric's name and its value in each column."""
    rows: dict[str, Callable[[RolloutMetrics], str]] = {}
    for metrics in columns:
        rows |= _rows_of(metrics)
    return [(name, *(value(metrics) for metrics in columns)) for name, value in rows.items()]


GROUP_COLUMNS = (
    "episodes", "success", "", "95 %", "infra", "crashed", "blocked", "steps", "to success",
    "pass@k",
)  # fmt: skip
"""Columns of `group_row`, in order."""


def group_row(metrics: RolloutMetrics) -> tuple[str, ...]:
    """Return a group's numbers, in the order of `GROUP_COLUMNS`."""
    rate = metrics.success_rate
    return (
        str(metrics.total),
        _percent(rate.value),
        _of(rate),
        _interval(rate),
        str(metrics.infrastructure_failures),
        _percent(metrics.crashed_rate.value),
        _percent(metrics.blocked_rate.value),
        _number(metrics.avg_steps.value),
        _number(metrics.steps_to_success.mean),
        _best_pass(metrics),
    )


def group_comparison(
    columns: Sequence[Mapping[str, RolloutMetrics]],
) -> list[tuple[str, ...]]:
    """Return rows of a group's name and its success rate in each column."""
    names = dict.fromkeys(name for groups in columns for name in groups)
    return [(name, *(_rate_with_counts(groups.get(name)) for groups in columns)) for name in names]


def _rows_of(metrics: RolloutMetrics) -> dict[str, Callable[[RolloutMetrics], str]]:
    """Return a formatter for each number that these metrics have."""
    rows: dict[str, Callable[[RolloutMetrics], str]] = {
        "episodes": lambda m: str(m.total),
        "success rate": lambda m: _percent(m.success_rate.value),
        "infrastructure failures": lambda m: str(m.infrastructure_failures),
        "ungraded": lambda m: str(m.ungraded),
        "crashed rate": lambda m: _percent(m.crashed_rate.value),
        "blocked rate": lambda m: _percent(m.blocked_rate.value),
        "unfinished": lambda m: str(m.unfinished),
        "retries": lambda m: str(m.retries),
    }
    for k in metrics.pass_at_k:
        rows[f"pass@{k}"] = lambda m, k=k: _percent(  # type: ignore[misc]
            m.pass_at_k[k].value if k in m.pass_at_k else None
        )
    rows |= {
        "steps per episode": lambda m: _number(m.avg_steps.value),
        "steps to success": lambda m: _number(m.steps_to_success.mean),
        "reward": lambda m: _number(m.reward.mean, 3),
    }
    if metrics.with_steps:
        rows |= {
            "characters per response": lambda m: _number(m.avg_chars_per_response.value),
            "go-back rate": lambda m: _percent(m.goback_rate.value),
            "invalid actions": lambda m: _percent(m.invalid_action_rate.value),
            "failed actions": lambda m: _percent(m.failed_action_rate.value),
            "repeated actions": lambda m: _percent(m.repeated_action_rate.value),
        }
    rows |= {
        "wall time": lambda m: _seconds(m.throughput.wall_seconds),
        "episodes per second": lambda m: _number(m.throughput.episodes_per_second, 2),
        "steps per second": lambda m: _number(m.throughput.steps_per_second, 2),
        "at a time": lambda m: _number(m.throughput.mean_parallel),
    }
    if metrics.with_steps and metrics.seconds_by_phase.total:
        for field in dataclasses.fields(metrics.seconds_by_phase):
            rows[f"time: {field.name}"] = lambda m, name=field.name: _share(m, name)  # type: ignore[misc]
    if metrics.models.calls:
        rows |= {
            "model calls": lambda m: f"{m.models.calls:,}",
            "tokens in": lambda m: f"{_tokens_in(m):,}",
            "tokens out": lambda m: f"{m.models.output_tokens:,}",
        }
    if metrics.models.cost is not None:
        rows |= {
            "cost": lambda m: _number(m.models.cost, 4),
            "cost per success": lambda m: _number(m.cost_per_success, 4),
        }
    return rows


def _notes(metrics: RolloutMetrics) -> dict[str, tuple[str, str]]:
    """Return the interval of each number and the counts behind it."""
    seen, reward = metrics.steps_to_success, metrics.reward
    models = metrics.models
    notes = {
        "success rate": (_interval(metrics.success_rate), _of(metrics.success_rate)),
        "crashed rate": (
            _interval(metrics.crashed_rate),
            f"{_of(metrics.crashed_rate)}, by the rule {metrics.crash_rule!r}",
        ),
        "blocked rate": (_interval(metrics.blocked_rate), _of(metrics.blocked_rate)),
        "infrastructure failures": ("", "in no success rate"),
        "ungraded": ("", "valid episodes that nobody judged; in no success rate"),
        "steps per episode": ("", _by(metrics.avg_steps)),
        "steps to success": ("", _range(seen.minimum, seen.maximum, 0)),
        "reward": ("", _range(reward.minimum, reward.maximum, 3)),
        "characters per response": ("", _by(metrics.avg_chars_per_response)),
        "go-back rate": ("", _by(metrics.goback_rate)),
        "invalid actions": ("", _by(metrics.invalid_action_rate)),
        "failed actions": ("", _by(metrics.failed_action_rate)),
        "repeated actions": (
            "", f"{_by(metrics.repeated_action_rate)}, at most {metrics.longest_repeat} in a row"
        ),
        "model calls": (
            "", f"{models.failed_calls} failed, {models.uncounted_calls} without token counts"
        ),
        "cost": ("", f"{models.unpriced_calls} replies have no price"),
    }  # fmt: skip
    for k, chance in metrics.pass_at_k.items():
        left = f", {chance.left_out} with fewer attempts left out" if chance.left_out else ""
        notes[f"pass@{k}"] = ("", f"{chance.groups} tasks{left}")
    return notes


def _rate_with_counts(metrics: RolloutMetrics | None) -> str:
    if metrics is None or metrics.success_rate.value is None:
        return _UNKNOWN
    rate = metrics.success_rate
    return f"{_percent(rate.value)} ({rate.numerator}/{rate.denominator})"


def _best_pass(metrics: RolloutMetrics) -> str:
    known = [chance for chance in metrics.pass_at_k.values() if chance.value is not None]
    return f"{_percent(known[-1].value)} @{known[-1].k}" if known else _UNKNOWN


def _share(metrics: RolloutMetrics, phase: str) -> str:
    total = metrics.seconds_by_phase.total
    seconds = getattr(metrics.seconds_by_phase, phase)
    return f"{_percent(seconds / total)} ({_seconds(seconds)})" if total else _UNKNOWN


def _tokens_in(metrics: RolloutMetrics) -> int:
    models = metrics.models
    return models.input_tokens + models.cached_input_tokens + models.cache_write_tokens


def _percent(share: float | None) -> str:
    return _UNKNOWN if share is None else f"{share:.1%}"


def _number(value: float | None, digits: int = 1) -> str:
    return _UNKNOWN if value is None else f"{value:,.{digits}f}"


def _seconds(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:,.1f} s"


def _interval(rate: Rate) -> str:
    ends = rate.interval
    return _UNKNOWN if ends is None else f"{ends[0]:.1%} to {ends[1]:.1%}"


def _of(rate: Rate) -> str:
    return f"{rate.numerator} of {rate.denominator}"


def _by(ratio: Ratio) -> str:
    return f"{ratio.numerator:,} / {ratio.denominator:,}"


def _range(minimum: float | None, maximum: float | None, digits: int) -> str:
    if minimum is None or maximum is None:
        return ""
    return f"{minimum:,.{digits}f} to {maximum:,.{digits}f}"
