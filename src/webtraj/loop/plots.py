"""`success.png`: success by iteration, the mean of the tasks and each task, with intervals.

Needs matplotlib, which is imported when something is drawn; without it there is no picture, but the
numbers are in `metrics.jsonl`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["plot_success"]

_logger = logging.getLogger(__name__)

_COLUMNS = 4
_MAX_TASKS = 60
"""Of more tasks, those with the lowest last success are drawn."""


def plot_success(lines: Sequence[Mapping[str, Any]], path: Path) -> Path | None:
    """Draws success by iteration; returns the picture's path, None if there is nothing to draw.

    Args:
        lines: The lines of a loop's metrics.
        path: Where the PNG goes, in place of an older one.
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
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator, PercentFormatter
    except ImportError:
        _logger.info("There is no plot of success, since matplotlib is not installed.")
        return None
    tasks = _by_task(lines)
    rows = math.ceil(len(tasks) / _COLUMNS)
    figure = Figure(figsize=(9, 3.6 + 1.7 * rows), layout="constrained")
    heights = [2.2, *[1.0] * rows]
    grid = figure.add_gridspec(1 + rows, _COLUMNS, height_ratios=heights)
    top = figure.add_subplot(grid[0, :])
    if _known(means):
        _draw(top, means, label="evaluation, mean of the tasks, after the iteration", color="C0")
    if _known(played):
        _draw(top, played, label="episodes to train on, in the iteration", color="C1", style="s--")
    top.legend(loc="best", fontsize=8)
    top.set_xlabel("iteration")
    top.set_ylabel("success, and 95 % interval")
    panels = [top]
    for index, (task, points) in enumerate(tasks.items()):
        panel = figure.add_subplot(grid[1 + index // _COLUMNS, index % _COLUMNS])
        _draw(panel, points, color="C0")
        panel.set_title(task, fontsize=7)
        panel.tick_params(labelsize=7)
        panels.append(panel)
    last = max(line["iteration"] for line in lines)
    for panel in panels:
        panel.set_ylim(-0.03, 1.03)
        panel.set_xlim(-0.3, last + 0.3)
        panel.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.grid(alpha=0.3)
    draft = path.with_name(f".{path.name}")
    figure.savefig(draft, dpi=110, format="png")
    return draft.replace(path)


def _draw(
    panel: Any,
    points: Sequence[tuple[int, Mapping[str, Any]]],
    *,
    style: str = "o-",
    **options: Any,
) -> None:
    known = _known(points)
    numbers, values = [number for number, _ in known], [rate["value"] for _, rate in known]
    below = [rate["value"] - rate["low"] for _, rate in known]
    above = [rate["high"] - rate["value"] for _, rate in known]
    panel.errorbar(
        numbers, values, yerr=[below, above], fmt=style, markersize=4, capsize=3, **options
    )


def _known(
    points: Sequence[tuple[int, Mapping[str, Any]]],
) -> list[tuple[int, Mapping[str, Any]]]:
    return [(number, rate) for number, rate in points if rate["value"] is not None]


def _by_task(
    lines: Sequence[Mapping[str, Any]],
) -> dict[str, list[tuple[int, Mapping[str, Any]]]]:
    """Returns each task's points, the tasks by name."""
    tasks: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for line in lines:
        for task, rate in line.get("evaluation", {}).get("by_task", {}).items():
            if rate["value"] is not None:
                tasks.setdefault(task, []).append((line["iteration"], rate))
    lowest = sorted(tasks, key=lambda task: tasks[task][-1][1]["value"])[:_MAX_TASKS]
    return {task: tasks[task] for task in sorted(lowest)}
