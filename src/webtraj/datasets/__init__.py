"""Read, check, repair, copy and convert datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webtraj import _homes
from webtraj.store import RECORD_MODULES

if TYPE_CHECKING:
    from webtraj.datasets.dataset import Dataset as Dataset
    from webtraj.datasets.dataset import open_dataset as open_dataset
    from webtraj.datasets.hub import push_to_hub as push_to_hub
    from webtraj.datasets.partition import split as split
    from webtraj.datasets.recovery import rebuild as rebuild
    from webtraj.datasets.recovery import recover as recover
    from webtraj.datasets.transfer import convert as convert
    from webtraj.datasets.transfer import copy as copy
    from webtraj.datasets.transfer import merge as merge
    from webtraj.datasets.transfer import push as push
    from webtraj.datasets.verification import verify as verify
    from webtraj.datasets.writer import DatasetWriter as DatasetWriter

RECORD_MODULES["action"] = "webtraj.environments.actions"

_HOMES = {
    "Dataset": "dataset",
    "DatasetWriter": "writer",
    "convert": "transfer",
    "copy": "transfer",
    "merge": "transfer",
    "split": "partition",
    "open_dataset": "dataset",
    "push": "transfer",
    "push_to_hub": "hub",
    "rebuild": "recovery",
    "recover": "recovery",
    "verify": "verification",
}

__all__ = [*sorted(_HOMES)]
__getattr__, __dir__ = _homes.face(__name__, _HOMES)
