"""Preparation of a training: from recorded episodes to all its files.

::

    <save_path>/train_trajectories/iteration_0001/   recorded by rollouts
    <work_path>/llamafactory_data/finetune_train.json, finetune_val.json, dataset_info.json, images/
                                  webtraj-export.jsonl, and deepspeed's configuration
                                  wandb_env.sh, train_config.yaml
    <work_path>/checkpoints/model_<timestamp>/           the run's folder
    <work_path>/model.pt/                                the published model

The files of a training appear together after the check. If an update is refused, the previous
update's files stay.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from webtraj import errors
from webtraj.datasets.exporters.base import new_place
from webtraj.runs.iterations import Iterations
from webtraj.serving import interpreters
from webtraj.store import files
from webtraj.training.export import ExportReport, export_samples
from webtraj.training.llamafactory import checkpoints, file_check
from webtraj.training.llamafactory import train_config as files_lib
from webtraj.training.llamafactory.configuration import UpdateConfig
from webtraj.training.replay import (
    AgentRenderer,
    Filters,
    Reason,
    ReplayBuffer,
    ReplayReport,
    Selection,
)

__all__ = ["DATA", "Update", "prepare_update"]

DATA = "llamafactory_data"

_WAYS_IN = {
    Reason.TOO_SHORT: "algorithm_config.min_steps=1",
    Reason.NOT_JUDGED: "roll out with judge=model and openai_config.model=..., and --resume to "
    "judge what is recorded",
    Reason.NOT_SUCCESSFUL: "algorithm_config.filter_successful_only=false",
    Reason.NO_MODEL_CALL: "algorithm_config.render_oracles=true",
    Reason.NO_EFFECT: "algorithm_config.filter_same_screenshot=false",
}
"""Remedies for samples that were left out."""
_ON_THE_HUB = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+", re.ASCII)
_MODELS_LOOKED_AT = 50
"""Samples to read for the name of the base model."""


@dataclasses.dataclass(frozen=True, slots=True)
class Update:
    """A training that is ready to start."""

    config: UpdateConfig
    data: Path
    """The folder of its files."""
    output: Path
    """The run's folder, created by LLaMA-Factory."""
    values: Mapping[str, Any]
    """The contents of `train_config.yaml`."""
    replay: ReplayReport
    """The report on the samples."""
    exported: ExportReport
    checked: file_check.CheckReport
    too_few_tokens: int
    """Samples left out by `min_token_length`."""
    in_neither_part: int
    """Validation samples dropped because another episode trains on the same prompt or page."""
    published: Path | None
    """The finished run that was published as `model.pt` just now; None if none was pending."""
    unfinished: Path | None
    """The latest run, if it did not finish. This training does not start from it."""
    why_fresh: str
    """Why the optimizer is fresh although a checkpoint has its state; empty if it is not so."""

    @property
    def deepspeed(self) -> bool:
        """Whether it needs DeepSpeed's launcher."""
        return "deepspeed" in self.values


