"""Going on from the last update: its checkpoint, and how many steps there are to go.

Nothing that was published is ever changed. Where the optimizer goes on, a copy of the checkpoint is
made in the new run's folder, and the learning rate is set in that: LLaMA-Factory takes the one of
the checkpoint, whatever its configuration says.
"""

from __future__ import annotations

import dataclasses
import math
import os
import shutil
import subprocess
from pathlib import Path

import orjson

from webtraj import errors
from webtraj.store import files

__all__ = [
    "STATE", "Checkpoint", "base_rates", "copy_checkpoint", "find_checkpoint", "numbered",
    "read_state", "steps_for",
]  # fmt: skip

STATE = "trainer_state.json"

_REWRITTEN = ("scheduler.pt", "optimizer.pt")
_SECONDS = 600


@dataclasses.dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder that training can go on from, optimizer and all."""

    path: Path
    global_step: int
    """Steps that it was trained for."""
    deepspeed: bool
    """Whether the optimizer's state is DeepSpeed's."""


def read_state(folder: Path) -> int | None:
    """Returns for how many steps the model in a folder was trained; None if that is not known."""
    try:
        step = orjson.loads((folder / STATE).read_bytes())["global_step"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return step if isinstance(step, int) and not isinstance(step, bool) else None


def find_checkpoint(folder: Path) -> Checkpoint | None:
    """Returns the checkpoint that a folder is, or the last one of those that are in it.

    Its optimizer's state is there, and its count of steps; otherwise it is none.
    """
    if (found := _checkpoint(folder)) is not None:
        return found
    inside = (_checkpoint(path) for path in numbered(folder))
    return next((one for one in inside if one is not None), None)


def numbered(folder: Path) -> list[Path]:
    """Returns a run's folders `checkpoint-<step>`, the last one first."""
    found = [
        path
        for path in folder.glob("checkpoint-*")
        if path.is_dir() and path.name.removeprefix("checkpoint-").isdecimal()
    ]
    return sorted(found, key=lambda path: -int(path.name.removeprefix("checkpoint-")))


def _checkpoint(folder: Path) -> Checkpoint | None:
    step = read_state(folder)
    if step is None or not (folder / "scheduler.pt").is_file():
        return None
    if (folder / "optimizer.pt").is_file():
        return Checkpoint(folder, step, deepspeed=False)
    return Checkpoint(folder, step, deepspeed=True) if _has_deepspeed(folder) else None


def _has_deepspeed(folder: Path) -> bool:
    """Returns whether the tag that `latest` names has states of an optimizer."""
    try:
        tag = (folder / "latest").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return False
    return bool(tag) and "/" not in tag and any((folder / tag).glob("*optim_states.pt"))


def steps_for(rows: int, *, batch: int, accumulation: int, devices: int, epochs: float) -> int:
    """Returns how many steps rows are for, counted as the trainer counts; never 0.

    >>> steps_for(40, batch=2, accumulation=2, devices=1, epochs=2)
    20
    >>> steps_for(1, batch=3, accumulation=4, devices=8, epochs=1)
    1
    """
    batches = math.ceil(rows / (batch * devices))
    return max(1, math.ceil(epochs * max(1, math.ceil(batches / accumulation))))


def base_rates(checkpoint: Path) -> tuple[float, ...] | None:
    """Returns the learning rates of a checkpoint's scheduler; None if they cannot be read here.

    The file is read as plain data; nothing in it is run, and torch is not needed.
    """
    from webtraj.datasets.importers.torch_files import read_torch_file

    path = checkpoint / "scheduler.pt"
    try:
        rates = read_torch_file(path.read_bytes(), str(path))["base_lrs"]
        return tuple(float(rate) for rate in rates) or None
    except (OSError, errors.WebtrajError, KeyError, TypeError, ValueError):
        return None


def copy_checkpoint(
    checkpoint: Checkpoint,
    folder: Path,
    *,
    learning_rate: float,
    python: str | os.PathLike[str] | None,
) -> Path:
    """Copies a checkpoint into a new run's folder, whole or not at all, with its learning rate set.

    Files that nobody changes are linked, where the file system can.

    Args:
        checkpoint: It stays as it is.
        folder: The run's folder.
        learning_rate: The one to resume with.
        python: LLaMA-Factory's; None if the checkpoint has this rate already.

    Returns:
        The copy.

    Raises:
        InvalidInputError: The learning rate cannot be set, or there is a copy already.
    """
    target = folder / f"checkpoint-{checkpoint.global_step}"
    if target.exists():
        raise errors.InvalidInputError(
            f"{str(target)!r} is there already; expected a new folder for each run."
        )
    draft = folder / f".{target.name}.tmp"
    shutil.rmtree(draft, ignore_errors=True)
    files.make_folder(folder)
    try:
        shutil.copytree(checkpoint.path, draft, copy_function=_copied)
        if python is not None:
            _set_rate(draft, learning_rate, python)
        draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def _copied(source: str, target: str) -> None:
    name = Path(source).name
    if name in _REWRITTEN or name.endswith(".json"):
        shutil.copy2(source, target)
        return
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _set_rate(folder: Path, learning_rate: float, python: str | os.PathLike[str]) -> None:
    from webtraj.training.llamafactory import rescheduling

    script = Path(rescheduling.__file__)
    done = subprocess.run(
        [os.fspath(python), "-W", "ignore", str(script), str(folder), repr(learning_rate)],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise errors.InvalidInputError(
            f"The learning rate of {str(folder)!r} cannot be set: {last}. Set "
            "algorithm_config.resume=weights to begin with a fresh optimizer."
        )
