"""Makes a trained model the latest one: `python -m webtraj.loop.publishing MODEL LINK`.

The link leads to the old model or to the new one, and never to nothing. With `--copy-to FOLDER`,
the model is copied there first, whole or not at all. Doing it again changes nothing.
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
    """Has a link lead to a model, in place of another link that may be there.

    Raises:
        InvalidInputError: There is no such model, or something else than a link has the name.
        OSError: The link cannot be made.
    """
    target, path = Path(model), Path(at)
    if not target.is_dir():
        raise errors.InvalidInputError(f"There is no model in {str(target)!r} to publish.")
    if path.exists() and not path.is_symlink():
        raise errors.InvalidInputError(
            f"{str(path)!r} is there, and no link of a loop's; move it away."
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
    """Copies a model to a folder: whole, or what is there stays as it was.

    Raises:
        OSError: It cannot be copied.
    """
    from webtraj.training.sft.checkpoints import replace_folder

    path = Path(to)
    files.make_folder(path.parent)
    draft = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        shutil.copytree(model, draft)
        files.sync_tree(draft)
        replace_folder(draft, path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Publishes what the command line names."""
    parser = argparse.ArgumentParser(prog="webtraj.loop.publishing")
    parser.add_argument("model")
    parser.add_argument("link")
    parser.add_argument("--copy-to")
    given = parser.parse_args(arguments)
    try:
        if given.copy_to is not None:
            copy(given.model, given.copy_to)
        link(given.model, given.link)
    except errors.InvalidInputError as error:
        parser.error(str(error))  # Exits with 2: another try would not change it.


if __name__ == "__main__":
    main()
