"""`metrics.jsonl`: what came of each iteration. One JSON object a line, written anew.

::

    {"iteration": 2, "policy": 1, "staleness": 0, "episodes": 128, "steps": 410,
     "success": {"value": 0.71, "numerator": 91, "denominator": 128, "low": 0.63, "high": 0.78},
     "kept": 120, "samples": 310, "rows": 310, "loss": 0.42, "train_steps": 50,
     "evaluation": {"policy": 2, "episodes": 96, "success": {...},
                    "mean": {"value": 0.8, "low": 0.74, "high": 0.86, "tasks": 3},
                    "by_task": {"miniwob/click-test": {"value": ..., ...}, ...}},
     "seconds": {"rollout": 41.0, "train": 60.2, "evaluate": 12.8}, "retries": 0}

`policy` is the iteration whose weights played; `evaluation` is of the weights that the iteration
ends with, and the line of iteration 0 holds that of the policy that the loop began with. What is
not known is null or left out. All of it follows from what lies in the loop's folder.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from webtraj.loop.places import Places
from webtraj.loop.schedule import lanes
from webtraj.loop.sections import LoopConfig
from webtraj.loop.state import LoopState
from webtraj.rollouts.iterations import Iterations
from webtraj.rollouts.metrics.estimators import mean_of_tasks
from webtraj.store import files, records
from webtraj.trajectory import Count

__all__ = ["flat", "mean_of_tasks", "measure_iteration", "read_lines", "write_line"]


def measure_iteration(config: LoopConfig, state: LoopState, iteration: int) -> dict[str, Any]:
    """Returns an iteration's line, of the phases that are done."""
    places = Places(config)
    line: dict[str, Any] = {"iteration": iteration}
    if iteration and state.ended((iteration, "rollout")) is not None:
        begun = state.begun((iteration, "rollout"))
        policy = 0 if begun is None else begun.policy
        line |= {"policy": policy, "staleness": _staleness(config, iteration, policy)}
        judged = config.judge is not None and state.ended((iteration, "judge")) is not None
        line |= _played((places.judged if judged else places.recorded)(iteration))
    if state.ended((iteration, "postprocess")) is not None:
        line |= _kept(places.processed(iteration))
    if state.ended((iteration, "export")) is not None:
        line |= _exported(places.export(iteration))
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
    """Returns the lines of a metrics file, by iteration; none if there is no file.

    Raises:
        CorruptDataError: A line is damaged.
    """
    content = path.read_bytes() if path.exists() else b""
    remedy = "Remove the file: a loop that is resumed makes it again."
    return records.read_lines(_Numbered, content.splitlines(), str(path), remedy)


@dataclasses.dataclass(frozen=True, slots=True)
class _Numbered:
    iteration: Count


def write_line(path: Path, line: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Puts an iteration's line in the place of the one that was there, and returns all lines.

    Raises:
        CorruptDataError: The file is damaged.
        OSError: It cannot be written.
    """
    lines = {other["iteration"]: other for other in read_lines(path)}
    lines[line["iteration"]] = dict(line)
    ordered = [lines[number] for number in sorted(lines)]
    files.write_atomically(path, b"".join(orjson.dumps(one) + b"\n" for one in ordered))
    return ordered


def flat(line: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Returns a line's numbers by names such as `evaluation/mean/value`, for W&B.

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
    """Returns how many trainings behind those of turn by turn the weights were that played."""
    if config.first.agent is not None and iteration <= config.first.iterations:
        return 0
    return iteration - 1 - policy


def _played(dataset: str) -> dict[str, Any]:
    if not _is_dataset(dataset):
        return {}  # What a command of one's own made is its own affair.
    overall, _ = _report(dataset)
    return {
        "episodes": overall.total,
        "steps": overall.steps,
        "success": overall.success_rate.to_data(),
        "infrastructure_failures": overall.infrastructure_failures,
    }


def _kept(dataset: str) -> dict[str, int]:
    """Returns how many episodes processing has left, those that it made included."""
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
    """Returns whether there is a dataset in a folder."""
    from webtraj.store.layout import HEADER

    return (Path(path) / HEADER).is_file()


def _report(dataset: str) -> tuple[Any, Mapping[str, Any]]:
    from webtraj.datasets.dataset import open_dataset
    from webtraj.rollouts.metrics import measure

    report = measure(open_dataset(dataset), steps=False, by=("task",), max_groups=None)
    return report.overall, report.by["task"]


def _exported(folder: str) -> dict[str, Any]:
    """Returns how much there is to train on; nothing of an export that is not webtraj's."""
    from webtraj.datasets.exporters.base import MANIFEST, is_manifest, read_manifest

    if not is_manifest(Path(folder) / MANIFEST):
        return {}
    splits = read_manifest(folder)[0].get("splits", {})
    train = splits.get("train", {})
    return {"samples": train.get("samples"), "rows": train.get("rows")}


def _trained(folder: str) -> dict[str, Any]:
    """Returns the last loss of a training that left a log; nothing of one that did not."""
    from webtraj.training.sft.logs import read_log

    steps = [(entry["step"], entry["loss"]) for entry in read_log(folder) if "loss" in entry]
    for log in Path(folder).glob("checkpoints/*/trainer_log.jsonl"):  # LLaMA-Factory's.
        for line in log.read_bytes().splitlines():
            entry = orjson.loads(line)
            if "loss" in entry:
                steps.append((entry["current_steps"], entry["loss"]))
    if not steps:
        return {}
    step, loss = max(steps)
    return {"train_steps": step, "loss": loss}
