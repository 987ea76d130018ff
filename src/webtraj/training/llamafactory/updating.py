"""From recorded episodes to all the files of a training.

::

    <save_path>/train_trajectories/iteration_0001/   what rollouts have recorded
    <work_path>/llamafactory_data/finetune_train.json, finetune_val.json, dataset_info.json, images/
                                  webtraj-export.jsonl, and deepspeed's configuration
                                  wandb_env.sh
                                  train_config.yaml      written last
    <work_path>/checkpoints/model_<timestamp>/           the run's folder
    <work_path>/model.pt/                                the published model, which is only read
"""

from __future__ import annotations

import dataclasses
import datetime
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from webtraj import errors
from webtraj.rollouts.iterations import Iterations
from webtraj.storage import files
from webtraj.training.export import ExportReport, export_samples
from webtraj.training.llamafactory import (
    checking,
    deepspeed,
    facts,
    publishing,
    resuming,
    wandb_env,
)
from webtraj.training.llamafactory.configuration import UpdateConfig
from webtraj.training.llamafactory.train_config import FILE, Start, to_yaml, train_config
from webtraj.training.replay import (
    AgentRenderer,
    Filters,
    ReplayBuffer,
    ReplayReport,
    Selection,
)

__all__ = ["DATA", "Update", "prepare_update"]

DATA = "llamafactory_data"
CHECKPOINTS = "checkpoints"

_PYTHON_NEEDED = (
    "Give the Python of LLaMA-Factory's environment: python=..., on the command line --python."
)


@dataclasses.dataclass(frozen=True, slots=True)
class Update:
    """A training that is ready to begin."""

    config: UpdateConfig
    data: Path
    """The folder of its files."""
    output: Path
    """The run's folder; LLaMA-Factory makes it."""
    values: Mapping[str, Any]
    """What is in `train_config.yaml`."""
    replay: ReplayReport
    """What was trained on, and what was left out before."""
    exported: ExportReport
    checked: checking.CheckReport
    too_few_tokens: int
    """Samples that `min_token_length` has left out."""
    in_neither_part: int
    """Samples that would have been for validation, and are trained on in another episode."""

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
    """Writes all the files of a training, and checks them.

    Args:
        config: What is asked for.
        python: The Python of LLaMA-Factory's environment. With it, lengths are counted by
            LLaMA-Factory itself, and what its environment lacks is told. Needed to go on with an
            optimizer.
        now: The time that the run's folder is named by.

    Raises:
        InvalidInputError: There is nothing to train on; or LLaMA-Factory would not train on all of
            it, and the message says why.
        DatasetError: A dataset cannot be read.
        StorageError: Something cannot be read or written.
    """
    algorithm = config.algorithm_config
    template = _template(config)
    selection, short = _drawn(config)
    parts = _split(selection, config)
    validation = parts.get("val")
    data = config.folder / DATA
    stamp = (now or datetime.datetime.now(datetime.UTC)).strftime("%Y%m%dT%H%M%S")
    output = config.folder / CHECKPOINTS / f"model_{stamp}"
    if output.exists():
        raise errors.InvalidInputError(
            f"{str(output)!r} is there already; a run has a folder of its own. Try again."
        )
    exported = export_samples(
        parts,
        data,
        format="sharegpt",
        options={"seed": algorithm.seed},
        origin={name: part.provenance() for name, part in parts.items()},
        overwrite=True,
    )
    start = _start(config, output, exported.splits["train"].rows, python)
    values = train_config(
        config,
        data=data,
        output=output,
        template=template,
        start=start,
        validation=validation is not None,
        deepspeed=(
            deepspeed.write(algorithm.deepspeed_config_filename, data)
            if algorithm.deepspeed_config_filename
            else None
        ),
    )
    files.write_atomically(data / "wandb_env.sh", wandb_env.script(config.log_config).encode())
    files.write_atomically(data / FILE, to_yaml(values).encode())
    try:
        checked = checking.check_export(data, python=python)
        checked.require_clean()
    except errors.InvalidInputError:
        # The run will not be: nobody needs its copy of a checkpoint.
        shutil.rmtree(output, ignore_errors=True)
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
    )


def _template(config: UpdateConfig) -> str:
    policy = config.policy_config
    template = policy.template or facts.template_for(policy.base_model)
    if template is None:
        raise errors.InvalidInputError(
            f"LLaMA-Factory's template for {policy.base_model!r:.200} is not known; give "
            "policy_config.template, such as qwen3_vl_nothink."
        )
    return template


def _drawn(config: UpdateConfig) -> tuple[Selection, int]:
    """Returns the samples to train on, and how many were too short for it."""
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
    buffer.require_samples()
    drawn = buffer.sample_with_recency(
        algorithm.samples_to_train, algorithm.recency_bias_power
    ).positive()
    long_enough = drawn.view.tokens >= algorithm.min_token_length
    if not len(drawn) or not long_enough.any():
        raise errors.InvalidInputError(
            f"Of {len(buffer)} samples none has a weight above 0 and at least "
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
    parts = selection.split(algorithm.val_split_ratio, by=algorithm.val_split_by)
    if not len(parts.validation):
        return {"train": parts.train}
    return {"train": parts.train, "val": parts.validation}


def _start(config: UpdateConfig, output: Path, rows: int, python: str | Path | None) -> Start:
    algorithm, policy = config.algorithm_config, config.policy_config
    published = config.folder / algorithm.model_output_name
    if policy.init_model_from_hf or not published.exists():
        return Start(policy.base_model)
    if wrong := publishing.incomplete(published):
        raise errors.InvalidInputError(
            f"The model {str(published)!r} {wrong}. Put a whole one there, or set "
            "policy_config.init_model_from_hf=true to begin with the base model again."
        )
    if algorithm.resume == "weights":
        return Start(str(published))
    checkpoint = _last_checkpoint(published)
    if checkpoint is None:
        raise errors.InvalidInputError(
            f"There is no optimizer's state for {str(published)!r}: neither in it nor in the "
            "checkpoint that it was made of. Set algorithm_config.resume=weights to begin with a "
            "fresh one, and save_only_model=false to keep it from now on."
        )
    if python is None:
        raise errors.InvalidInputError(
            f"To go on with an optimizer, its learning rate has to be set. {_PYTHON_NEEDED}"
        )
    new = resuming.steps_for(
        rows,
        batch=algorithm.per_device_train_batch_size,
        accumulation=algorithm.gradient_accumulation_steps,
        devices=algorithm.num_gpus or max(1, facts.ask(python).num_gpus),
        epochs=algorithm.num_train_epochs,
    )
    copy = resuming.copy_checkpoint(
        checkpoint, output, learning_rate=algorithm.learning_rate, python=python
    )
    return Start(str(published), copy, checkpoint.global_step + new)


def _last_checkpoint(published: Path) -> resuming.Checkpoint | None:
    """Returns the checkpoint that a model was published from, or that it is itself."""
    named = publishing.read_about(published).get("checkpoint")
    if isinstance(named, str) and (found := resuming.find_checkpoint(Path(named))):
        return found
    return resuming.find_checkpoint(published)
