"""A dataset's episodes as a PyTorch `IterableDataset`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.datasets.stream import EpisodeStream

try:
    from torch.utils import data
except ImportError as error:
    raise errors.missing_dependency("webtraj.datasets.torch needs PyTorch", "train") from error

__all__ = ["EpisodeIterableDataset"]

if TYPE_CHECKING:
    _IterableDataset = data.IterableDataset[Any]
else:
    _IterableDataset = data.IterableDataset


class EpisodeIterableDataset(EpisodeStream, _IterableDataset):  # type: ignore[misc,valid-type,unused-ignore]
    """An `EpisodeStream` that divides the episodes among the workers of a `DataLoader` too.

    Every episode is read by exactly one worker of one process. Shards may differ by one episode, so
    in distributed training end an epoch by a number of batches. The loader copies the stream when
    it starts its workers: call `set_epoch` before each epoch, without `persistent_workers`.

    `state_dict` and `load_state_dict` work where the stream is iterated: in this process without
    workers, or in each worker of torchdata's `StatefulDataLoader`.
    """

    def _shard(self) -> tuple[int, int]:
        shard, shards = super()._shard()
        worker = data.get_worker_info()
        if worker is None:
            return shard, shards
        return shard * worker.num_workers + worker.id, shards * worker.num_workers
