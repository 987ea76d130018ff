"""Checkpoints of LLaMA-Factory: resume from the last, and publish it as `model.pt`."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
import pickletools
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from webtraj import errors
from webtraj.serving.memory import tensors_of
from webtraj.store import files
from webtraj.training.llamafactory.file_check import run_python
from webtraj.training.llamafactory.train_config import read_json

__all__ = [
    "ABOUT",
    "CHECKPOINTS",
    "Checkpoint",
    "STATE",
    "base_rates",
    "checkpoint_of",
    "copy_checkpoint",
    "find_checkpoint",
    "find_unfinished",
    "has_changed",
    "incomplete",
    "last_model",
    "list_checkpoints",
    "publish",
    "publish_finished",
    "read_about",
    "read_state",
    "steps_for",
]

# Resuming from the last update: its checkpoint, and the steps left.
#
# Published files never change. To resume the optimizer, the checkpoint is copied into the new run's
# folder, and the learning rate is set in the copy: LLaMA-Factory uses the checkpoint's rate and
# ignores that of its configuration.

STATE = "trainer_state.json"

_REWRITTEN = ("scheduler.pt", "optimizer.pt")
_SECONDS = 600
_MOST_SCHEDULER = 1 << 20
"""The most bytes that are read of a scheduler's state."""


@dataclasses.dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder from which training can resume, optimizer included."""

    path: Path
    global_step: int
    """The number of steps it was trained for."""
    deepspeed: bool
    """Whether the optimizer's state is DeepSpeed's."""


def read_state(folder: Path) -> int | None:
    """Return the number of steps a folder's model was trained for; None if unknown."""
    step = read_json(folder / STATE).get("global_step")
    return step if type(step) is int else None


def find_checkpoint(folder: Path) -> Checkpoint | None:
    """Return the folder's own checkpoint, or the last one in it; None if there is none.

    A checkpoint must have the optimizer's state and the count of steps.
    """
    if (found := _checkpoint(folder)) is not None:
        return found
    inside = (_checkpoint(path) for path in list_checkpoints(folder))
    return next((one for one in inside if one is not None), None)


def list_checkpoints(folder: Path) -> list[Path]:
    """Return a run's folders `checkpoint-<step>`, latest first."""
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
    """Return whether the folder named in `latest` has optimizer states."""
    try:
        tag = (folder / "latest").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return False
    return bool(tag) and "/" not in tag and any((folder / tag).glob("*optim_states.pt"))


def steps_for(rows: int, *, batch: int, accumulation: int, devices: int, epochs: float) -> int:
    """Return the number of steps that the trainer counts for a number of rows; at least 1.

    >>> steps_for(40, batch=2, accumulation=2, devices=1, epochs=2)
    20
    >>> steps_for(1, batch=3, accumulation=4, devices=8, epochs=1)
    1
    """
    batches = math.ceil(rows / (batch * devices))
    return max(1, math.ceil(epochs * max(1, math.ceil(batches / accumulation))))