def prepare_update(
    config: UpdateConfig,
    *,
    python: str | Path | None = None,
    now: datetime.datetime | None = None,
) -> Update:
    """Write all files of a training, and let LLaMA-Factory check them.

    A finished run that is not published yet, because it was started by hand or publishing was
    interrupted, is published first, so that this training starts from it.

    Args:
        config: The settings of the update.
        python: The Python of LLaMA-Factory's environment. Without it, the files are not checked;
            see `CheckReport.checked_by`.
        now: The time in the run's folder name.

    Raises:
        InvalidInputError: There is nothing to train on, or LLaMA-Factory would not train on all
            rows. The message says why.
        DatasetError: A dataset cannot be read.
        StorageError: Something cannot be read or written.
    """
    algorithm, policy = config.algorithm_config, config.policy_config
    published = None
    if not policy.init_model_from_hf:
        published = checkpoints.publish_finished(config.folder, algorithm.model_output_name)
    selection, short = _draw(config)
    base, template = _model(config, selection)
    parts = _split(selection, config)
    validation = parts.get("val")
    data = config.folder / DATA
    output = _output(config.folder, now or datetime.datetime.now(datetime.UTC))
    try:
        with new_place(data, overwrite=True, storage_options=None, with_others=True) as draft:
            exported = export_samples(
                parts,
                draft,
                format="sharegpt",
                options={"seed": algorithm.seed},
                origin={name: part.provenance() for name, part in parts.items()},
            )
            start = _start(config, base, output, exported.splits["train"].rows, python)

            def write(folder: Path) -> dict[str, Any]:
                """Write the files that contain paths, for `folder`."""
                name = algorithm.deepspeed_config_filename
                values = files_lib.train_config(
                    config,
                    data=folder,
                    output=output,
                    template=template,
                    start=start,
                    validation=validation is not None,
                    deepspeed=folder / files_lib.write(name, draft).name if name else None,
                )
                files.write_atomically(draft / files_lib.FILE, files_lib.to_yaml(values).encode())
                return values

            script = files_lib.script(config.log_config)
            files.write_atomically(draft / "wandb_env.sh", script.encode())
            write(draft)
            rows = {
                f"{files_lib.DATASET}_{name}": part.rows for name, part in exported.splits.items()
            }
            checked = file_check.CheckReport(checked_by=None, rows=rows)
            if python is not None:
                try:
                    checked = file_check.check_export(draft, python=python)
                    checked.require_clean()
                except errors.InvalidInputError as error:
                    message = str(error).replace(str(draft), str(data))
                    raise errors.InvalidInputError(message) from error
            values = write(data)
            for log in data.glob("*.log"):
                shutil.copy2(log, draft)
    except BaseException:
        shutil.rmtree(output, ignore_errors=True)  # Its copy of a checkpoint is useless.
        raise
    kept = 0 if validation is None else len(validation)
    return Update(
        config=config,
        data=data,
        output=output,
        values=values,
        replay=selection.buffer.report(selection),
        exported=exported,
        checked=checked,
        too_few_tokens=short,
        in_neither_part=len(selection) - len(parts["train"]) - kept,
        published=published,
        unfinished=checkpoints.find_unfinished(config.folder, algorithm.model_output_name),
        why_fresh=start.why_fresh,
    )


def _output(folder: Path, now: datetime.datetime) -> Path:
    """Return the path of a new run's folder, which LLaMA-Factory creates."""
    name = f"model_{now:%Y%m%dT%H%M%S}"
    runs = folder / checkpoints.CHECKPOINTS
    names = (name, *(f"{name}_{number}" for number in range(2, 100)))
    free = (runs / one for one in names if not (runs / one).exists())
    return next(free)


def _model(config: UpdateConfig, selection: Selection) -> tuple[str, str]:
    """Return the base model and the template, given or derived.

    The base model is the configured one; else the published model, from which the training starts
    anyway; else the model that played the episodes.
    """
    policy = config.policy_config
    published = config.folder / config.algorithm_config.model_output_name
    base = policy.base_model
    if base is None and published.exists() and not policy.init_model_from_hf:
        base = str(published)
    if base is None:
        base = _find_model(selection)
    earlier = config.folder / DATA / files_lib.FILE
    template = policy.template
    if template is None and policy.base_model is None and earlier.is_file():
        found = file_check.read_config(earlier.parent).get("template")
        template = found if isinstance(found, str) else None
    template = template or files_lib.template_for(base)
    if template is None:
        raise errors.InvalidInputError(
            f"LLaMA-Factory's template for {base!r:.100} is unknown. Set "
            "policy_config.template, such as qwen3_vl_nothink."
        )
    return base, template


def _find_model(selection: Selection) -> str:
    """Return the model named in the samples' calls, if it is a folder or a name on the Hub."""
    samples = itertools.islice(selection, _MODELS_LOOKED_AT)
    names = sorted({str(sample.metadata.get("model", "")) for sample in samples} - {""})
    if len(names) == 1:
        (name,) = names
        if (Path(name) / "config.json").is_file() or _ON_THE_HUB.fullmatch(name):
            return name
    played = f"its episodes were played by {', '.join(names)}" if names else "no model played"
    raise errors.InvalidInputError(
        f"The starting model is unknown: {played}, and no earlier update published one. "
        "Set policy_config.base_model=... to a model's folder or its name on the Hugging Face Hub."
    )


