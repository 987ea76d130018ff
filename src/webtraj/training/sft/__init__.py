"""The built-in trainer: supervised fine-tuning on samples, on transformers and accelerate.

Importing it loads neither; `train` and `publish` do.
"""

from webtraj.training.export.sample_files import open_held_out, open_samples
from webtraj.training.rows import SampleFile, read_row
from webtraj.training.sft.checkpoints import publish
from webtraj.training.sft.data import DataReport
from webtraj.training.sft.encoding import check_pictures
from webtraj.training.sft.failures import NonFiniteLossError, TrainingError
from webtraj.training.sft.logs import NullTrainObserver, TrainObserver, read_log
from webtraj.training.sft.settings import LoraSettings, SftSettings
from webtraj.training.sft.training import TrainResult, train

__all__ = [
    "DataReport",
    "LoraSettings",
    "NonFiniteLossError",
    "NullTrainObserver",
    "SampleFile",
    "SftSettings",
    "TrainObserver",
    "TrainResult",
    "TrainingError",
    "check_pictures",
    "open_held_out",
    "open_samples",
    "publish",
    "read_log",
    "read_row",
    "train",
]
