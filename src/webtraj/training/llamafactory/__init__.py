"""LLaMA-Factory as a trainer: its files, a check of them, its run, and the model published.

It runs in a virtual environment of its own, by its own Python; nothing of it is imported here.

* `configuration`: what an update is asked for; `facts`: what LLaMA-Factory's version takes.
* `updating`: from recorded episodes to all files of a training, in `<save_path>/llamafactory_data`.
* `train_config`, `deepspeed`, `wandb_env`: one file each.
* `resuming`: checkpoints, and how many steps there are to go; `rescheduling` runs in its Python.
* `checking`: what LLaMA-Factory would abort on, or drop; `rows`, `settings`, `lengths`: its parts.
* `running`: the training itself; `publishing`: a finished run's last checkpoint as `model.pt`,
  whoever started the run.
"""

from webtraj.training.llamafactory.checking import CheckReport, Problem, check_export
from webtraj.training.llamafactory.configuration import UpdateConfig, load_update_config
from webtraj.training.llamafactory.publishing import publish, publish_finished
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