def _draw(config: UpdateConfig) -> tuple[Selection, int]:
    """Return the samples to train on, and the number left out as too short."""
    algorithm = config.algorithm_config
    buffer = ReplayBuffer.from_datasets(
        Iterations(config.save_path, "train", config.storage_options),
        last_n_iterations=algorithm.last_n_iterations,
        filters=Filters(
            filter_successful_only=algorithm.filter_successful_only,
            filter_same_screenshot=algorithm.filter_same_screenshot,
            min_steps=algorithm.min_steps,
            where=algorithm.where,
        ),
        render=AgentRenderer() if algorithm.render_oracles else None,
        seed=algorithm.seed,
    )
    buffer.require_samples(
        {
            reason: way
            for reason, way in _WAYS_IN.items()
            if not (algorithm.render_oracles and reason is Reason.NO_MODEL_CALL)
        }
    )
    drawn = buffer.sample_with_recency(
        algorithm.samples_to_train, algorithm.recency_bias_power
    ).positive()
    long_enough = drawn.view.tokens >= algorithm.min_token_length
    if not len(drawn) or not long_enough.any():
        raise errors.InvalidInputError(
            f"None of {len(buffer)} samples has a weight above 0 and at least "
            f"{algorithm.min_token_length} tokens (algorithm_config.min_token_length)."
        )
    if long_enough.all():
        return drawn, 0
    kept = buffer.select(
        drawn.rows[np.flatnonzero(long_enough)],
        {**drawn.how, "min_token_length": algorithm.min_token_length},
    )
    return kept, int((~long_enough).sum())


def _split(selection: Selection, config: UpdateConfig) -> dict[str, Selection]:
    algorithm = config.algorithm_config
    if not algorithm.val_split_ratio:
        return {"train": selection}
    try:
        return selection.split(algorithm.val_split_ratio, by=algorithm.val_split_by).splits
    except errors.InvalidInputError as error:
        if not algorithm.do_eval:  # Validation is off.
            return {"train": selection}
        raise errors.InvalidInputError(
            f"{error} Here: algorithm_config.val_split_by, or algorithm_config.do_eval=false."
        ) from error


def _start(
    config: UpdateConfig, base: str, output: Path, rows: int, python: str | Path | None
) -> files_lib.Start:
    algorithm = config.algorithm_config
    published = config.folder / algorithm.model_output_name
    if config.policy_config.init_model_from_hf or not published.exists():
        return files_lib.Start(base)
    if wrong := checkpoints.incomplete(published):
        raise errors.InvalidInputError(
            f"The model {str(published)!r} {wrong}. Restore a complete one, or set "
            "policy_config.init_model_from_hf=true to start from the base model again."
        )
    if algorithm.resume == "weights":
        return files_lib.Start(str(published))
    folder = checkpoints.checkpoint_of(published) or published
    checkpoint = checkpoints.find_checkpoint(folder)
    if checkpoint is None:
        if algorithm.resume == "auto":
            return files_lib.Start(str(published))
        raise errors.InvalidInputError(
            f"No optimizer state for {str(published)!r}, neither in it nor in the "
            "checkpoint that it was published from. Set algorithm_config.resume=auto to start "
            "with a fresh one if it is missing, and save_only_model=false to keep it from now "
            "on."
        )
    rate = algorithm.learning_rate
    rates = checkpoints.base_rates(checkpoint.path)
    same_rate = rates is not None and all(one == rate for one in rates)
    devices = algorithm.num_gpus
    if not (same_rate and devices):
        python = python or interpreters.find_python(interpreters.LLAMAFACTORY)
        if python is None:
            missing = [
                *([] if devices else ["the number of GPUs (algorithm_config.num_gpus)"]),
                *([] if same_rate else [f"a way to set its learning rate to {rate:g}"]),
            ]
            needs = (
                f"Resuming the optimizer of {str(checkpoint.path)!r} needs "
                f"{' and '.join(missing)}. Pass LLaMA-Factory's Python "
                f"(python=..., --python or {interpreters.LLAMAFACTORY.variable})"
            )
            if algorithm.resume == "auto":
                return files_lib.Start(str(published), why_fresh=f"{needs} to resume it.")
            raise errors.InvalidInputError(
                f"{needs}, or set algorithm_config.resume=weights to start with a fresh optimizer."
            )
        devices = devices or max(1, file_check.num_gpus(str(python)))
    new = checkpoints.steps_for(
        rows,
        batch=algorithm.per_device_train_batch_size,
        accumulation=algorithm.gradient_accumulation_steps,
        devices=devices,
        epochs=algorithm.num_train_epochs,
    )
    copy = checkpoints.copy_checkpoint(
        checkpoint, output, learning_rate=rate, python=None if same_rate else python
    )
    return files_lib.Start(str(published), copy, checkpoint.global_step + new)
