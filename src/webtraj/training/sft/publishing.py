"""Publishing: a run's last checkpoint as a folder that transformers and vLLM load as it is."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
from pathlib import Path
from typing import Literal

import orjson

from webtraj import errors
from webtraj.store import files
from webtraj.training.preparing.tools import load_tools
from webtraj.training.sft import data as data_lib
from webtraj.training.sft import models
from webtraj.training.sft.checkpoints import find_latest

__all__ = ["NAME", "publish", "replace_folder"]

NAME = "model.pt"
"""What the folder is called."""

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def publish(
    output: str | os.PathLike[str],
    save_path: str | os.PathLike[str],
    *,
    dtype: Literal["base", "float32", "bfloat16"] = "base",
) -> Path:
    """Publishes a run's last checkpoint at `save_path/model.pt/`: whole, or as it was before.

    Adapters are merged into the model. Beside it, `webtraj.json` says what it was made from.

    Args:
        output: The run's folder.
        save_path: Where the folder `model.pt` is made, or replaced.
        dtype: The type of the weights' numbers: by default that of the model that was begun with.

    Returns:
        The folder.

    Raises:
        InvalidInputError: The run has no checkpoint, or the model that its adapters are for is
            not there any more.
    """
    import torch

    checkpoint = find_latest(output)
    if checkpoint is None:
        raise errors.InvalidInputError(
            f"{os.fspath(output)!r} has no checkpoint; expected the output of a training run."
        )
    settings = checkpoint.state["settings"]
    full = settings["method"] == "full"
    if not full:
        data_lib.check_base(settings["model"], checkpoint.state["base"])
    source = checkpoint.model if full else settings["model"]
    tools = load_tools(source)
    said = getattr(torch, checkpoint.state["dtype"] if dtype == "base" else dtype)
    # Adapters are added in float32, and rounded once.
    model = models.load_weights(source, tools, dtype=torch.float32)
    if not full:
        import peft

        model = peft.PeftModel.from_pretrained(model, str(checkpoint.model)).merge_and_unload()
    model = model.to(said)
    model.config.use_cache = True
    folder = Path(save_path)
    files.make_folder(folder)
    draft = folder / f".{secrets.token_hex(8)}.tmp"
    try:
        model.save_pretrained(draft)
        tools.save(draft)
        (draft / "webtraj.json").write_bytes(
            orjson.dumps(checkpoint.state, option=orjson.OPT_INDENT_2)
        )
        files.sync_tree(draft)
        replace_folder(draft, folder / NAME)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder / NAME


def replace_folder(draft: Path, path: Path) -> None:
    """Puts a folder in the place of another, if there is one, at once where the system can.

    Where it cannot, there is a moment without either; a death in it leaves both beside `path`.
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
    """Exchanges two folders' names; False if the system cannot."""
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None, use_errno=True)
        names = (os.fsencode(one), os.fsencode(other))
        done = libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE)
        return bool(done == 0)
    return False
