"""`metrics.jsonl`: the metrics of each iteration, one JSON object per line, rewritten each time.

::

    {"iteration": 2, "algorithm": "grpo", "policy": 1, "staleness": 0, "episodes": 128,
     "steps": 410,
     "success": {"value": 0.71, "numerator": 91, "denominator": 128, "low": 0.63, "high": 0.78},
     "kept": 120, "samples": 310, "rows": 310, "loss": 0.42, "train_steps": 50,
     "policy_gradient": {"groups": 64, "groups_kept": 31, "reward": 0.58, "staleness": 0.0,
                         "unscored": 0, "ratio": 1.0, "clipped": 0.02, "entropy": 0.9,
                         "mismatch": 2e-6},
     "evaluation": {"policy": 2, "episodes": 96, "success": {...},
                    "mean": {"value": 0.8, "low": 0.74, "high": 0.86, "tasks": 3},
                    "by_task": {"miniwob/click-test": {"value": ..., ...}, ...}},
     "seconds": {"rollout": 41.0, "train": 60.2, "evaluate": 12.8}, "retries": 0}

`algorithm` is left out for sft. `policy` is the iteration whose weights played. `evaluation`
measures the weights at the iteration's end; the line of iteration 0 measures the initial policy.
`policy_gradient` is what the training on groups of attempts logged: groups, those whose attempts
got different rewards, the mean reward of all, the mean age of replies in iterations, samples
without a reward; the means over logged steps of the ratio, the share of clipped tokens and the
entropy per token; and the first step's mismatch of log-probabilities. Unknown values are null or
left out. Everything is derived from the loop's folder.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from webtraj.loop.configuration import LoopConfig
from webtraj.loop.phases import lanes
from webtraj.loop.places import Places
from webtraj.loop.state import LoopState
from webtraj.metrics.rates import mean_of_tasks
from webtraj.runs.iterations import Iterations
from webtraj.store import files, records
from webtraj.trajectory import Count

__all__ = [
    "IterationSink",
    "flat",
    "mean_of_tasks",
    "measure_iteration",
    "plot_success",
    "read_lines",
    "write_line",
]


def measure_iteration(config: LoopConfig, state: LoopState, iteration: int) -> dict[str, Any]:
    """Return an iteration's line, from the phases that are done."""
    places = Places(config)
    line: dict[str, Any] = {"iteration": iteration}
    if iteration and config.algorithm(iteration) != "sft":
        line["algorithm"] = config.algorithm(iteration)
    if iteration and state.ended((iteration, "rollout")) is not None:
        begun = state.begun((iteration, "rollout"))
        policy = 0 if begun is None else begun.policy
        line |= {"policy": policy, "staleness": _staleness(config, iteration, policy)}
        judged = config.judge is not None and state.ended((iteration, "judge")) is not None
        line |= _played((places.judged if judged else places.recorded)(iteration))
    if state.ended((iteration, "postprocess")) is not None:
        line |= _kept(places.processed(iteration))
    exports = {"export": places.export(iteration), "groups": places.groups(iteration)}
    for name, folder in exports.items():
        if state.ended((iteration, name)) is not None:
            for key, count in _exported(folder).items():
                line[key] = line.get(key, 0) + count
    if state.ended((iteration, "train")) is not None:
        line |= _trained(places.training(iteration))
    if state.ended((iteration, "evaluate")) is not None:
        line["evaluation"] = {"policy": iteration, **_evaluated(config, places, iteration)}
    slots = [slot for lane in lanes(config) for slot in lane if slot.iteration == iteration]
    line["seconds"] = {
        slot.name: round(state.seconds(slot.key), 3)
        for slot in slots
        if state.ended(slot.key) is not None
    }
    tries = [begun.attempts - 1 for slot in slots if (begun := state.begun(slot.key)) is not None]
    line["retries"] = sum(tries)
    return line


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a metrics file by iteration; none if there is no file.

    Raises:
        CorruptDataError: A line is damaged.
    """
    content = path.read_bytes() if path.exists() else b""
    remedy = "Remove the file; a resumed loop makes it again."
    return records.read_lines(_Numbered, content.splitlines(), str(path), remedy)


@dataclasses.dataclass(frozen=True, slots=True)
class _Numbered:
    iteration: Count


def write_line(path: Path, line: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Replace or add an iteration's line, and return all lines.

    Raises:
        CorruptDataError: The file is damaged.
        OSError: The file cannot be written.
    """
    lines = {other["iteration"]: other for other in read_lines(path)}
    lines[line["iteration"]] = dict(line)
    ordered = [lines[number] for number in sorted(lines)]
    files.write_atomically(path, b"".join(orjson.dumps(one) + b"\n" for one in ordered))
    return ordered


