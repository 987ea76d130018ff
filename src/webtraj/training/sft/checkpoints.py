"""Checkpoints: written atomically, with everything needed to resume a run exactly.

::

    <output>/latest                    the name of the latest checkpoint
    <output>/checkpoint-<step>/
        state.json                     the step, settings and data of the run
        model/                         as saved by transformers or peft, with the tokenizer
        optimizer.safetensors          AdamW's moments, by parameter name
        random-<rank>.safetensors      the random state of each process

Nothing is pickled. The position in the data follows from the step and the seed.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import orjson

from webtraj import errors
from webtraj.store import files
from webtraj.training.sft import data as data_lib
from webtraj.training.sft import models
from webtraj.training.sft.encoding import ModelTools, load_tools
from webtraj.training.sft.failures import TrainingError

__all__ = [
    "Checkpoint",
    "NAME",
    "find_latest",
    "load_progress",
    "publish",
    "is_sharded",
    "replacing",
    "save_checkpoint",
]

_LATEST = "latest"
_STATE = "state.json"
_PREFIX = "checkpoint-"
_DRAFT = ".draft"


@dataclasses.dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint on disk."""

    path: Path
    state: dict[str, Any]

    @property
    def step(self) -> int:
        """The number of steps done."""
        return int(self.state["step"])

    @property
    def model(self) -> Path:
        """The folder with the weights or adapters."""
        return self.path / "model"


def is_sharded(accelerator: Any) -> bool:
    """Return whether each process holds only a part of the weights (FSDP)."""
    return str(accelerator.distributed_type).endswith("FSDP")


