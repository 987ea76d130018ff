"""Metrics as rows of text, for tables. Unknown values are `-`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from webtraj.metrics.rates import PassRate, Rate, Ratio, Spread
from webtraj.metrics.tally import RolloutMetrics

__all__ = [
    "GROUP_COLUMNS",
    "comparison",
    "counts_of",
    "details",
    "group_comparison",
    "group_row",
    "interval_of",
    "number",
    "percent",
    "rate_with_counts",
]

_UNKNOWN = "-"


def details(metrics: RolloutMetrics) -> list[tuple[str, str, str, str]]:
    """Return rows of a metric's name, value, 95 % interval, and underlying counts."""
    return [row for known, row in _rows(metrics) if known]


def comparison(columns: Sequence[RolloutMetrics]) -> list[tuple[str, ...]]:
    """Return rows of a metric's name and its value in each column."""
    every = [list(_rows(metrics)) for metrics in columns]
    names = dict.fromkeys(row[0] for rows in every for known, row in rows if known)
    values = [{row[0]: row[1] for _, row in rows} for rows in every]
    return [(name, *(of.get(name, _UNKNOWN) for of in values)) for name in names]


GROUP_COLUMNS = (
    "episodes", "success", "", "95 %", "infra", "crashed", "blocked", "steps", "to success",
    "pass@k", "pass^k",
)  # fmt: skip
"""Columns of `group_row`, in order."""


def group_row(metrics: RolloutMetrics) -> tuple[str, ...]:
    """Return a group's numbers, in the order of `GROUP_COLUMNS`."""
    rate = metrics.success_rate
    return (
        str(metrics.total),
        percent(rate.value),
        counts_of(rate),
        interval_of(rate),
        str(metrics.infrastructure_failures),
        percent(metrics.crashed_rate.value),
        percent(metrics.blocked_rate.value),
        number(metrics.avg_steps.value),
        number(metrics.steps_to_success.mean),
        _best_pass("@", metrics.pass_at_k),
        _best_pass("^", metrics.pass_hat_k),
    )


def group_comparison(
    columns: Sequence[Mapping[str, RolloutMetrics]],
) -> list[tuple[str, ...]]:
    """Return rows of a group's name and its success rate in each column."""
    names = dict.fromkeys(name for groups in columns for name in groups)
    return [
        (
            name,
            *(
                rate_with_counts(groups[name].success_rate if name in groups else None)
                for groups in columns
            ),
        )
        for name in names
    ]


