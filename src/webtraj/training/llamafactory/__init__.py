"""LLaMA-Factory as a trainer: prepare its files, check them, run it and publish the model.

It runs in its own virtual environment with its own Python. Nothing of it is imported here.

* `configuration`: settings of an update.
* `update`: makes all files of a training from episodes, in `<save_path>/llamafactory_data`.
* `train_config`: LLaMA-Factory's configuration files.
* `file_check`: the check of the files by LLaMA-Factory itself.
* `process`: the training; `checkpoints`: resuming, and publishing the last one as `model.pt`.
* `encoding_check`, `rate_setter`: scripts that run in its Python.
"""

from webtraj.training.llamafactory.checkpoints import publish, publish_finished
from webtraj.training.llamafactory.configuration import UpdateConfig, load_update_config
from webtraj.training.llamafactory.file_check import CheckReport, Problem, check_export
from webtraj.training.llamafactory.process import TrainingFailedError, TrainingResult, run_training
from webtraj.training.llamafactory.update import Update, prepare_update

__all__ = [
    "CheckReport",
    "Problem",
    "TrainingFailedError",
    "TrainingResult",
    "Update",
    "UpdateConfig",
    "check_export",
    "load_update_config",
    "prepare_update",
    "publish",
    "publish_finished",
    "run_training",
]
