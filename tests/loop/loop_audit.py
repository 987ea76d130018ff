"""What must hold of a loop that was killed and gone on with: every rule yields what breaks it."""

from __future__ import annotations

import collections
import dataclasses
import re
import shutil
import subprocess
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
from loop_answers import wrong_answers
from loop_calls import calls_of
from loop_evidence import Evidence, lost
from loop_state import read_entries

from webtraj import EndReason, EpisodeTrajectory, Outcome, open_dataset
from webtraj.datasets.exporters.base import MANIFEST, read_manifest
from webtraj.datasets.verification import verify
from webtraj.loop import LoopConfig, metrics
from webtraj.loop.phases import Slot, digest, lanes
from webtraj.loop.places import Places, version_name
from webtraj.loop.state import LoopState
from webtraj.rollouts.scheduling import RetryPolicy
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
    """The rules.

    Args:
        config: The loop's configuration.
        evidence: What was durable at each kill.
        aside: A folder for what is made again.
    """

    config: LoopConfig
    evidence: Sequence[Evidence]
    aside: Path
    partial: int = 0
    """How many episodes were found that were cut off."""
    made_again: int = 0
    """How many datasets and exports were made again, to compare."""

    def __post_init__(self) -> None:
        self.places = Places(self.config)
        self.entries = read_entries(self.places.state)
        self.slots = [slot for lane in lanes(self.config) for slot in lane]

    def problems(self) -> Iterator[str]:
        """Yields a sentence for each thing that does not hold."""
        yield from self._phases()
        for evidence in self.evidence:
            yield from lost(evidence, self.places.out)
        for slot in self.slots:
            match slot.name:
                case "rollout":
                    policy = slot.iteration - 1
                    yield from self._played(self.places.recorded(slot.iteration), policy)
                case "evaluate":
                    yield from self._played(self.places.evaluated(slot.iteration), slot.iteration)
                case "postprocess":
                    yield from self._processed(slot)
                case "export":
                    yield from self._exported(slot)
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
        self.partial += len(progress.done) - len(plan)
        for trajectory in dataset:
            yield from self._one(name, trajectory, policy)
        if policy:
            yield from wrong_answers(place, version_name(policy), self._models())

    def _models(self) -> dict[str, str]:
        versions = range(self.config.iterations + 1)
        return {version_name(version): self.places.weights(version) for version in versions}

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

    def _processed(self, slot: Slot) -> Iterator[str]:
        """It is what processing makes that nobody disturbs."""
        made = self.places.processed(slot.iteration)
        again = yield from self._make_again(slot, "--write")
        if again is None:
            return
        ours, fresh = _episodes(made), _episodes(again)
        if ours.keys() != fresh.keys():
            yield f"{made}: has {len(ours)} episodes, and made again {len(fresh)}"
        for name in sorted(ours.keys() & fresh.keys()):
            if ours[name] != fresh[name]:
                yield f"{made}: {name} is another when it is made again"
        if not ours:
            yield f"{made}: is empty"

    def _exported(self, slot: Slot) -> Iterator[str]:
        """It is what the export makes that nobody disturbs, to the byte."""
        made = Path(self.places.export(slot.iteration))
        again = yield from self._make_again(slot, "--out")
        if again is not None and _contents(made) != _contents(again):
            yield f"{made}: is another when it is made again"

    def _make_again(self, slot: Slot, option: str) -> Generator[str, None, Path | None]:
        """Runs a phase's command for another place, and returns that; None if it fails."""
        begun = [e for e in self.entries if e["event"] == "begun" and _key(e) == slot.key]
        command = list(begun[-1]["command"])
        place = self.aside / f"{slot.name}-{slot.iteration}"
        shutil.rmtree(place, ignore_errors=True)
        command[command.index(option) + 1] = str(place)
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            yield f"{slot}: cannot be made again: {done.stdout[-2000:]}"
            return None
        self.made_again += 1
        return place

    def _trained(self, iteration: int) -> Iterator[str]:
        """Each export was trained on as often as it was to be, and each step was made once."""
        name, folder = f"training {iteration}", Path(self.places.training(iteration))
        manifest, _ = read_manifest(Path(self.places.export(iteration)) / MANIFEST)
        rows = manifest["splits"]["train"]["rows"]
        told = self.places.log(iteration, "train").read_text()
        found = re.findall(r"([\d,]+) of ([\d,]+) samples", told)
        counts = {tuple(int(text.replace(",", "")) for text in pair) for pair in found}
        if len(counts) != 1 or {given for _, given in counts} != {rows}:
            yield f"{name}: the export has {rows} rows, and (used, given) were {counts}"
            return
        ((used, _),) = counts
        settings = self.config.train.overrides
        in_epoch = -(-used // settings["batch_size"])
        epochs = [step // in_epoch for step in range(settings["max_steps"])]
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
        if not self.places.plot.is_file():
            yield "metrics: there is no picture"


def _episodes(place: str | Path) -> dict[str, Any]:
    """Returns the episodes of a processed dataset as data, without when they were judged."""
    files = (Path(place) / "episodes").glob("[!.]*")
    return {path.name: _timeless(orjson.loads(path.read_bytes())) for path in files}


def _timeless(data: Any) -> Any:
    if isinstance(data, dict):
        left_out = ("time",) if "judge" in data else ()
        return {key: _timeless(value) for key, value in data.items() if key not in left_out}
    return [_timeless(value) for value in data] if isinstance(data, list) else data


def _contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def _key(entry: dict[str, Any]) -> tuple[int, str]:
    return entry["iteration"], entry["phase"]
