"""Make a trained model the latest one: `python -m webtraj.loop.model_link MODEL LINK`.

The link always points to the old model or the new one. With `--copy-to FOLDER`, the model is copied
there first, completely or not at all. Repeating the command changes nothing.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from webtraj import errors
from webtraj.store import files

__all__ = ["copy", "link", "main"]


def link(model: str | os.PathLike[str], at: str | os.PathLike[str]) -> None:
    """Point a link to a model, replacing an existing link.

    Raises:
        InvalidInputError: The model is missing, or the name is taken by something else.
        OSError: The link cannot be made.
    """
    target, path = Path(model), Path(at)
    if not target.is_dir():
        raise errors.InvalidInputError(
            f"No model to publish in {str(target)!r}: the folder does not exist."
        )
    if path.exists() and not path.is_symlink():
        raise errors.InvalidInputError(
            f"Cannot publish to {str(path)!r}, which exists and is not a link. Move it away."
        )
    draft = path.with_name(f".{secrets.token_hex(8)}.tmp")
    draft.symlink_to(os.path.relpath(target, path.parent))
    try:
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    files.sync_folder(path.parent)


def copy(model: str | os.PathLike[str], to: str | os.PathLike[str]) -> None:
    """Copy a model to a folder completely, or leave the folder as it was.

    Raises:
        OSError: The model cannot be copied.
    """
    from webtraj.training.sft.checkpoints import replacing

    with replacing(Path(to)) as draft:
        shutil.copytree(model, draft)


def main(arguments: Sequence[str] | None = None) -> None:
    """Publish the model given on the command line."""
    parser = argparse.ArgumentParser(prog="webtraj.loop.model_link")
    parser.add_argument("model")
    parser.add_argument("link")
    parser.add_argument("--copy-to")
    given = parser.parse_args(arguments)
    try:
        if given.copy_to is not None:
            copy(given.model, given.copy_to)
        link(given.model, given.link)
    except errors.InvalidInputError as error:
        parser.error(str(error))  # Exits with 2: a retry would not help.


if __name__ == "__main__":
    main()
