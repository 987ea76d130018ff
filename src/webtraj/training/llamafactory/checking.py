"""A check of files for LLaMA-Factory, before it is run.

It would abort on some faults after long preparation, and drop rows for others without failing.

What is looked for was found by running version 0.9.5 with each fault. With the Python of its
environment, rows are encoded by LLaMA-Factory itself, so that lengths are exact; without, pictures
are counted for models of Qwen's kind, and texts are not.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from webtraj import errors
from webtraj.datasets.exporters.base import MANIFEST, is_manifest, read_manifest
from webtraj.training.llamafactory import facts, lengths, rows, settings
from webtraj.training.llamafactory.problems import Problem
from webtraj.training.llamafactory.train_config import FILE

__all__ = ["CheckReport", "Problem", "check_export", "read_config"]

INFO = "dataset_info.json"

_SHOWN = 5


@dataclasses.dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check has found."""

    problems: tuple[Problem, ...]
    rows: Mapping[str, int]
    """How many there are in each set of data."""
    max_tokens: int | None
    """Of the longest row, as LLaMA-Factory counts; None if it was not asked."""

    @property
    def clean(self) -> bool:
        """Whether LLaMA-Factory would train on all of it."""
        return not self.problems

    def require_clean(self) -> None:
        """Raises an error that says what is wrong, if anything is.

        Raises:
            InvalidInputError: LLaMA-Factory would abort, or not train on all of it.
        """
        if self.problems:
            shown = "\n".join(f"  {problem}" for problem in self.problems[:_SHOWN])
            more = len(self.problems) - _SHOWN
            raise errors.InvalidInputError(
                f"LLaMA-Factory would not train on all that is there:\n{shown}"
                + (f"\n  and {more} more problems" if more > 0 else "")
            )


def check_export(
    folder: str | os.PathLike[str],
    *,
    python: str | os.PathLike[str] | None = None,
    count_tokens: bool = True,
) -> CheckReport:
    """Checks a folder with `dataset_info.json`, and with `train_config.yaml` if there is one.

    Args:
        folder: The folder.
        python: The Python of LLaMA-Factory's environment, to ask it what it can do, and how long
            rows are.
        count_tokens: Whether it is asked for the lengths of rows, which takes as long as preparing
            them does.

    Raises:
        InvalidInputError: There is no such folder or file in it, or no LLaMA-Factory.
    """
    path = Path(folder).absolute()
    info = _read_info(path)
    config = read_config(path) if (path / FILE).is_file() else None
    installation = None if python is None else facts.ask(python)
    problems: list[Problem] = []
    counts: dict[str, int] = {}
    with_images = False
    # An export that no training is configured for needs no template, and nobody to read it.
    template = None if config is None else facts.known().templates.get(str(config.get("template")))
    media = Path((config or {}).get("media_dir") or (config or {}).get("dataset_dir") or path)
    for name in _names(config, info):
        if name not in info:
            problems.append(
                Problem(
                    f"{FILE}, dataset", f"{INFO} has no {name!r}", "aborts",
                    f"It has {', '.join(info) or 'none'}.",
                )
            )  # fmt: skip
            continue
        found = rows.check(name, info[name], path, media, template)
        problems += found.problems
        counts[name] = found.rows
        with_images = with_images or found.with_images
    if config is not None:
        trained = _listed(config.get("dataset"))
        total = sum(counts.get(name, 0) for name in trained)
        problems += settings.check(config, total, with_images, installation)
    longest = None
    if config is not None and not problems:
        if python is not None and count_tokens:
            longest, found_problems = lengths.count(path, python)
            problems += found_problems
        else:
            for name in counts:
                problems += lengths.estimate(name, info[name], path, media, config)
    return CheckReport(tuple(problems), counts, longest)


def read_config(folder: Path) -> dict[str, Any]:
    """Returns what a folder's `train_config.yaml` says, read as LLaMA-Factory reads it.

    Raises:
        InvalidInputError: It cannot be read.
        MissingDependencyError: OmegaConf is not installed.
    """
    from webtraj.rollouts.configuration import loading

    try:
        import omegaconf  # noqa: F401
    except ImportError as error:
        raise errors.missing_dependency("Configurations need OmegaConf", "config") from error
    path = folder / FILE
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidInputError(
            f"{str(path)!r} cannot be read: {errors.reason(error)}."
        ) from error
    return loading.parse(text, repr(str(path)))


def _read_info(folder: Path) -> dict[str, Any]:
    path = folder / INFO
    if not path.exists() and is_manifest(folder / MANIFEST):
        made = read_manifest(folder)[0].get("format")
        raise errors.InvalidInputError(
            f"{str(folder)!r} is an export for others than LLaMA-Factory, by format {made}; it was "
            "read back and checked when it was written. What LLaMA-Factory reads is exported by "
            "--format sharegpt."
        )
    try:
        data = orjson.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise errors.InvalidInputError(
            f"{str(path)!r} cannot be read: {errors.reason(error)}; "
            "expected a folder of files for LLaMA-Factory."
        ) from error
    if not isinstance(data, dict):
        raise errors.InvalidInputError(f"{str(path)!r} holds no JSON object.")
    return data


def _names(config: Mapping[str, Any] | None, info: Mapping[str, Any]) -> Iterator[str]:
    if config is None:
        yield from info
        return
    yield from dict.fromkeys(
        [*_listed(config.get("dataset")), *_listed(config.get("eval_dataset"))]
    )


def _listed(value: Any) -> list[str]:
    if isinstance(value, str):
        return [name.strip() for name in value.split(",") if name.strip()]
    return [str(name) for name in value] if isinstance(value, list) else []