def find_latest(output: str | os.PathLike[str]) -> Checkpoint | None:
    """Return a run's latest checkpoint; None if it has none yet.

    Raises:
        CorruptDataError: The latest checkpoint cannot be read.
    """
    folder = Path(output)
    pointer = folder / _LATEST
    if not pointer.is_file():
        return None
    path = folder / pointer.read_text().strip()
    try:
        state = orjson.loads((path / _STATE).read_bytes())
        int(state["step"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise errors.CorruptDataError(
            f"{str(path)!r} is not a readable checkpoint: {error}. Write the name of an earlier, "
            f"intact one into {str(pointer)!r}, or train into a new folder."
        ) from error
    return Checkpoint(path, state)


def save_checkpoint(
    output: Path,
    state: dict[str, Any],
    *,
    accelerator: Any,
    model: Any,
    optimizer: Any,
    tools: ModelTools,
    keep: int,
) -> None:
    """Save a checkpoint. All processes must call it together.

    Raises:
        OSError: It cannot be written. The previous one stays the latest.
    """
    from safetensors import torch as safetensors

    name = f"{_PREFIX}{state['step']}"
    draft = output / f"{name}{_DRAFT}"
    if accelerator.is_main_process:
        for left in output.glob(f"{_PREFIX}*{_DRAFT}"):
            shutil.rmtree(left)
        draft.mkdir(parents=True)
    accelerator.wait_for_everyone()
    weights = accelerator.get_state_dict(model)
    moments = _moments(model, optimizer, sharded=is_sharded(accelerator))
    rank = accelerator.process_index
    safetensors.save_file(_random_state(), draft / f"random-{rank}.safetensors")
    if accelerator.is_main_process:
        inner = accelerator.unwrap_model(model)
        inner.save_pretrained(draft / "model", state_dict=weights)
        tools.save(draft / "model")
        safetensors.save_file(moments, draft / "optimizer.safetensors")
        (draft / _STATE).write_bytes(orjson.dumps(state, option=orjson.OPT_INDENT_2))
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        files.sync_tree(draft)
        final = output / name
        if final.exists():  # Saved, but killed before the pointer moved.
            shutil.rmtree(final)
        draft.rename(final)
        files.sync_folder(output)
        files.write_atomically(output / _LATEST, name.encode(), sync=True)
        _prune(output, state["step"], keep)
    accelerator.wait_for_everyone()


def load_progress(checkpoint: Checkpoint, *, accelerator: Any, model: Any, optimizer: Any) -> None:
    """Restore the optimizer and random states.

    Raises:
        TrainingError: The checkpoint belongs to another model.
    """
    from safetensors import torch as safetensors

    moments = safetensors.load_file(checkpoint.path / "optimizer.safetensors")
    _set_moments(model, optimizer, moments, sharded=is_sharded(accelerator))
    rank = accelerator.process_index
    _set_random_state(safetensors.load_file(checkpoint.path / f"random-{rank}.safetensors"))


def _prune(output: Path, latest: int, keep: int) -> None:
    """Keep the last checkpoints up to `latest`. Later ones belong to a run that was rewound."""
    names = [path.name.removeprefix(_PREFIX) for path in output.glob(f"{_PREFIX}*")]
    steps = sorted(int(name) for name in names if name.isdecimal())
    kept = [step for step in steps if step <= latest][-keep:]
    for step in steps:
        if step not in kept:
            shutil.rmtree(output / f"{_PREFIX}{step}", ignore_errors=True)


def _moments(model: Any, optimizer: Any, *, sharded: bool) -> dict[str, Any]:
    """Return the optimizer's tensors by parameter and kind."""
    if sharded:
        from torch.distributed.checkpoint import state_dict as state_dict_lib

        # Only the first process has it.
        options = state_dict_lib.StateDictOptions(full_state_dict=True, cpu_offload=True)
        whole = state_dict_lib.get_optimizer_state_dict(model, _bare(optimizer), options=options)
        state = whole.get("state", {})
    else:
        bare = _bare(optimizer)
        state = {
            name: bare.state[parameter]
            for name, parameter in _named_parameters(model)
            if parameter in bare.state
        }
    return {
        f"{name}/{kind}": value.detach().cpu().contiguous()
        for name, kinds in state.items()
        for kind, value in kinds.items()
    }


def _set_moments(model: Any, optimizer: Any, moments: dict[str, Any], *, sharded: bool) -> None:
    by_name: dict[str, dict[str, Any]] = {}
    for key, value in moments.items():
        name, _, kind = key.rpartition("/")
        by_name.setdefault(name, {})[kind] = value
    bare = _bare(optimizer)
    if sharded:
        from torch.distributed.checkpoint import state_dict as state_dict_lib

        # A full state is on the first process only; with sharded state, each has its groups.
        state = state_dict_lib.get_optimizer_state_dict(model, bare)
        state["state"] = by_name
        options = state_dict_lib.StateDictOptions(full_state_dict=True)
        state_dict_lib.set_optimizer_state_dict(model, bare, state, options=options)
        return
    parameters = {
        name: parameter for name, parameter in _named_parameters(model) if parameter.requires_grad
    }
    if strange := sorted(set(by_name) - set(parameters)):
        raise TrainingError(f"The checkpoint has a parameter {strange[0]!r} that the model lacks.")
    for name, kinds in by_name.items():
        parameter = parameters[name]
        # Adam counts its steps on the CPU, in a tensor of its own.
        bare.state[parameter] = {
            kind: value if value.ndim == 0 else value.to(parameter.device)
            for kind, value in kinds.items()
        }


def _named_parameters(model: Any) -> Any:
    return getattr(model, "module", model).named_parameters()


def _bare(optimizer: Any) -> Any:
    return getattr(optimizer, "optimizer", optimizer)


def _random_state() -> dict[str, Any]:
    import torch

    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def _set_random_state(states: dict[str, Any]) -> None:
    import torch

    torch.set_rng_state(states["cpu"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])


# Publishing: a run's last checkpoint as a folder that transformers and vLLM can load.

NAME = "model.pt"
"""The folder's name."""

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def publish(
    output: str | os.PathLike[str],
    save_path: str | os.PathLike[str],
    *,
    dtype: Literal["base", "float32", "bfloat16"] = "base",
) -> Path:
    """Publish a run's last checkpoint at `save_path/model.pt/`, atomically.

    Adapters are merged into the model. `webtraj.json` in it records its origin.

    Args:
        output: The run's folder.
        save_path: The folder in which `model.pt` is created or replaced.
        dtype: The type of the weights. Default: the starting model's.

    Returns:
        The folder.

    Raises:
        InvalidInputError: The run has no checkpoint, or the model under its adapters is missing.
    """
    import torch

    checkpoint = find_latest(output)
    if checkpoint is None:
        raise errors.InvalidInputError(
            f"No checkpoint in {os.fspath(output)!r}. Expected the output of a training run."
        )
    settings = checkpoint.state["settings"]
    full = settings["method"] == "full"
    if not full:
        data_lib.check_base(settings["model"], checkpoint.state["base"])
    source = checkpoint.model if full else settings["model"]
    tools = load_tools(source)
    said = getattr(torch, checkpoint.state["dtype"] if dtype == "base" else dtype)
    # Merge adapters in float32 and round once.
    model = models.load_weights(source, tools, dtype=torch.float32)
    if not full:
        import peft

        model = peft.PeftModel.from_pretrained(model, str(checkpoint.model)).merge_and_unload()
    model = model.to(said)
    model.config.use_cache = True
    path = Path(save_path) / NAME
    with replacing(path) as draft:
        model.save_pretrained(draft)
        tools.save(draft)
        (draft / "webtraj.json").write_bytes(
            orjson.dumps(checkpoint.state, option=orjson.OPT_INDENT_2)
        )
    return path


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the path of a folder to create, which then replaces the folder at `path`.

    It replaces it completely or not at all, and atomically if the system supports it.
    """
    files.make_folder(path.parent)
    draft = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        yield draft
        files.sync_tree(draft)
        _replace_folder(draft, path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _replace_folder(draft: Path, path: Path) -> None:
    """Replace a folder by another, atomically if the system supports it.

    Otherwise there is a moment without either at `path`. A kill at that moment leaves both beside
    `path`.
    """
    if not path.exists():
        draft.rename(path)
    elif _exchange(draft, path):
        shutil.rmtree(draft)
    else:
        aside = path.with_name(f".{secrets.token_hex(8)}.old")
        path.rename(aside)
        try:
            draft.rename(path)
        except OSError:
            aside.rename(path)
            raise
        shutil.rmtree(aside)
    files.sync_folder(path.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two folders. Return False if the system cannot."""
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None, use_errno=True)
        names = (os.fsencode(one), os.fsencode(other))
        done = libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE)
        return bool(done == 0)
    return False
