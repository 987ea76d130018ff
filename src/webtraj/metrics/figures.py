"""The charts of a report. Only this module uses matplotlib.

Names of tasks and sites are foreign text: they are never parsed as math, and characters that cannot
be drawn are removed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
import logging
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.metrics.comparison import Comparison, Point, Subject
from webtraj.metrics.facts import PhaseTimes
from webtraj.metrics.rates import Rate

__all__ = [
    "Picture",
    "differences",
    "loop_numbers",
    "outcomes",
    "plot_success",
    "success_by_group",
    "success_over_iterations",
    "time_by_phase",
]

_logger = logging.getLogger(__name__)

MOST_GROUPS = 40
"""The most groups that fit in a chart."""

_COLOURS = ("#2a6fbb", "#d9782d", "#2f9e5b", "#9a4fb5", "#b8433f", "#5d7a8c", "#a68b1d", "#c0588f")
_OUTCOME_COLOURS = {
    "success": "#2f9e5b", "failure": "#d9604c", "unknown": "#aab0b8", "blocked": "#c08a1e",
    "env_error": "#7d1f1f", "agent_error": "#8e2a63", "judge_error": "#5a2a7a",
    "timeout": "#7a4a10", "cancelled": "#c9a66b", "model_error": "#24506b",
}  # fmt: skip
_LONGEST = 48
_WIDTH = 8.0
_MOST_NUMBERS = 9


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One chart."""

    name: str
    """Its file name without the suffix."""
    title: str
    alt: str
    """The alternative text."""
    figure: Any
    """A `matplotlib.figure.Figure`."""

    def svg(self) -> bytes:
        """Return the chart as SVG. The same figure gives the same bytes."""
        return self._drawn("svg", metadata={"Date": None})

    def png(self) -> bytes:
        """Return the chart as PNG."""
        return self._drawn("png", dpi=150, metadata={"Software": None})

    def _drawn(self, kind: str, **options: Any) -> bytes:
        content = io.BytesIO()
        with _drawing():
            self.figure.savefig(content, format=kind, **options)
        return content.getvalue()


def success_over_iterations(subjects: Sequence[Subject]) -> Picture | None:
    """Draw success by iteration with Wilson's intervals, a line for each subject and split."""
    lines: dict[str, list[Point]] = {}
    for subject in subjects:
        for point in subject.points:
            if point.iteration is not None and point.report.overall.success_rate.value is not None:
                name = f"{subject.name}: {point.split}" if len(subjects) > 1 else point.split
                lines.setdefault(name, []).append(point)
    if max((len(points) for points in lines.values()), default=0) < 2:
        return None
    figure, axes = _new(3.6)
    for (name, points), colour in zip(lines.items(), _cycle(), strict=False):
        rates = [
            (point.iteration or 0, point.report.overall.success_rate.to_data()) for point in points
        ]
        _draw_by_iteration(axes, rates, colour, name)
    axes.set_xlabel("iteration")
    axes.set_ylabel("success rate")
    _legend(axes)
    return Picture(
        name="success_over_iterations",
        title="Success over iterations",
        alt="Success rate by iteration, with 95 % intervals; the table has the numbers.",
        figure=figure,
    )


def success_by_group(points: Sequence[tuple[str, Point]], by: str) -> Picture | None:
    """Draw the success rate of each group with its interval, the highest on top."""
    groups: dict[str, dict[str, Rate]] = {}
    for name, point in points:
        for group, metrics in point.report.by.get(by, {}).items():
            if metrics.success_rate.value is not None:
                groups.setdefault(group, {})[name] = metrics.success_rate
    if len(groups) < 2:
        return None
    names = sorted(groups, key=lambda group: -sum(r.denominator for r in groups[group].values()))
    names = names[:MOST_GROUPS]
    if by == "level":  # Levels go from easiest to hardest, with the first on top.
        names = [name for name in groups if name in names][::-1]
    else:
        names.sort(key=lambda group: _mean(groups[group].values()))
    figure, axes = _new(1.0 + 0.26 * len(names) * (0.6 + 0.4 * len(points)))
    for index, ((name, _), colour) in enumerate(zip(points, _cycle(), strict=False)):
        shift = (index - (len(points) - 1) / 2) * -0.6 / max(len(points), 2)
        known = [
            (row, groups[group][name]) for row, group in enumerate(names) if name in groups[group]
        ]
        if known:
            _draw_rates(axes, [(row + shift, rate) for row, rate in known], colour, name)
    axes.set_xlim(-0.02, 1.02)
    _rows(axes, names)
    _percents(axes.xaxis)
    if len(points) > 1:
        _legend(axes, columns=2, below=True)
    some = f", the {MOST_GROUPS} with the most episodes" if len(groups) > MOST_GROUPS else ""
    return Picture(
        name=f"success_by_{by}",
        title=f"Success by {by}{some}",
        alt=f"Success rate by {by}, with 95 % intervals; the table has the numbers.",
        figure=figure,
    )


