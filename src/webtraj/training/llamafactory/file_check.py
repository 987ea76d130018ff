"""A check of a training's files by LLaMA-Factory itself, in its own Python.

LLaMA-Factory parses `train_config.yaml` and encodes every row, as before training. Errors, and rows
that it would drop or cut, are reported. It runs the script `encoding_check`.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from webtraj import errors
from webtraj.settings import configuration
from webtraj.training.llamafactory.train_config import FILE

__all__ = ["CheckReport", "Problem", "check_export", "num_gpus", "read_config", "run_python"]

_SHOWN = 5
_ASK = """
from importlib.metadata import version
import torch
version("llamafactory")
print("\\n" + str(torch.cuda.device_count()))
"""
_ASK_SECONDS = 120


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """A problem in a file."""

    where: str
    """The file; for a row, also its number, from 0."""
    what: str
    """LLaMA-Factory's error, or the reason that it would not train on the row."""

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """The result of a check."""

    checked_by: str | None
    """LLaMA-Factory's version; None if it did not check the files."""
    problems: tuple[Problem, ...] = ()
    rows: Mapping[str, int]
    """The number of rows in each dataset."""
    max_tokens: int | None = None
    """The length of the longest row; None if not counted."""

    @property
    def clean(self) -> bool:
        """Whether no problem was found."""
        return not self.problems

    def require_clean(self) -> None:
        """Raise an error if there are problems.

        Raises:
            InvalidInputError: LLaMA-Factory would abort, or not train on all rows.
        """
        if self.problems:
            shown = "\n".join(f"  {problem}" for problem in self.problems[:_SHOWN])
            more = len(self.problems) - _SHOWN
            raise errors.InvalidInputError(
                f"LLaMA-Factory would not train on all of the data:\n{shown}"
                + (f"\n  and {more} more problems" if more > 0 else "")
            )


def check_export(folder: str | os.PathLike[str], *, python: str | os.PathLike[str]) -> CheckReport:
    """Let LLaMA-Factory parse a folder's `train_config.yaml` and encode its rows.

    This takes as long as preparing the rows for training.

    Args:
        folder: The folder.
        python: The Python of LLaMA-Factory's environment.

    Raises:
        InvalidInputError: The folder has no configuration, or `python` cannot run LLaMA-Factory.
    """
    path = Path(folder).absolute()
    if not (path / FILE).is_file():
        raise errors.InvalidInputError(
            f"No {FILE} in {str(path)!r}; expected a folder that `webtraj train update` wrote."
        )
    from webtraj.training.llamafactory import encoding_check

    script = str(Path(encoding_check.__file__))
    try:
        output, wrong = run_python(Path(python).absolute(), script, FILE, folder=path)
    except OSError as error:
        raise _no_python(python, errors.reason(error)) from error
    lines = [line for line in output.splitlines() if line.startswith('{"webtraj"')]
    entries = [orjson.loads(line)["webtraj"] for line in lines]
    if wrong or not entries or "version" not in entries[-1]:
        raise _no_python(python, wrong or "it printed no result")
    *found, result = entries
    return CheckReport(
        checked_by=result["version"],
        problems=tuple(Problem(entry["where"], entry["what"]) for entry in found),
        rows=result["rows"],
        max_tokens=result["longest"],
    )


def _no_python(python: str | os.PathLike[str], why: str) -> errors.InvalidInputError:
    return errors.InvalidInputError(
        f"{os.fspath(python)!r} cannot run LLaMA-Factory: {why}. Expected the Python of an "
        "environment with LLaMA-Factory."
    )


def read_config(folder: Path) -> dict[str, Any]:
    """Return a folder's `train_config.yaml`, parsed in the way of LLaMA-Factory.

    Raises:
        InvalidInputError: The file cannot be read.
        MissingDependencyError: OmegaConf is not installed.
    """
    return configuration.read_file(folder / FILE)


@functools.lru_cache(maxsize=4)  # Importing torch takes seconds.
def num_gpus(python: str) -> int:
    """Return the number of GPUs that LLaMA-Factory's Python sees.

    Raises:
        InvalidInputError: LLaMA-Factory is not installed there.
    """
    try:
        output, wrong = run_python(python, "-c", _ASK, timeout=_ASK_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _no_python(python, str(error)) from error
    if wrong:
        raise _no_python(python, wrong)
    return int(output.strip().splitlines()[-1])


def run_python(
    python: str | os.PathLike[str],
    *arguments: str,
    folder: Path | None = None,
    timeout: float | None = None,
) -> tuple[str, str]:
    """Run LLaMA-Factory's Python to its end.

    Returns:
        Its output, and the last line of its error, which is empty if it succeeded.

    Raises:
        OSError: It cannot be run.
        subprocess.TimeoutExpired: It took too long.
    """
    done = subprocess.run(
        [os.fspath(python), "-W", "ignore", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return done.stdout, last if done.returncode else ""
