"""LLaMA-Factory as a trainer: its files, a check of them, its run, and the model published.

It runs in a virtual environment of its own, by its own Python; nothing of it is imported here.

* `configuration`: what an update is asked for; `facts`: what LLaMA-Factory's version takes.
* `updating`: from recorded episodes to all files of a training, in `<save_path>/llamafactory_data`.
* `train_config`: the files that tell LLaMA-Factory what to do.
* `checking`: what it would abort on, or drop; `rows`: what it makes of the samples.
* `running`: the training itself; `checkpoints`: how it is resumed and, whoever started the run, how
  its last checkpoint is published as `model.pt`.
* `encoding`, `rescheduling`: run in its Python.
"""

from webtraj.training.llamafactory.checking import CheckReport, Problem, check_export
from webtraj.training.llamafactory.checkpoints import publish, publish_finished
from webtraj.training.llamafactory.configuration import UpdateConfig, load_update_config
from webtraj.training.llamafactory.running import TrainingFailedError, TrainingResult, run_training
from webtraj.training.llamafactory.updating import Update, prepare_update

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
