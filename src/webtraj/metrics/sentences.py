"""Metrics as text: rows of tables, and sentences. Unknown values are `-`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from webtraj.metrics.rates import PassRate, Rate, Ratio, Spread
from webtraj.metrics.tally import RolloutMetrics

if TYPE_CHECKING:
    from webtraj.metrics.comparison import Comparison, Difference
    from webtraj.metrics.metrics_report import MetricsReport

__all__ = [
    "DIFFERENCE_COLUMNS",
    "GROUP_COLUMNS",
    "cautions",
    "comparison",
    "counts_of",
    "details",
    "difference_row",
    "group_comparison",
    "group_row",
    "health",
    "interval_of",
    "number",
    "percent",
    "points",
    "points_between",
    "rate_with_counts",
    "verdict",
]

_UNKNOWN = "-"


def health(report: MetricsReport) -> str:
    """Return a sentence on what limits the trust in a report's rates.

    Numbers that are 0 or unknown are left out.
    """
    metrics = report.overall
    parts = [
        f"{name.replace('_', ' ')} {share.numerator:,} of {share.denominator:,}"
        for name, share in metrics.health.items()
        if share.numerator
    ]
    unread = metrics.total - metrics.with_steps
    if report.unreadable:
        some = ", ".join(report.unreadable[:3])
        parts.append(f"{len(report.unreadable)} unreadable ({some}), `webtraj verify` shows why")
    elif unread:
        parts.append(f"steps not read of {unread:,}")
    if report.run:
        parts.append(f"run {report.run}: {report.played or 0:,} of {report.planned or 0:,} done")
    episodes = "episode" if metrics.total == 1 else "episodes"
    return f"{metrics.total:,} {episodes}; {'; '.join(parts) or 'no defect known'}."


def details(metrics: RolloutMetrics) -> list[tuple[str, str, str, str]]:
    """Return a row for each metric: its name, value, 95 % interval, and underlying counts."""
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
    """Return a row for each group: its name, and its success rate in each column."""
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
    """Yield for each number whether the metrics have it, its name, value, interval and counts.

    A missing number also has a value, for a comparison with metrics that have the number.
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
    for name, spent in (
        ("steps to success", m.steps_to_success),
        ("seconds to success", m.seconds_to_success),
        ("tokens to success", m.tokens_to_success),
    ):
        yield bool(spent.count), (name, number(spent.mean), "", _range(spent, 0))
    reward = m.reward
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
        *(
            (name.replace("_", " "), share, "")
            for name, share in m.health.items()
            if name.startswith(("replies", "observations"))
        ),
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


DIFFERENCE_COLUMNS = ("first", "second", "points", "95 %")
"""Columns of `difference_row`, in order."""


def difference_row(difference: Difference) -> tuple[str, ...]:
    """Return two rates and their difference, in the order of `DIFFERENCE_COLUMNS`."""
    return (
        rate_with_counts(difference.first),
        rate_with_counts(difference.second),
        points(difference.value),
        points_between(difference.interval),
    )


def verdict(compared: Comparison) -> str:
    """Return whether the second differs from the first, as a sentence with its evidence."""
    success = compared.success
    if success.value is None:
        return "Unknown: one of them has no graded episode."
    found = f"{points(success.value)} points (95 %: {points_between(success.interval)})"
    pairs = compared.pairs
    if pairs is None:
        evidence = "over all graded episodes; less than half of them share a task and seed"
    else:
        noun = "pair" if pairs.number == 1 else "pairs"
        evidence = (
            f"p = {pairs.p:.3g} (McNemar, exact), {pairs.number} {noun} with the same task and seed"
        )
    return f"{compared.verdict.capitalize()}: {found}, {evidence}."


def cautions(compared: Comparison) -> list[str]:
    """Return reasons to doubt the verdict, as sentences."""
    found = [
        f"The {rate.name} differs too ({points(rate.value)} points), and success rates leave these "
        "episodes out, so the rest may be a biased sample."
        for rate in compared.rates[1:]
        if rate.is_clear
    ]
    pairs, success = compared.pairs, compared.rates[0]
    first, second = success.first.denominator, success.second.denominator
    if pairs is not None and pairs.number < max(first, second):
        found.append(
            f"Only {pairs.number} of {first} and {second} graded episodes have a pair; the others "
            "are left out."
        )
    return found


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


def points(difference: float | None) -> str:
    """Return a difference of shares in percentage points, with its sign."""
    return _UNKNOWN if difference is None else f"{100 * difference:+.1f}"


def points_between(ends: tuple[float, float] | None) -> str:
    """Return an interval of a difference, in percentage points."""
    return _UNKNOWN if ends is None else f"{points(ends[0])} to {points(ends[1])}"


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