def time_by_phase(points: Sequence[tuple[str, Point]]) -> Picture | None:
    """Draw the share of each phase in the episodes' time."""
    known = [(n, p.report.overall.seconds_by_phase) for n, p in points]
    known = [(name, times) for name, times in known if times.total > 0]
    if not known:
        return None
    phases = [field.name for field in dataclasses.fields(PhaseTimes)]
    bars = {name: {phase: getattr(times, phase) for phase in phases} for name, times in known}
    return Picture(
        name="time_by_phase",
        title="Time by phase",
        alt="The share of the episodes' time that each phase took; the table has the numbers.",
        figure=_stacked(bars, phases, dict(zip(phases, _cycle(), strict=False))),
    )


def outcomes(points: Sequence[tuple[str, Point]]) -> Picture:
    """Draw the share of each outcome."""
    bars = {name: dict(point.report.overall.outcomes) for name, point in points}
    kinds = [kind for kind in _OUTCOME_COLOURS if any(bar.get(kind) for bar in bars.values())]
    return Picture(
        name="outcomes",
        title="Outcomes",
        alt="The share of the episodes by outcome; the table has the numbers.",
        figure=_stacked(bars, kinds, _OUTCOME_COLOURS),
    )


def differences(comparison: Comparison, by: str = "task") -> Picture | None:
    """Draw the differences of the success rates, second minus first, with their intervals."""
    found = comparison.groups.get(by, ())[:MOST_GROUPS]
    if not found:
        return None
    shown = [*reversed(found), dataclasses.replace(comparison.rates[0], name="all episodes")]
    shown = [one for one in shown if one.value is not None and one.interval is not None]
    figure, axes = _new(1.0 + 0.26 * len(shown))
    for row, one in enumerate(shown):
        assert one.interval is not None
        assert one.value is not None
        colour = "#6b7280" if not one.is_clear else "#2f9e5b" if one.value > 0 else "#b8433f"
        axes.plot(one.interval, [row, row], color=colour, linewidth=2)
        axes.plot([one.value], [row], "D" if row == len(shown) - 1 else "o", color=colour)
    axes.axvline(0, color="#1c1e21", linewidth=0.8)
    axes.set_xlim(-1.02, 1.02)
    _rows(axes, [one.name for one in shown])
    _percents(axes.xaxis)
    axes.set_xlabel("difference of success rates", parse_math=False)
    return Picture(
        name=f"differences_by_{by}",
        title=f"Difference of success rates by {by}",
        alt=f"Differences by {by} with 95 % intervals; the table has the numbers.",
        figure=figure,
    )


