"""A check of files for LLaMA-Factory before it runs.

On some faults LLaMA-Factory aborts after long preparation; on others it silently drops rows. Each
check follows from a run of version 0.9.5 with that fault.

With the Python of its environment, LLaMA-Factory itself encodes the rows, so lengths are exact.
Without it, they are estimated.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from webtraj import errors
from webtraj.datasets.exporters.base import MANIFEST, is_manifest, read_manifest
from webtraj.settings import configuration
from webtraj.training.llamafactory import checkpoints, facts, rows
from webtraj.training.llamafactory.facts import Effect, Installation, Problem
from webtraj.training.llamafactory.train_config import FILE

__all__ = ["CheckReport", "Problem", "check_export", "read_config"]

# The settings.

_NEEDED = ("model_name_or_path", "dataset", "template", "output_dir")
_RENAMED = {
    "group_by_length": "train_sampling_strategy: group_by_length",
    "gradient_checkpointing": "disable_gradient_checkpointing with the opposite value",
    "wandb_project": "the environment variable WANDB_PROJECT",
    "evaluation_strategy": "eval_strategy",
}
_WEIGHTS = ("model.safetensors", "pytorch_model.bin", "adapter_model.safetensors")


def _keys(values: Mapping[str, Any]) -> Iterator[Problem]:
    known = facts.known()
    for key in values:
        # `gradient_checkpointing` is accepted and ignored.
        if key in _RENAMED and (key not in known.keys or key == "gradient_checkpointing"):
            effect: Effect = "ignores it" if key in known.keys else "aborts"
            yield _said(key, "is the wrong key", f"Use {_RENAMED[key]}.", effect)
        elif key not in known.keys:
            near = difflib.get_close_matches(key, known.keys, n=1)
            hint = f"Did you mean {near[0]}?" if near else "Remove it."
            yield _said(key, f"is not a key of LLaMA-Factory {known.version}", hint)
    for key in _NEEDED:
        if not values.get(key):
            yield _said(key, "is not given", "Give it.")
    if values.get("stage", "sft") != "sft":
        yield _said("stage", "is not sft, the only stage checked here", "Set stage: sft.")
    if not values.get("do_train"):
        yield _said("do_train", "is not true", "Set do_train: true.", "trains nothing")


def _model(values: Mapping[str, Any], with_images: bool) -> Iterator[Problem]:
    name = values.get("template")
    templates = facts.known().templates
    model = str(values.get("model_name_or_path") or "")
    if isinstance(name, str) and name:
        template = templates.get(name)
        if template is None:
            near = difflib.get_close_matches(name, templates, n=1)
            hint = f"Did you mean {near[0]}?" if near else "See LLaMA-Factory's list of templates."
            yield _said("template", f"is {name!r:.60}, which does not exist", hint)
        else:
            fitting = facts.template_for(model)
            fits = f"Set template: {fitting}." if fitting else "Set the model's template."
            if with_images and template.image is None:
                yield _said(
                    "template", f"{name!r} does not support pictures, and rows have some", fits
                )
            elif fitting is not None and templates[fitting].image != template.image:
                yield _said(
                    "template", f"{name!r} marks pictures by other tokens than the model", fits
                )
    named_as_folder = Path(model).is_absolute() or model.startswith(".")
    if named_as_folder and not (Path(model) / "config.json").is_file():
        yield _said("model_name_or_path", f"{model!r} is not a model", "Set a model's folder.")


def _data(values: Mapping[str, Any]) -> Iterator[Problem]:
    if values.get("streaming"):
        if not values.get("dataloader_num_workers"):
            yield _said(
                "streaming", "a file cannot be streamed without workers",
                "Remove streaming, or set dataloader_num_workers: 1.",
            )  # fmt: skip
        if int(values.get("max_steps", -1)) < 0:
            yield _said("streaming", "needs max_steps", "Remove streaming.")
    evaluates = values.get("do_eval") or values.get("eval_strategy", "no") not in ("no", False)
    if evaluates and not values.get("eval_dataset") and not values.get("val_size"):
        yield _said(
            "eval_strategy", "there is nothing to evaluate on",
            "Set eval_dataset, or remove do_eval and eval_strategy.",
        )  # fmt: skip
    name = values.get("deepspeed")
    if name and not Path(str(name)).is_file():
        yield _said(
            "deepspeed", f"the file {name!r} does not exist", "Create it, or remove the key."
        )


def _output(values: Mapping[str, Any]) -> Iterator[Problem]:
    output = Path(str(values.get("output_dir") or ""))
    free = values.get("overwrite_output_dir") or values.get("resume_from_checkpoint")
    if not values.get("output_dir") or free or not output.is_dir():
        return
    if found := checkpoints.numbered(output):
        yield _said(
            "output_dir",
            f"has {found[0].name}, which LLaMA-Factory resumes unasked; if it is at the last step, "
            "nothing is done",
            "Set a new folder, or resume_from_checkpoint.",
            "trains nothing",
        )
    elif any((output / name).is_file() for name in _WEIGHTS):
        yield _said("output_dir", "already has a model", "Set a new folder.")


def _steps(
    values: Mapping[str, Any], rows: int, installation: Installation | None
) -> Iterator[Problem]:
    rate = values.get("learning_rate", 5e-5)
    if not isinstance(rate, (int, float)) or rate <= 0:
        yield _said("learning_rate", f"is {rate!r:.40}", "Set one above 0.", "trains nothing")
    epochs, most = values.get("num_train_epochs", 3), values.get("max_steps", -1)
    if (isinstance(epochs, (int, float)) and epochs <= 0 and most <= 0) or most == 0:
        yield _said("max_steps", "leaves nothing to do", "Set more steps.", "trains nothing")
        return
    if "resume_from_checkpoint" not in values:
        return
    checkpoint = checkpoints.find_checkpoint(Path(str(values["resume_from_checkpoint"])))
    if checkpoint is None:
        yield _said(
            "resume_from_checkpoint", "is not a checkpoint with an optimizer's state",
            "Remove it to start with a fresh optimizer.",
        )  # fmt: skip
        return
    last = most if most > 0 else checkpoints.steps_for(
        max(rows, 1),
        batch=int(values.get("per_device_train_batch_size", 8)),
        accumulation=int(values.get("gradient_accumulation_steps", 1)),
        devices=max(1, installation.num_gpus) if installation is not None else 1,
        epochs=float(epochs),
    )  # fmt: skip
    if last <= checkpoint.global_step:
        yield _said(
            "max_steps",
            f"the run ends at step {last}, and the checkpoint is at {checkpoint.global_step}",
            "Set max_steps above that.",
            "trains nothing",
        )
    if not values.get("ignore_data_skip"):
        yield _said(
            "ignore_data_skip", "the rows that the checkpoint has seen are skipped by number",
            "Set ignore_data_skip: true.", "drops it",
        )  # fmt: skip


def _installed(values: Mapping[str, Any], installation: Installation) -> Iterator[Problem]:
    known = facts.known().version
    if installation.version != known:
        yield _said(
            "version",
            f"LLaMA-Factory is {installation.version}, and this check supports {known}",
            f"Install llamafactory=={known}.",
        )
    report = values.get("report_to", "none")
    wanted = dict.fromkeys(report if isinstance(report, list) else [report], "report_to")
    wanted = {name: key for name, key in wanted.items() if name not in ("none", "all", None)}
    if values.get("deepspeed"):
        wanted["deepspeed"] = "deepspeed"
    if values.get("plot_loss"):
        wanted["matplotlib"] = "plot_loss"
    for package, key in wanted.items():
        if package not in installation.packages:
            yield _said(
                key, f"{package} is not installed in LLaMA-Factory's environment",
                "Install it there, or remove the key.",
            )  # fmt: skip
    for key in ("bf16", "fp16", "pure_bf16"):
        able = installation.num_gpus and (key == "fp16" or installation.bf16)
        if values.get(key) and not able:
            yield _said(
                key, "needs a GPU that supports it, and there is none", f"Set {key}: false."
            )


def _said(key: str, what: str, to_do: str, effect: Effect = "aborts") -> Problem:
    return Problem(f"{FILE}, {key}", what, to_do, effect)


INFO = "dataset_info.json"

_SHOWN = 5


@dataclasses.dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of a check."""

    problems: tuple[Problem, ...]
    rows: Mapping[str, int]
    """The number of rows in each dataset."""
    max_tokens: int | None
    """The length of the longest row by LLaMA-Factory's count; None if not counted."""

    @property
    def clean(self) -> bool:
        """Whether LLaMA-Factory would train on all of it."""
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