def base_rates(checkpoint: Path) -> tuple[float, ...] | None:
    """Return the learning rates of a checkpoint's scheduler; None if they cannot be read here.

    The pickle in the file is not loaded. The numbers in it are read from its opcodes.
    """
    rates: list[float] = []
    try:
        with zipfile.ZipFile(checkpoint / "scheduler.pt") as archive:
            (name,) = [name for name in archive.namelist() if name.endswith("/data.pkl")]
            with archive.open(name) as file:
                content = file.read(_MOST_SCHEDULER)
        opcodes = ((opcode.name, value) for opcode, value, _ in pickletools.genops(content))
        if any(value == "base_lrs" for _, value in opcodes):
            for opcode, value in opcodes:
                if opcode in ("APPEND", "APPENDS"):
                    return tuple(rates)
                if isinstance(value, float) or (value is not None and "BININT" in opcode):
                    rates.append(float(value))
                elif opcode not in ("EMPTY_LIST", "MARK", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
                    break
    except (OSError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error):
        return None
    return None


def copy_checkpoint(
    checkpoint: Checkpoint,
    folder: Path,
    *,
    learning_rate: float,
    python: str | os.PathLike[str] | None,
) -> Path:
    """Copy a checkpoint into a new run's folder, atomically, and set its learning rate.

    Files that do not change are hard-linked if the file system supports it.

    Args:
        checkpoint: The checkpoint; it does not change.
        folder: The run's folder.
        learning_rate: The rate to resume with.
        python: LLaMA-Factory's Python; None if the checkpoint already has this rate.

    Returns:
        The copy.

    Raises:
        InvalidInputError: The learning rate cannot be set, or the copy exists already.
    """
    target = folder / f"checkpoint-{checkpoint.global_step}"
    if target.exists():
        raise errors.InvalidInputError(
            f"{str(target)!r} exists already; expected a new folder for each run."
        )
    draft = folder / f".{target.name}.tmp"
    shutil.rmtree(draft, ignore_errors=True)
    files.make_folder(folder)
    try:
        shutil.copytree(checkpoint.path, draft, copy_function=_copy)
        if python is not None:
            _set_rate(draft, learning_rate, python)
        draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def _copy(source: str, target: str) -> None:
    name = Path(source).name
    if name in _REWRITTEN or name.endswith(".json"):
        shutil.copy2(source, target)
        return
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _set_rate(folder: Path, learning_rate: float, python: str | os.PathLike[str]) -> None:
    from webtraj.training.llamafactory import rate_setter

    script = str(Path(rate_setter.__file__))
    _, wrong = run_python(python, script, str(folder), repr(learning_rate), timeout=_SECONDS)
    if wrong:
        raise errors.InvalidInputError(
            f"Cannot set the learning rate of {str(folder)!r}: {wrong}. Set "
            "algorithm_config.resume=weights to start with a fresh optimizer."
        )


# Publishing: a run's last checkpoint as a folder that transformers and vLLM can load.
#
# ::
#
#     <folder>/checkpoints/model_<time>/   a run's folder, as written by LLaMA-Factory
#     <folder>/model.pt/                   the published model
#     <folder>/model.pt/webtraj.json       the checkpoint it came from

ABOUT = "webtraj.json"
CHECKPOINTS = "checkpoints"
"""The folder of all runs."""

_LEFT_OUT = (
    "optimizer.pt", "scheduler.pt", "training_args.bin", "scaler.pt", "latest", "zero_to_fp32.py",
    "rng_state*.pth", "global_step*", "checkpoint-*", "runs", "*.log", "trainer_log.jsonl", "*.png",
)  # fmt: skip
"""Files for resuming only, which serving does not need. Some are pickled."""


def last_model(output: Path) -> Path:
    """Return a run's complete model with the most steps.

    At the same step, a checkpoint is preferred to the run's folder, because it also has the
    optimizer.

    Raises:
        InvalidInputError: The run has no complete model.
    """
    found = [
        (int(path.name.removeprefix("checkpoint-")), path) for path in list_checkpoints(output)
    ]
    found.append((read_state(output) or -1, output))
    for _, folder in sorted(found, key=lambda one: -one[0]):
        if not incomplete(folder):
            return folder
    raise errors.InvalidInputError(
        f"No complete model in {str(output)!r}; expected the output of a finished training."
    )


def publish(
    output: str | os.PathLike[str], save_path: str | os.PathLike[str], *, name: str = "model.pt"
) -> Path:
    """Publish a run's last checkpoint at `save_path/model.pt/`, atomically.

    `webtraj.json` in it names the checkpoint.

    Args:
        output: The run's folder.
        save_path: The folder in which `model.pt` is created or replaced.
        name: The folder's name.

    Returns:
        The folder.

    Raises:
        InvalidInputError: The run has no complete model.
    """
    from webtraj.training.sft.checkpoints import replacing

    source = last_model(Path(output))
    path = Path(save_path) / name
    with replacing(path) as draft:
        shutil.copytree(source, draft, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        about = {
            "trainer": "llamafactory",
            "checkpoint": str(source.absolute()),
            "global_step": read_state(source),
        }
        (draft / ABOUT).write_bytes(orjson.dumps(about, option=orjson.OPT_INDENT_2) + b"\n")
        if wrong := incomplete(draft):
            raise errors.InvalidInputError(f"The copy of {str(source)!r} {wrong}.")
    return path


def publish_finished(folder: Path, name: str = "model.pt") -> Path | None:
    """Publish the latest finished run, unless it is already published.

    A run is finished when LLaMA-Factory has saved its model and state. So a training that was
    started by hand is published too.

    Args:
        folder: The folder that holds `checkpoints`.
        name: The published model's name.

    Returns:
        The run's folder; None if there was nothing to publish.
    """
    run = next(filter(_is_finished, _runs(folder)), None)
    if run is None or not _is_newer(run, folder / name):
        return None
    publish(run, folder, name=name)
    return run


def find_unfinished(folder: Path, name: str = "model.pt") -> Path | None:
    """Return the latest run if it started after the published one and did not finish."""
    run = next(_runs(folder), None)
    if run is None or _is_finished(run) or not _is_newer(run, folder / name):
        return None
    return run


def _runs(folder: Path) -> Iterator[Path]:
    """Yield the folders of runs, latest first."""
    yield from sorted((folder / CHECKPOINTS).glob("model_*/"), reverse=True)


def _is_finished(run: Path) -> bool:
    # LLaMA-Factory writes the state last.
    return bool(read_state(run)) and not incomplete(run)


def _is_newer(run: Path, published: Path) -> bool:
    if not published.exists():
        return True
    checkpoint = read_about(published).get("checkpoint")
    if isinstance(checkpoint, str):
        parts = Path(checkpoint).parts
        known = next((part for part in reversed(parts) if part.startswith("model_")), None)
        if known is not None:
            return run.name > known
    # Published by another trainer, or copied by hand.
    state = run / STATE
    at = state if state.exists() else run
    return at.stat().st_mtime > max(path.stat().st_mtime for path in published.rglob("*"))


def checkpoint_of(published: Path) -> Path | None:
    """Return the checkpoint that a model was published from; None if it no longer exists."""
    named = read_about(published).get("checkpoint")
    if not isinstance(named, str):
        return None
    parts = Path(named).parts
    places = [Path(named)]
    if CHECKPOINTS in parts:  # Next to the model, if the whole folder was moved or copied.
        last = len(parts) - 1 - parts[::-1].index(CHECKPOINTS)
        places.insert(0, published.parent.joinpath(*parts[last:]))
    return next((place for place in places if place.is_dir()), None)


def read_about(folder: Path) -> dict[str, Any]:
    """Return the `webtraj.json` of a published model; empty if there is none."""
    return read_json(folder / ABOUT)


def incomplete(folder: Path) -> str:
    """Return what is missing in a folder for a complete model; empty if nothing is."""
    if not (folder / "config.json").is_file():
        return "has no config.json"
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        return "has no weights in safetensors"
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            wanted = set(orjson.loads(index.read_bytes())["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError):
            return "has an index of weights that cannot be read"
        if missing := sorted(wanted - {path.name for path in weights}):
            return f"lacks {missing[0]}"
    for path in weights:
        try:
            header, begin = tensors_of(path)
        except ValueError as error:
            return f"has weights that cannot be read: {error}"
        end = max((entry["data_offsets"][1] for entry in header.values()), default=0)
        if path.stat().st_size != begin + end:
            return f"has only a part of {path.name}"
    return ""


def has_changed(before: Path, after: Path) -> bool | None:
    """Return whether any weight of a model changed; None if they cannot be compared."""
    one, other = dict(_digests(before)), dict(_digests(after))
    common = [name for name in one.keys() & other.keys() if one[name][0] == other[name][0]]
    if not common:
        return None
    return any(one[name] != other[name] for name in common)


def _digests(folder: Path) -> Iterator[tuple[str, tuple[str, bytes]]]:
    """Yield each tensor's name, its type and shape, and a hash of its numbers."""
    for path in sorted(folder.glob("*.safetensors")):
        header, begin = tensors_of(path)
        with path.open("rb") as file:
            for name, entry in header.items():
                first, last = entry["data_offsets"]
                file.seek(begin + first)
                digest = hashlib.blake2b(digest_size=16)
                left = last - first
                while left and (chunk := file.read(min(left, 1 << 24))):
                    digest.update(chunk)
                    left -= len(chunk)
                yield name, (f"{entry['dtype']}{entry['shape']}", digest.digest())