def loop_numbers(subject: Subject) -> Picture | None:
    """Draw the metrics of a loop by iteration, a small chart for each one that changes."""
    names = [
        name
        for name in dict.fromkeys(name for numbers in subject.numbers for name in numbers)
        if name != "iteration" and len({n[name] for n in subject.numbers if name in n}) > 1
    ][:_MOST_NUMBERS]
    if not names:
        return None
    lines = -(-len(names) // 3)
    figure, _ = _new(1.9 * lines, axes=False)
    for index, name in enumerate(names):
        axes = figure.add_subplot(lines, 3, index + 1)
        known = [(n["iteration"], n[name]) for n in subject.numbers if name in n]
        axes.plot(*zip(*known, strict=True), "o-", color=_COLOURS[0], markersize=3)
        axes.set_title(_label(name), fontsize=9, parse_math=False)
        axes.tick_params(labelsize=8)
        axes.xaxis.get_major_locator().set_params(integer=True)
    return Picture(
        name="loop",
        title="Loop metrics",
        alt="The numbers in the loop's metrics.jsonl, by iteration.",
        figure=figure,
    )


def _draw_rates(axes: Any, rates: Sequence[tuple[float, Rate]], colour: str, name: str) -> None:
    values = [rate.value or 0.0 for _, rate in rates]
    ends = [rate.interval or (0.0, 1.0) for _, rate in rates]
    spans = [
        [max(value - low, 0.0) for value, (low, _) in zip(values, ends, strict=True)],
        [max(high - value, 0.0) for value, (_, high) in zip(values, ends, strict=True)],
    ]
    rows = [row for row, _ in rates]
    axes.errorbar(
        values, rows, xerr=spans, fmt="o", color=colour, label=_label(name), markersize=4,
        elinewidth=1.5,
    )  # fmt: skip


def _stacked(
    bars: Mapping[str, Mapping[str, float]], parts: Sequence[str], colours: Mapping[str, str]
) -> Any:
    """Return a figure with a bar of the same length for each name, split into its parts."""
    names = list(bars)[::-1]
    figure, axes = _new(1.4 + 0.32 * len(names))
    begun = [0.0] * len(names)
    for part in parts:
        if not any(bar.get(part) for bar in bars.values()):
            continue
        totals = [sum(bars[name].values()) or 1.0 for name in names]
        shares = [
            bars[name].get(part, 0) / total for name, total in zip(names, totals, strict=True)
        ]
        axes.barh(range(len(names)), shares, left=begun, color=colours[part], label=_label(part))
        begun = [start + share for start, share in zip(begun, shares, strict=True)]
    axes.set_xlim(0, 1)
    _rows(axes, names)
    _percents(axes.xaxis)
    _legend(axes, columns=5, below=True)
    return figure


def _new(height: float, *, axes: bool = True) -> tuple[Any, Any]:
    figure = _matplotlib("matplotlib.figure").Figure(
        figsize=(_WIDTH, max(height, 1.6)), layout="constrained"
    )
    if not axes:
        return figure, None
    made = figure.add_subplot()
    made.grid(alpha=0.3, linewidth=0.6)
    made.set_axisbelow(True)
    for side in ("top", "right"):
        made.spines[side].set_visible(False)
    return figure, made


def _matplotlib(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise errors.missing_dependency(
            "The charts of a report need matplotlib", "report"
        ) from error


@contextlib.contextmanager
def _drawing() -> Iterator[None]:
    matplotlib = _matplotlib("matplotlib")
    settings = {"svg.fonttype": "none", "svg.hashsalt": "webtraj", "font.family": "sans-serif"}
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # SVG readers draw characters that matplotlib's font lacks with their own fonts.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def _rows(axes: Any, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), [_label(name) for name in names], parse_math=False)
    axes.set_ylim(-0.7, len(names) - 0.3)


def _percents(axis: Any) -> None:
    axis.set_major_formatter(lambda value, _: f"{value:.0%}")


def _legend(axes: Any, *, columns: int = 1, below: bool = False) -> None:
    place: dict[str, Any] = (
        {"loc": "upper center", "bbox_to_anchor": (0.5, -0.18)} if below else {"loc": "best"}
    )
    legend = axes.legend(ncols=columns, fontsize=8, frameon=False, **place)
    for text in legend.get_texts():
        text.set_parse_math(False)


def _label(name: str) -> str:
    r"""Return a name that a chart can show: shortened, and without characters that XML lacks.

    >>> _label("_a" + chr(0) + "b"), len(_label("x" * 99))
    ('\u2009_ab', 48)
    """
    clean = "".join(char for char in name if char.isprintable())
    clean = clean.encode("utf-8", "replace").decode() or "-"
    if clean.startswith("_"):  # A legend skips labels that start with an underscore.
        clean = f"\u2009{clean}"
    return clean if len(clean) <= _LONGEST else f"{clean[: _LONGEST - 1]}…"


def _mean(rates: Any) -> float:
    rates = list(rates)
    total = sum(rate.denominator for rate in rates)
    return sum(rate.numerator for rate in rates) / total if total else 0.0


def _cycle() -> Iterator[str]:
    while True:
        yield from _COLOURS


# `success.png`: success rate by iteration, the mean of the tasks and each task, with intervals.
#
# Needs matplotlib, which is imported only for drawing. Without it there is no plot, but the numbers
# are in `metrics.jsonl`.

_COLUMNS = 4
_MAX_TASKS = 60
"""Most tasks to draw: those with the lowest last success rate."""


def plot_success(lines: Sequence[Mapping[str, Any]], path: Path) -> Path | None:
    """Plot success rates by iteration; return the plot's path, or None if there is nothing to plot.

    Args:
        lines: Lines of a loop's metrics.
        path: The PNG file to write or replace.
    """
    means = [
        (line["iteration"], line["evaluation"]["mean"])
        for line in lines
        if "mean" in line.get("evaluation", {})
    ]
    played = [(line["iteration"], line["success"]) for line in lines if "success" in line]
    if not _known(means) and not _known(played):
        return None
    try:
        figure, _ = _new(3.6, axes=False)
    except errors.MissingDependencyError:
        _logger.info("Skipped the success plot: matplotlib is not installed.")
        return None
    tasks = _points_by_task(lines)
    rows = math.ceil(len(tasks) / _COLUMNS)
    figure.set_size_inches(9, 3.6 + 1.7 * rows)
    grid = figure.add_gridspec(1 + rows, _COLUMNS, height_ratios=[2.2, *[1.0] * rows])
    panels = [top := figure.add_subplot(grid[0, :])]
    evaluated, trained = _COLOURS[:2]
    name = "evaluation after the iteration, mean of tasks"
    _draw_by_iteration(top, means, evaluated, name)
    name = "episodes to train on, in the iteration"
    _draw_by_iteration(top, played, trained, name, style="s--")
    _legend(top)
    top.set_xlabel("iteration")
    top.set_ylabel("success, and 95 % interval")
    for index, (task, points) in enumerate(tasks.items()):
        panel = figure.add_subplot(grid[1 + index // _COLUMNS, index % _COLUMNS])
        _draw_by_iteration(panel, points, evaluated, task)
        panel.set_title(_label(task), fontsize=7, parse_math=False)
        panel.tick_params(labelsize=7)
        panels.append(panel)
    last = max(line["iteration"] for line in lines)
    for panel in panels:
        panel.set_xlim(-0.3, last + 0.3)
        panel.grid(alpha=0.3)
    draft = path.with_name(f".{path.name}")
    with _drawing():
        figure.savefig(draft, dpi=110, format="png")
    return draft.replace(path)


def _draw_by_iteration(
    axes: Any,
    points: Sequence[tuple[int, Mapping[str, Any]]],
    colour: str,
    name: str,
    style: str = "o-",
) -> None:
    """Draw rates, as their JSON data, by iteration with their intervals."""
    known = _known(points)
    numbers = [number for number, _ in known]
    values, low, high = ([rate[key] for _, rate in known] for key in ("value", "low", "high"))
    if known:
        axes.plot(numbers, values, style, color=colour, label=_label(name), markersize=4)
        axes.fill_between(numbers, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.set_ylim(-0.02, 1.02)
    axes.xaxis.get_major_locator().set_params(integer=True)
    _percents(axes.yaxis)


def _known(
    points: Sequence[tuple[int, Mapping[str, Any]]],
) -> list[tuple[int, Mapping[str, Any]]]:
    return [(number, rate) for number, rate in points if rate["value"] is not None]


def _points_by_task(
    lines: Sequence[Mapping[str, Any]],
) -> dict[str, list[tuple[int, Mapping[str, Any]]]]:
    """Return each task's points, sorted by task."""
    tasks: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for line in lines:
        for task, rate in line.get("evaluation", {}).get("by_task", {}).items():
            if rate["value"] is not None:
                tasks.setdefault(task, []).append((line["iteration"], rate))
    lowest = sorted(tasks, key=lambda task: tasks[task][-1][1]["value"])[:_MAX_TASKS]
    return {task: tasks[task] for task in sorted(lowest)}