def check_export(
    folder: str | os.PathLike[str],
    *,
    python: str | os.PathLike[str] | None = None,
    count_tokens: bool = True,
) -> CheckReport:
    """Check a folder with `dataset_info.json`, and with `train_config.yaml` if there is one.

    Args:
        folder: The folder.
        python: The Python of LLaMA-Factory's environment, for exact lengths and a check of it.
        count_tokens: Whether to count tokens with it, which takes as long as preparing the rows.

    Raises:
        InvalidInputError: The folder or a file in it is missing, or there is no LLaMA-Factory.
    """
    path = Path(folder).absolute()
    info = _read_info(path)
    config = read_config(path) if (path / FILE).is_file() else None
    installation = None if python is None else facts.ask(python)
    problems: list[Problem] = []
    counts: dict[str, int] = {}
    with_images = False
    # An export without a training configuration needs no template.
    template = None if config is None else facts.known().templates.get(str(config.get("template")))
    media = Path((config or {}).get("media_dir") or (config or {}).get("dataset_dir") or path)
    trained, evaluated = (_listed((config or {}).get(key)) for key in ("dataset", "eval_dataset"))
    for name in info if config is None else dict.fromkeys([*trained, *evaluated]):
        if name not in info:
            problems.append(
                Problem(
                    f"{FILE}, dataset", f"{INFO} has no {name!r}",
                    f"It has {', '.join(info) or 'none'}.",
                )
            )  # fmt: skip
            continue
        found = rows.check(name, info[name], path, media, template)
        problems += found.problems
        counts[name] = found.rows
        with_images = with_images or found.with_images
    if config is not None:
        total = sum(counts.get(name, 0) for name in trained)
        problems += [
            *_keys(config),
            *_model(config, with_images),
            *_data(config),
            *_output(config),
            *_steps(config, total, installation),
            *([] if installation is None else _installed(config, installation)),
        ]
    longest = None
    if config is not None and not problems:
        if python is not None and count_tokens:
            longest, found_problems = rows.count(path, python)
            problems += found_problems
        else:
            for name in counts:
                problems += rows.estimate(name, info[name], path, media, config)
    return CheckReport(tuple(problems), counts, longest)


def read_config(folder: Path) -> dict[str, Any]:
    """Return a folder's `train_config.yaml`, read as LLaMA-Factory reads it.

    Raises:
        InvalidInputError: The file cannot be read.
        MissingDependencyError: OmegaConf is not installed.
    """
    return configuration.read_file(folder / FILE)


def _read_info(folder: Path) -> dict[str, Any]:
    path = folder / INFO
    if not path.exists() and is_manifest(folder / MANIFEST):
        made = read_manifest(folder)[0].get("format")
        raise errors.InvalidInputError(
            f"{str(folder)!r} is an export in the format {made}, which LLaMA-Factory cannot read; "
            "it was checked when it was written. For LLaMA-Factory, export with --format sharegpt."
        )
    try:
        data = orjson.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise errors.InvalidInputError(
            f"Cannot read {str(path)!r}: {errors.reason(error)}; "
            "expected a folder of files for LLaMA-Factory."
        ) from error
    if not isinstance(data, dict):
        raise errors.InvalidInputError(f"{str(path)!r} is not a JSON object.")
    return data


def _listed(value: Any) -> list[str]:
    if isinstance(value, str):
        return [name.strip() for name in value.split(",") if name.strip()]
    return [str(name) for name in value] if isinstance(value, list) else []