def flat(line: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Return a line's numbers by names such as `evaluation/mean/value`, for W&B.

    >>> flat({"loss": 0.5, "success": {"value": 1.0, "low": None}})
    {'loss': 0.5, 'success/value': 1.0}
    """
    values: dict[str, float] = {}
    for key, value in line.items():
        if isinstance(value, Mapping):
            values |= flat(value, f"{prefix}{key}/")
        elif isinstance(value, int | float):
            values[f"{prefix}{key}"] = float(value)
    return values


def _staleness(config: LoopConfig, iteration: int, policy: int) -> int:
    """Return how many trainings behind the weights were, compared to a loop without overlap."""
    if config.first.agent is not None and iteration <= config.first.iterations:
        return 0
    return iteration - 1 - policy


def _played(dataset: str) -> dict[str, Any]:
    if not _is_dataset(dataset):
        return {}  # A custom command made something else.
    overall, _ = _report(dataset)
    return {
        "episodes": overall.total,
        "steps": overall.steps,
        "success": overall.success_rate.to_data(),
        "infrastructure_failures": overall.infrastructure_failures,
    }


def _kept(dataset: str) -> dict[str, int]:
    """Return the number of episodes after processing, including new ones."""
    from webtraj.datasets.dataset import open_dataset

    return {"kept": len(open_dataset(dataset).summaries)} if _is_dataset(dataset) else {}


def _evaluated(config: LoopConfig, places: Places, iteration: int) -> dict[str, Any]:
    judged = Iterations(config.out, "test").judged(iteration + 1)
    dataset = judged if Path(judged).is_dir() else places.evaluated(iteration)
    if not _is_dataset(dataset):
        return {}
    overall, tasks = _report(dataset)
    rates = {name: task.success_rate for name, task in tasks.items()}
    return {
        "episodes": overall.total,
        "steps": overall.steps,
        "success": overall.success_rate.to_data(),
        "infrastructure_failures": overall.infrastructure_failures,
        "mean": mean_of_tasks([(rate.numerator, rate.denominator) for rate in rates.values()]),
        "by_task": {name: rate.to_data() for name, rate in rates.items()},
    }


def _is_dataset(path: str) -> bool:
    """Return whether a folder holds a dataset."""
    from webtraj.store.layout import HEADER

    return (Path(path) / HEADER).is_file()


def _report(dataset: str) -> tuple[Any, Mapping[str, Any]]:
    from webtraj.datasets.dataset import open_dataset
    from webtraj.metrics import measure

    report = measure(open_dataset(dataset), steps=False, by=("task",), max_groups=None)
    return report.overall, report.by["task"]


def _exported(folder: str) -> dict[str, int]:
    """Return the size of the training data; nothing for an export in another format."""
    from webtraj.datasets.exporters.base import MANIFEST, is_manifest, read_manifest

    if not is_manifest(Path(folder) / MANIFEST):
        return {}
    splits = read_manifest(folder)[0].get("splits", {})
    train = splits.get("train", {})
    return {name: train[name] for name in ("samples", "rows") if train.get(name) is not None}


def _trained(folder: str) -> dict[str, Any]:
    """Return the last loss of a training that left a log, and what it says of its groups."""
    from webtraj.training.sft.logs import read_log

    log = read_log(folder)
    gradient = _gradient(log)
    steps = [(entry["step"], entry["loss"]) for entry in log if "loss" in entry]
    for theirs in Path(folder).glob("checkpoints/*/trainer_log.jsonl"):  # LLaMA-Factory's.
        for line in theirs.read_bytes().splitlines():
            entry = orjson.loads(line)
            if "loss" in entry:
                steps.append((entry["current_steps"], entry["loss"]))
    if not steps:
        return gradient
    step, loss = max(steps)
    return {"train_steps": step, "loss": loss, **gradient}


def _gradient(log: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the metrics of policy-gradient training; nothing for another one.

    The mismatch is that of the first step: later ones include what the training changed.
    """
    begun = next((entry for entry in log if "policy_groups" in entry), None)
    if begun is None:
        return {}
    names = ("groups", "groups_kept", "reward", "staleness", "unscored")
    found = {name: begun[f"policy_{name}"] for name in names if f"policy_{name}" in begun}
    steps = [entry for entry in log if "policy_ratio" in entry]
    if steps:
        for name in ("ratio", "clipped", "entropy"):
            found[name] = statistics.fmean(entry[f"policy_{name}"] for entry in steps)
        found["mismatch"] = steps[0]["policy_mismatch"]
    return {"policy_gradient": found}


# `success.png`: success rate by iteration, the mean of the tasks and each task, with intervals.
#
# Needs matplotlib, which is imported only for drawing. Without it there is no plot, but the numbers
# are in `metrics.jsonl`.

_logger = logging.getLogger(__name__)

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
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator, PercentFormatter
    except ImportError:
        _logger.info("Skipped the success plot: matplotlib is not installed.")
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
    """Return each task's points, sorted by task."""
    tasks: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for line in lines:
        for task, rate in line.get("evaluation", {}).get("by_task", {}).items():
            if rate["value"] is not None:
                tasks.setdefault(task, []).append((line["iteration"], rate))
    lowest = sorted(tasks, key=lambda task: tasks[task][-1][1]["value"])[:_MAX_TASKS]
    return {task: tasks[task] for task in sorted(lowest)}


# A loop's metrics in Weights & Biases: one run for the loop, one step for each iteration.


class IterationSink:
    """Logs the lines of finished iterations to W&B; does nothing unless configured.

    The W&B run's id is derived from the loop's folder, so that a resumed loop continues it. Errors
    are logged and do not end the loop.
    """

    def __init__(self, config: LoopConfig) -> None:
        self._config = config
        self._sink: Any = None
        self._broken = config.wandb is None

    def write(self, line: Mapping[str, Any]) -> None:
        """Log a line. Blocks."""
        if self._broken:
            return
        try:
            if self._sink is None:
                self._sink = self._open()
            self._sink.write(flat(line), step=line["iteration"])
        except Exception as error:
            self._broken = True
            _logger.warning("Stopped logging metrics to W&B: %s", error)

    def close(self) -> None:
        """End the W&B run. Blocks; idempotent."""
        sink, self._sink = self._sink, None
        if sink is not None:
            try:
                sink.close()
            except Exception as error:
                _logger.warning("Could not end the W&B run cleanly: %s", error)

    def _open(self) -> Any:
        from webtraj.metrics.live import WandbSink

        target = self._config.wandb
        assert target is not None
        out = Path(self._config.out).absolute()
        return WandbSink(
            target.project,
            entity=target.entity,
            name=target.run_name or out.name,
            run_id=hashlib.sha256(str(out).encode()).hexdigest()[:16],
            mode=target.mode,
            folder=target.folder or str(out / "wandb"),
            config=self._config.model_dump(mode="json"),
            step_name="iteration",
        )