def _rows(m: RolloutMetrics) -> Iterator[tuple[bool, tuple[str, str, str, str]]]:
    """Yield whether these metrics have a number; its name, value, interval, and what is behind it.

    The value of one that they lack is for a comparison with others that have it.
    """
    rates = (
        ("success rate", m.success_rate, ""),
        ("crashed rate", m.crashed_rate, f", by the rule {m.crash_rule!r}"),
        ("blocked rate", m.blocked_rate, ""),
    )
    success, crashed, blocked = (
        (name, percent(rate.value), interval_of(rate), f"{counts_of(rate)}{more}")
        for name, rate, more in rates
    )
    yield True, ("episodes", str(m.total), "", "")
    yield True, success
    yield True, (
        "infrastructure failures", str(m.infrastructure_failures), "", "in no success rate"
    )  # fmt: skip
    nobody = "valid episodes that nobody judged; in no success rate"
    yield True, ("ungraded", str(m.ungraded), "", nobody)
    yield True, crashed
    yield True, blocked
    yield True, ("unfinished", str(m.unfinished), "", "")
    yield True, ("retries", str(m.retries), "", "")
    another = "another try of their row counts"
    yield bool(m.superseded), ("superseded", str(m.superseded), "", another)
    for sign, passed in (("@", m.pass_at_k), ("^", m.pass_hat_k)):
        for k, mean in passed.items():
            yield (
                k > 1 or sign == "@",
                (f"pass{sign}{k}", percent(mean.value), interval_of(mean), _of_tasks(mean)),
            )
    yield True, ("steps per episode", number(m.avg_steps.value), "", _by(m.avg_steps))
    seen, reward = m.steps_to_success, m.reward
    yield True, ("steps to success", number(seen.mean), "", _range(seen, 0))
    yield True, ("reward", number(reward.mean, 3), "", _range(reward, 3))
    characters = m.avg_chars_per_response
    yield bool(m.with_steps), (
        "characters per response", number(characters.value), "", _by(characters)
    )  # fmt: skip
    for name, share, more in (
        ("go-back rate", m.goback_rate, ""),
        ("invalid actions", m.invalid_action_rate, ""),
        ("failed actions", m.failed_action_rate, ""),
        ("repeated actions", m.repeated_action_rate, f", at most {m.longest_repeat} in a row"),
    ):
        yield bool(m.with_steps), (name, percent(share.value), "", f"{_by(share)}{more}")
    speed = m.throughput
    yield True, ("wall time", _seconds(speed.wall_seconds), "", "")
    yield True, ("episodes per second", number(speed.episodes_per_second, 2), "", "")
    yield True, ("steps per second", number(speed.steps_per_second, 2), "", "")
    yield True, ("at a time", number(speed.mean_parallel), "", "")
    times = m.seconds_by_phase
    for phase, seconds in dataclasses.asdict(times).items():
        took = f"{percent(seconds / times.total)} ({_seconds(seconds)})" if times.total else "-"
        yield bool(m.with_steps and times.total), (f"time: {phase}", took, "", "")
    models = m.models
    calls = (
        f"{models.failed_calls} failed, {models.failed_attempts} failed attempts, "
        f"{models.uncounted_calls} without token counts"
    )
    tokens_in = models.input_tokens + models.cached_input_tokens + models.cache_write_tokens
    yield bool(models.calls), ("model calls", f"{models.calls:,}", "", calls)
    yield bool(models.calls), ("tokens in", f"{tokens_in:,}", "", "")
    yield bool(models.calls), ("tokens out", f"{models.output_tokens:,}", "", "")
    priced = models.cost is not None
    unpriced = f"{models.unpriced_calls} replies have no price"
    yield priced, ("cost", number(models.cost, 4), "", unpriced)
    yield priced, ("cost per success", number(m.cost_per_success, 4), "", "")


def rate_with_counts(rate: Rate | None) -> str:
    """Return a rate in percent, with its counts."""
    if rate is None or rate.value is None:
        return _UNKNOWN
    return f"{percent(rate.value)} ({rate.numerator}/{rate.denominator})"


def _best_pass(sign: str, passed: Mapping[int, PassRate]) -> str:
    known = [mean for mean in passed.values() if mean.value is not None]
    return f"{percent(known[-1].value)} {sign}{known[-1].k}" if known else _UNKNOWN


def _of_tasks(mean: PassRate) -> str:
    several = mean.groups != mean.num_tasks
    groups = f", {mean.groups} groups of attempts" if several else ""
    left = f", {mean.left_out} with fewer attempts left out" if mean.left_out else ""
    return f"tasks: {mean.num_tasks}{groups}{left}"


def percent(share: float | None) -> str:
    """Return a share in percent."""
    return _UNKNOWN if share is None else f"{share:.1%}"


def number(value: float | None, digits: int = 1) -> str:
    """Return a number with some digits behind the point."""
    return _UNKNOWN if value is None else f"{value:,.{digits}f}"


def _seconds(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:,.1f} s"


def interval_of(rate: Rate | PassRate) -> str:
    """Return a rate's 95 % interval."""
    ends = rate.interval
    return _UNKNOWN if ends is None else f"{ends[0]:.1%} to {ends[1]:.1%}"


def counts_of(rate: Rate) -> str:
    """Return the counts of a rate."""
    return f"{rate.numerator} of {rate.denominator}"


def _by(ratio: Ratio) -> str:
    return f"{ratio.numerator:,} / {ratio.denominator:,}"


def _range(spread: Spread, digits: int) -> str:
    if spread.minimum is None or spread.maximum is None:
        return ""
    return f"{spread.minimum:,.{digits}f} to {spread.maximum:,.{digits}f}"
