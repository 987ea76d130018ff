"""What must hold of a loop that was killed and gone on with: every rule yields what breaks it."""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import orjson
from loop_calls import calls_of
from loop_state import read_entries

from webtraj import EndReason, EpisodeTrajectory, Outcome, open_dataset
from webtraj.datasets.exporters.base import MANIFEST, read_manifest
from webtraj.datasets.verification import verify
from webtraj.loop import LoopConfig, metrics
from webtraj.loop.phases import digest, lanes
from webtraj.loop.places import Places, version_name
from webtraj.loop.state import LoopState
from webtraj.rollouts.scheduler import RetryPolicy
from webtraj.runs.run import Run, progress_of
from webtraj.store.places import open_storage
from webtraj.training.sft.checkpoints import find_latest
from webtraj.training.sft.data import digest_of_base
from webtraj.training.sft.logs import read_log

__all__ = ["Audit"]

_FINISHED = (EndReason.TERMINATED, EndReason.TRUNCATED)
_WORTH = (Outcome.SUCCESS, Outcome.FAILURE)
_UNTOLD = "?"
"""In a call's version: the server was killed before it could be asked again."""


@dataclasses.dataclass
class Audit:
    """The rules, for the loop of a configuration."""

    config: LoopConfig

    def __post_init__(self) -> None:
        self.places = Places(self.config)
        self.entries = read_entries(self.places.state)
        self.slots = [slot for lane in lanes(self.config) for slot in lane]

    def problems(self) -> Iterator[str]:
        """Yields a sentence for each thing that does not hold."""
        yield from self._phases()
        for slot in self.slots:
            match slot.name:
                case "rollout":
                    policy = slot.iteration - 1
                    yield from self._played(self.places.rollout_dataset(slot.iteration), policy)
                case "evaluate":
                    yield from self._played(
                        self.places.evaluation_dataset(slot.iteration), slot.iteration
                    )
                case "train":
                    yield from self._trained(slot.iteration)
        yield from self._metrics()

    def _phases(self) -> Iterator[str]:
        """Each phase is done once, and what it made is as it was when it was done."""
        ended = [e for e in self.entries if e["event"] == "ended"]
        keys = collections.Counter((e["iteration"], e["phase"]) for e in ended)
        if keys != collections.Counter(slot.key for slot in self.slots):
            yield f"phases: {dict(keys)} are done"
        for entry in ended:
            for path, known_by in entry["outputs"].items():
                # The next model is published in the place of the one before.
                if entry["phase"] != "publish" and digest(path) != known_by:
                    yield f"{entry['phase']} {entry['iteration']}: {path} was changed afterwards"
        last = self.places.model(self.config.iterations)
        if self.places.latest_model.resolve() != Path(last).resolve():
            yield f"publish: the latest model is {self.places.latest_model.resolve()}"

    def _played(self, place: str, policy: int) -> Iterator[str]:
        """Each planned episode has one finished attempt, and all are whole."""
        name = str(Path(place).relative_to(self.places.out))
        report = verify(place)
        yield from (f"{name}: {problem.where} {problem.what}" for problem in report.problems)
        yield from (f"{name}: {episode} is still open" for episode in report.being_written)
        if journals := list(Path(place).glob("journal/*.jsonl")):
            yield f"{name}: {len(journals)} journals are left"
        if (plans := len(list(Path(place).glob("runs/*/plan.jsonl")))) != 1:
            yield f"{name}: there are {plans} plans"
            return
        run = Run.last(open_storage(place))
        plan = run.read_plan()
        dataset = open_dataset(place)
        progress = progress_of(run, plan, dataset.summaries, RetryPolicy())
        finished = collections.Counter(r.row for r in progress.done if r.finished)
        if progress.left or finished != collections.Counter(range(len(plan))):
            wrong = {row: finished[row] for row in range(len(plan)) if finished[row] != 1}
            yield f"{name}: rows of the plan were finished so often: {wrong}"
        if len({summary.episode_id for summary in dataset.summaries}) != len(progress.done):
            yield f"{name}: there are episodes of no plan"
        for trajectory in dataset:
            yield from self._one(name, trajectory, policy)

    def _one(self, name: str, trajectory: EpisodeTrajectory, policy: int) -> Iterator[str]:
        """What was cut off is worth nothing; every reply is of the weights that were to play."""
        told = f"{name}: {trajectory.episode_id}"
        if (trajectory.end_reason in _FINISHED) != (trajectory.outcome in _WORTH):
            yield f"{told} ended {trajectory.end_reason.name}, as {trajectory.outcome.name}"
        calls = list(calls_of(trajectory))
        if not policy:
            if calls:
                yield f"{told} asked a model before there was one"
            return
        if trajectory.num_steps and not calls:
            yield f"{told} asked no model"
        for call in calls:
            versions = set(call.policy_version.split("..")) - {_UNTOLD}
            if not call.error and versions != {version_name(policy)}:
                yield f"{told} was played by the weights {call.policy_version!r}"

    def _trained(self, iteration: int) -> Iterator[str]:
        """Each export was trained on as often as it was to be, and each step was made once."""
        name, folder = f"training {iteration}", Path(self.places.training_folder(iteration))
        manifest, _ = read_manifest(Path(self.places.export(iteration)) / MANIFEST)
        rows = manifest["splits"]["train"]["rows"]
        told = self.places.log(iteration, "train").read_text()
        found = re.findall(r"([\d,]+) of ([\d,]+) samples", told)
        counts = {tuple(int(text.replace(",", "")) for text in pair) for pair in found}
        if len(counts) != 1 or {given for _, given in counts} != {rows}:
            yield f"{name}: the export has {rows} rows, and (used, given) were {counts}"
            return
        ((used, _),) = counts
        settings = self.config.train
        assert settings.max_steps is not None
        in_epoch = -(-used // settings.batch_size)
        epochs = [step // in_epoch for step in range(settings.max_steps)]
        made = [(entry["step"], entry["epoch"]) for entry in read_log(folder) if "loss" in entry]
        if made != list(enumerate(epochs, start=1)):
            yield f"{name}: {len(epochs)} steps were to be made; the log has {len(made)}: {made}"
        checkpoint = find_latest(folder)
        model = Path(self.places.model(iteration))
        state = orjson.loads((model / "webtraj.json").read_bytes())
        if checkpoint is None or checkpoint.state != state or state["step"] != len(epochs):
            yield f"{name}: the model is that of step {state['step']}"
        base = self.places.base(iteration)
        if state["base"] != digest_of_base(base) or state["settings"]["model"] != base:
            yield f"{name}: did not begin with {base}"

    def _metrics(self) -> Iterator[str]:
        """Each iteration has one line, which says what is on disk."""
        lines = metrics.read_lines(self.places.metrics)
        with LoopState(self.places.state) as state:
            measured = [
                metrics.measure_iteration(self.config, state, number)
                for number in range(self.config.iterations + 1)
            ]
        if lines != measured:
            yield f"metrics: are {lines}, and should be {measured}"
