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
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from webtraj.loop.configuration import LoopConfig, to_data
from webtraj.loop.phases import lanes
from webtraj.loop.places import Places
from webtraj.loop.state import LoopState
from webtraj.metrics.live import WandbSink, flat
from webtraj.metrics.success import TaskSuccess
from webtraj.settings.configuration import without_secrets
from webtraj.store import files, records
from webtraj.trajectory import Count

__all__ = [
    "IterationSink",
    "measure_iteration",
    "read_lines",
    "write_line",
]


def measure_iteration(config: LoopConfig, state: LoopState, iteration: int) -> dict[str, Any]:
    """Return an iteration's line, from the phases that are done."""
    places = Places(config)
    line: dict[str, Any] = {"iteration": iteration}
    if iteration and config.algorithm(iteration) != "sft":
        line["algorithm"] = config.algorithm(iteration)
    if iteration and state.find_end((iteration, "rollout")) is not None:
        begun = state.find_begun((iteration, "rollout"))
        policy = 0 if begun is None else begun.policy
        line |= {"policy": policy, "staleness": _staleness(config, iteration, policy)}
        line |= _measure_rollout(places.played_dataset(iteration))
    if state.find_end((iteration, "postprocess")) is not None:
        line |= _count_processed(places.processed_dataset(iteration))
    exports = {"export": places.export(iteration), "groups": places.groups(iteration)}
    for name, folder in exports.items():
        if state.find_end((iteration, name)) is not None:
            for key, count in _measure_export(folder).items():
                line[key] = line.get(key, 0) + count
    if state.find_end((iteration, "train")) is not None:
        line |= _measure_training(places.training_folder(iteration))
    if state.find_end((iteration, "evaluate")) is not None:
        played = _measure_rollout(places.played_dataset(iteration + 1, split="test"), by_task=True)
        line["evaluation"] = {"policy": iteration, **played}
    slots = [slot for lane in lanes(config) for slot in lane if slot.iteration == iteration]
    line["seconds"] = {
        slot.name: round(state.seconds(slot.key), 3)
        for slot in slots
        if state.find_end(slot.key) is not None
    }
    tries = [
        begun.attempts - 1 for slot in slots if (begun := state.find_begun(slot.key)) is not None
    ]
    line["retries"] = sum(tries)
    return line


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a metrics file by iteration; empty if there is no file.

    Raises:
        CorruptDataError: A line is damaged.
    """
    content = path.read_bytes() if path.exists() else b""
    remedy = "Remove the file; a resumed loop makes it again."
    return records.read_lines(_Numbered, content.splitlines(), str(path), remedy)


@dataclasses.dataclass(frozen=True, slots=True)
class _Numbered:
    iteration: Count


def write_line(path: Path, line: Mapping[str, Any]) -> None:
    """Replace or add an iteration's line.

    Raises:
        CorruptDataError: The file is damaged.
        OSError: The file cannot be written.
    """
    lines = {other["iteration"]: other for other in read_lines(path)}
    lines[line["iteration"]] = dict(line)
    ordered = [lines[number] for number in sorted(lines)]
    files.write_atomically(path, b"".join(orjson.dumps(one) + b"\n" for one in ordered))


def _staleness(config: LoopConfig, iteration: int, policy: int) -> int:
    """Return how many trainings the weights lagged behind those of a loop without overlap."""
    if config.first.agent is not None and iteration <= config.first.iterations:
        return 0
    return iteration - 1 - policy


def _measure_rollout(dataset: str, *, by_task: bool = False) -> dict[str, Any]:
    from webtraj.datasets.dataset import open_dataset
    from webtraj.metrics.metrics_report import measure

    if not _is_dataset(dataset):
        return {}  # A custom command made something else.
    report = measure(open_dataset(dataset), steps=False, by=("task",), max_groups=None)
    overall = report.overall
    line = {
        "episodes": overall.total,
        "steps": overall.steps,
        "success": overall.success_rate.to_data(),
        "infrastructure_failures": overall.infrastructure_failures,
    }
    if by_task:
        line |= TaskSuccess.of(report).to_data()
    return line


def _count_processed(dataset: str) -> dict[str, int]:
    """Return the number of episodes after processing, including new ones."""
    from webtraj.datasets.dataset import open_dataset

    return {"kept": len(open_dataset(dataset).summaries)} if _is_dataset(dataset) else {}


def _is_dataset(path: str) -> bool:
    """Return whether a folder holds a dataset."""
    from webtraj.store.layout import HEADER

    return (Path(path) / HEADER).is_file()


def _measure_export(folder: str) -> dict[str, int]:
    """Return the size of the training data; empty for an export in another format."""
    from webtraj.datasets.exporters.base import MANIFEST, is_manifest, read_manifest

    if not is_manifest(Path(folder) / MANIFEST):
        return {}
    splits = read_manifest(folder)[0].get("splits", {})
    train = splits.get("train", {})
    return {name: train[name] for name in ("samples", "rows") if train.get(name) is not None}


def _measure_training(folder: str) -> dict[str, Any]:
    """Return the last loss of a training and the metrics of its groups, from its log."""
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
    """Return the metrics of policy-gradient training; empty for other training.

    The mismatch is from the first step, because later steps include the training's changes.
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


# A loop's metrics in Weights & Biases: one run for the loop, one step for each iteration.


_logger = logging.getLogger(__name__)


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
            config=without_secrets(to_data(self._config)),
            step_name="iteration",
        )
