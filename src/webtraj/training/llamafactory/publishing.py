"""Publishing: a run's last checkpoint as a folder that transformers and vLLM load as it is.

::

    <folder>/checkpoints/model_<time>/   a run's folder, as LLaMA-Factory leaves it
    <folder>/model.pt/                   the published model
    <folder>/model.pt/webtraj.json       which checkpoint it is
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from webtraj import errors
from webtraj.store import files
from webtraj.training.llamafactory.resuming import STATE, numbered, read_state

__all__ = [
    "ABOUT", "CHECKPOINTS", "changed", "checkpoint_of", "incomplete", "last_model", "publish",
    "publish_finished", "read_about", "tensors_of", "unfinished",
]  # fmt: skip

ABOUT = "webtraj.json"
CHECKPOINTS = "checkpoints"
"""The folder of all runs."""

_LEFT_OUT = (
    "optimizer.pt", "scheduler.pt", "training_args.bin", "scaler.pt", "latest", "zero_to_fp32.py",
    "rng_state*.pth", "global_step*", "checkpoint-*", "runs", "*.log", "trainer_log.jsonl", "*.png",
)  # fmt: skip
"""What is for going on with training, and for no one who serves it. Some of it is pickled."""


def last_model(output: Path) -> Path:
    """Returns the complete model of a run that was trained for the most steps.

    A checkpoint goes before the run's folder itself where both are of the same step: it also has
    the optimizer.

    Raises:
        InvalidInputError: There is none.
    """
    found = [(int(path.name.removeprefix("checkpoint-")), path) for path in numbered(output)]
    found.append((read_state(output) or -1, output))
    for _, folder in sorted(found, key=lambda one: -one[0]):
        if not incomplete(folder):
            return folder
    raise errors.InvalidInputError(
        f"{str(output)!r} has no complete model; expected the output of a finished training."
    )


def publish(
    output: str | os.PathLike[str], save_path: str | os.PathLike[str], *, name: str = "model.pt"
) -> Path:
    """Publishes a run's last checkpoint at `save_path/model.pt/`: whole, or as it was before.

    Beside the model, `webtraj.json` says which checkpoint it is.

    Args:
        output: The run's folder.
        save_path: Where the folder `model.pt` is made, or replaced.
        name: What the folder is called.

    Returns:
        The folder.

    Raises:
        InvalidInputError: The run has no complete model.
    """
    from webtraj.training.sft.publishing import replace_folder

    source = last_model(Path(output))
    folder = Path(save_path)
    files.make_folder(folder)
    draft = folder / f".{secrets.token_hex(8)}.tmp"
    try:
        shutil.copytree(source, draft, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        about = {
            "trainer": "llamafactory",
            "checkpoint": str(source.absolute()),
            "global_step": read_state(source),
        }
        (draft / ABOUT).write_bytes(orjson.dumps(about, option=orjson.OPT_INDENT_2) + b"\n")
        if wrong := incomplete(draft):
            raise errors.InvalidInputError(f"What was copied of {str(source)!r} {wrong}.")
        files.sync_tree(draft)
        replace_folder(draft, folder / name)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder / name


def publish_finished(folder: Path, name: str = "model.pt") -> Path | None:
    """Publishes the latest finished run, unless it is published already.

    A run is finished if LLaMA-Factory saved its model and its state, whoever started it: this is
    how a training that was run by hand becomes `model.pt`.

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


def unfinished(folder: Path, name: str = "model.pt") -> Path | None:
    """Returns the latest run if it began after the published one and did not finish."""
    run = next(_runs(folder), None)
    if run is None or _is_finished(run) or not _is_newer(run, folder / name):
        return None
    return run


def _runs(folder: Path) -> Iterator[Path]:
    """Yields the folders of runs, the latest first."""
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
    # Another trainer's, or copied by hand.
    state = run / STATE
    at = state if state.exists() else run
    return at.stat().st_mtime > max(path.stat().st_mtime for path in published.rglob("*"))


def checkpoint_of(published: Path) -> Path | None:
    """Returns the folder of the checkpoint that a model was published from, if it still exists."""
    named = read_about(published).get("checkpoint")
    if not isinstance(named, str):
        return None
    parts = Path(named).parts
    places = [Path(named)]
    if CHECKPOINTS in parts:  # Beside the model, if the whole run was moved or copied.
        last = len(parts) - 1 - parts[::-1].index(CHECKPOINTS)
        places.insert(0, published.parent.joinpath(*parts[last:]))
    return next((place for place in places if place.is_dir()), None)


def read_about(folder: Path) -> dict[str, Any]:
    """Returns what `webtraj.json` of a published model says; empty if there is none."""
    try:
        data = orjson.loads((folder / ABOUT).read_bytes())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def incomplete(folder: Path) -> str:
    """Returns what a folder lacks to be a model; empty if it is one."""
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


def tensors_of(path: Path) -> tuple[dict[str, Any], int]:
    """Returns the tensors that a file of safetensors says it holds, and where they begin.

    Raises:
        ValueError: It is no such file.
    """
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if not 0 < size < 1 << 28:
            raise ValueError(f"{path.name} is no file of safetensors")
        header = orjson.loads(file.read(size))
    header.pop("__metadata__", None)
    return header, 8 + size


def changed(before: Path, after: Path) -> bool | None:
    """Returns whether any weight of a model differs; None if they cannot be compared."""
    one, other = dict(_digests(before)), dict(_digests(after))
    common = [name for name in one.keys() & other.keys() if one[name][0] == other[name][0]]
    if not common:
        return None
    return any(one[name] != other[name] for name in common)


def _digests(folder: Path) -> Iterator[tuple[str, tuple[str, bytes]]]:
    """Yields each tensor's name, its type and shape, and a hash of its numbers."""
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
