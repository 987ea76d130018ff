"""Running of LLaMA-Factory as a process, with its output in a file and its progress reported.

LLaMA-Factory can exit with 0 without training anything, if a checkpoint is at the last step
already. So success means that the step count rose and the weights changed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import orjson

from webtraj.serving.process import tail
from webtraj.store import files
from webtraj.training.llamafactory import checkpoints, file_check
from webtraj.training.llamafactory.train_config import FILE
from webtraj.training.sft.failures import TrainingError

__all__ = ["TrainingFailedError", "TrainingObserver", "TrainingResult", "run_training"]

LOG = "train.log"

_POLL_SECONDS = 0.3
_GRACE_SECONDS = 20.0


class TrainingFailedError(TrainingError):
    """LLaMA-Factory failed or trained nothing. The message has the end of its log."""


class TrainingObserver(Protocol):
    """An observer of a training."""

    def logged(self, entry: Mapping[str, Any]) -> None:
        """Handle a line of LLaMA-Factory's `trainer_log.jsonl`: steps, loss, rate."""


@dataclasses.dataclass(frozen=True, slots=True)
class TrainingResult:
    """The result of a training."""

    output: Path
    """The run's folder."""
    model: Path
    """The folder of its last checkpoint."""
    first_step: int
    """The step it started from: above 0 if it resumed a checkpoint."""
    last_step: int
    losses: tuple[float, ...]
    """The logged losses, in order. LLaMA-Factory's own mean is wrong for resumed runs: it divides
    by all steps."""
    eval_losses: tuple[float, ...]
    seconds: float
    log: Path


def run_training(
    data: str | os.PathLike[str],
    *,
    python: str | os.PathLike[str],
    environment: Mapping[str, str] | None = None,
    timeout: float | None = None,
    observer: TrainingObserver | None = None,
    check: bool = True,
) -> TrainingResult:
    """Run the training of a folder's `train_config.yaml`.

    Args:
        data: A folder made by `prepare_update`.
        python: The Python of LLaMA-Factory's environment.
        environment: The environment variables of the process. Default: those of this process.
        timeout: Seconds after which to end it.
        observer: Receives progress.
        check: Whether LLaMA-Factory checks the files first. With a Python, `prepare_update` has
            already checked them.

    Raises:
        InvalidInputError: LLaMA-Factory would not train on all of the data.
        TrainingFailedError: It failed, took too long, or trained nothing.
    """
    folder = Path(data).absolute()
    if check:
        file_check.check_export(folder, python=python).require_clean()
    values = file_check.read_config(folder)
    output = Path(values["output_dir"])
    begun = Path(values["resume_from_checkpoint"]) if "resume_from_checkpoint" in values else None
    first = (checkpoints.read_state(begun) or 0) if begun is not None else 0
    started = time.monotonic()
    files.make_folder(output)
    log = output / LOG
    entries = _run(
        [str(Path(python).absolute()), "-m", "llamafactory.cli", "train", FILE],
        folder,
        log,
        output / "trainer_log.jsonl",
        environment=_environment(python, environment, deepspeed="deepspeed" in values),
        timeout=timeout,
        observer=observer,
    )
    last = checkpoints.read_state(output)
    if last is None or last <= first:
        raise TrainingFailedError(
            f"LLaMA-Factory exited normally but trained nothing: the last step was {first} "
            f"before and is {last} now. See {str(log)!r}."
        )
    model = checkpoints.last_model(output)
    before = begun if begun is not None else Path(values["model_name_or_path"])
    if before.is_dir() and checkpoints.has_changed(before, model) is False:
        raise TrainingFailedError(
            f"LLaMA-Factory made {last - first} steps and changed no weight of "
            f"{str(before)!r}. Is the learning rate, {values.get('learning_rate')}, too small for "
            f"the type of its numbers? See {str(log)!r}."
        )
    return TrainingResult(
        output=output,
        model=model,
        first_step=first,
        last_step=last,
        losses=tuple(entry["loss"] for entry in entries if "loss" in entry),
        eval_losses=tuple(entry["eval_loss"] for entry in entries if "eval_loss" in entry),
        seconds=time.monotonic() - started,
        log=log,
    )


def _environment(
    python: str | os.PathLike[str], given: Mapping[str, str] | None, *, deepspeed: bool
) -> dict[str, str]:
    found = dict(os.environ if given is None else given)
    # LLaMA-Factory's launcher calls torchrun by name.
    beside = str(Path(python).absolute().parent)
    found["PATH"] = os.pathsep.join([beside, found.get("PATH", os.defpath)])
    # The check covers neither its other engine nor its lenient parsing of keys.
    for name in ("USE_V1", "USE_MCA", "ALLOW_EXTRA_ARGS", "PYTHONPATH", "PYTHONHOME"):
        found.pop(name, None)
    found["PYTHONUNBUFFERED"] = "1"
    if deepspeed:
        found["FORCE_TORCHRUN"] = "1"
    return found


def _run(
    command: list[str],
    folder: Path,
    log: Path,
    progress: Path,
    *,
    environment: Mapping[str, str],
    timeout: float | None,
    observer: TrainingObserver | None,
) -> list[dict[str, Any]]:
    """Run a command to its end, and return its logged progress."""
    deadline = None if timeout is None else time.monotonic() + timeout
    entries: list[dict[str, Any]] = []
    lines = _Lines(progress)
    with log.open("ab") as file:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_POLL_SECONDS)
                ended = process.returncode is not None
                for entry in lines.new():
                    entries.append(entry)
                    if observer is not None:
                        observer.logged(entry)
                if ended:
                    break
                if deadline is not None and time.monotonic() > deadline:
                    raise TrainingFailedError(
                        f"LLaMA-Factory was stopped after {timeout} seconds. The "
                        f"end of {str(log)!r}:\n{tail(log)}"
                    )
        finally:
            _end(process)
    if process.returncode:
        raise TrainingFailedError(
            f"LLaMA-Factory failed with {_describe_exit(process.returncode)}. "
            f"The end of {str(log)!r}:\n{tail(log)}"
        )
    return entries


def _describe_exit(returncode: int) -> str:
    return f"signal {-returncode}" if returncode < 0 else f"exit code {returncode}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and its children, if it is still running."""
    if process.returncode is not None:
        return
    for sent, seconds in ((signal.SIGTERM, _GRACE_SECONDS), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sent)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            break


class _Lines:
    """The lines of a growing file, each once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rest = b""
        # A run that resumes in its folder already has a log there.
        self._at = path.stat().st_size if path.is_file() else 0

    def new(self) -> Iterator[dict[str, Any]]:
        """Yield the new complete lines."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                found = file.read()
        except FileNotFoundError:
            return
        self._at += len(found)
        *lines, self._rest = (self._rest + found).split(b"\n")
        for line in lines:
            with contextlib.suppress(orjson.JSONDecodeError):
                entry = orjson.loads(line)
                if isinstance(entry, dict):
                    yield entry
