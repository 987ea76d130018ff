"""The options of LLaMA-Factory, and the abilities of an installation, read by its Python."""

from __future__ import annotations

import dataclasses
import functools
import os
import subprocess
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import orjson

from webtraj import errors

__all__ = [
    "Effect",
    "Installation",
    "Known",
    "Problem",
    "Template",
    "ask",
    "known",
    "read_json",
    "run_python",
    "template_for",
]

# Problems of files for LLaMA-Factory: where, the effect, and the remedy.

Effect = Literal["aborts", "drops it", "cuts it", "ignores it", "trains nothing"]
"""LLaMA-Factory's reaction: abort the run; or continue and drop the row, cut it, ignore the value,
or train nothing at all."""


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """A problem in a file."""

    where: str
    """The file, with the row's number from 0 or the key."""
    what: str
    to_do: str
    effect: Effect = "aborts"

    def __str__(self) -> str:
        return f"{self.where}: {self.what} (LLaMA-Factory {self.effect}). {self.to_do}"


_ASK = """
import importlib.util, json, sys
from importlib.metadata import version
import torch
gpus = torch.cuda.device_count()
found = {
    "version": version("llamafactory"),
    "num_gpus": gpus,
    "bf16": bool(gpus) and torch.cuda.is_bf16_supported(),
    "packages": [
        name for name in ("deepspeed", "wandb", "tensorboard", "swanlab", "mlflow", "matplotlib")
        if importlib.util.find_spec(name) is not None
    ],
}
print("\\n" + json.dumps(found))
"""
_ASK_SECONDS = 120


@dataclasses.dataclass(frozen=True, slots=True)
class Template:
    """A chat template, by the tokens for its media."""

    image: str | None
    """The token for a picture; None if the template supports none."""
    video: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """The options of one version."""

    version: str
    keys: frozenset[str]
    templates: Mapping[str, Template]


@dataclasses.dataclass(frozen=True, slots=True)
class Installation:
    """The abilities of an installation."""

    python: str
    version: str
    num_gpus: int
    bf16: bool
    packages: frozenset[str]


@functools.cache
def known() -> Known:
    """Return the options of LLaMA-Factory 0.9.5.

    >>> known().templates["qwen3_vl_nothink"].image
    '<|image_pad|>'

    Raises:
        MissingDependencyError: PyYAML is not installed.
    """
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError as error:
        raise errors.missing_dependency(
            "Reading what LLaMA-Factory accepts needs PyYAML", "config"
        ) from error

    text = resources.files(__package__).joinpath("facts.yaml").read_text("utf-8")
    data = yaml.safe_load(text)
    templates = {
        name: Template(*marks) if marks else Template(None, None)
        for name, marks in data["templates"].items()
    }
    return Known(str(data["version"]), frozenset(data["keys"]), templates)


def ask(python: str | os.PathLike[str]) -> Installation:
    """Return the abilities of the LLaMA-Factory installed for a Python.

    Raises:
        InvalidInputError: LLaMA-Factory is not installed there.
    """
    return _ask(os.fspath(python))


@functools.lru_cache(maxsize=4)
def _ask(path: str) -> Installation:
    # Importing torch takes seconds, so the answer is cached.
    try:
        output, error_line = run_python(path, "-c", _ASK, timeout=_ASK_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise errors.InvalidInputError(
            f"Cannot run {path!r}: {error}; expected the Python of an environment with "
            "LLaMA-Factory."
        ) from error
    if error_line:
        raise errors.InvalidInputError(
            f"{path!r} has no working LLaMA-Factory: {error_line}. Expected the Python of an "
            "environment with LLaMA-Factory."
        )
    data: dict[str, Any] = orjson.loads(output.strip().splitlines()[-1])
    return Installation(
        path, data["version"], data["num_gpus"], data["bf16"], frozenset(data["packages"])
    )


_BY_TYPE = {
    "qwen2": "qwen",
    "qwen2_vl": "qwen2_vl",
    "qwen2_5_vl": "qwen2_vl",
    "qwen3": "qwen3",
    "qwen3_moe": "qwen3",
    "qwen3_vl": "qwen3_vl",
    "qwen3_vl_moe": "qwen3_vl",
    "qwen3_5": "qwen3_5",
    "llama": "llama3",
    "llama4": "llama4",
    "mllama": "mllama",
    "gemma3": "gemma3",
    "glm4v": "glm4v",
    "llava": "llava",
    "llava_next": "llava_next",
    "internvl": "intern_vl",
    "kimi_vl": "kimi_vl",
    "mistral3": "mistral_small",
}
_BY_NAME = (
    ("qwen3-vl", "qwen3_vl"),
    ("qwen2.5-vl", "qwen2_vl"),
    ("qwen2-vl", "qwen2_vl"),
    ("qwen3.5", "qwen3_5"),
    ("qwen3", "qwen3"),
    ("qwen2", "qwen"),
)
_THINKS = ("qwen3_vl", "qwen3", "qwen3_5")


def template_for(model: str) -> str | None:
    """Return a model's template, by its folder's config.json or its name; None if unknown.

    For model families with and without thinking, choose the template without, unless the name
    says "thinking".

    >>> template_for("Qwen/Qwen3-VL-8B-Instruct"), template_for("Qwen/Qwen3-VL-8B-Thinking")
    ('qwen3_vl_nothink', 'qwen3_vl')
    """
    name = model.lower()
    found = _BY_TYPE.get(str(read_json(Path(model) / "config.json").get("model_type")))
    if found is None:
        found = next((template for part, template in _BY_NAME if part in name), None)
    if found in _THINKS and "thinking" not in name:
        return f"{found}_nothink"
    return found


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; empty if there is none."""
    try:
        data = orjson.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def run_python(
    python: str | os.PathLike[str],
    *arguments: str,
    folder: Path | None = None,
    timeout: float | None = None,
) -> tuple[str, str]:
    """Run LLaMA-Factory's Python to its end.

    Returns:
        What it printed, and the last line of its error; empty if it succeeded.

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
