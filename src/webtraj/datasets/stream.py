"""Stream a dataset's episodes, or what you make of them, in a shuffled and resumable order.

Episodes are shuffled by seed and epoch and dealt out to shards, so that every episode is in exactly
one. A shard reads `buffer` episodes at a time, makes items of them (such as steps) and yields these
in shuffled order. The order follows from the episodes' ids, the seed and the epoch, so a position
is two numbers, and resuming reads only the episodes from there on.

`webtraj.datasets.torch.EpisodeIterableDataset` is the same as a PyTorch dataset, and
`to_hugging_face` gives a `datasets.IterableDataset`.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from webtraj import errors
from webtraj.datasets.dataset import Dataset, open_dataset
from webtraj.datasets.place import Place
from webtraj.store.index import EpisodeSummary
from webtraj.trajectory import EpisodeTrajectory

if TYPE_CHECKING:
    import datasets

__all__ = ["EpisodeStream", "to_hugging_face"]


class EpisodeStream:
    """An iterable over a dataset's episodes, or over items made of them.

    >>> stream = EpisodeStream(dataset, lambda episode: episode.steps, seed=0)  # doctest: +SKIP
    >>> for step in stream: ...  # doctest: +SKIP
    """

    def __init__(
        self,
        dataset: Dataset | Place,
        items: Callable[[EpisodeTrajectory], Iterable[Any]] | None = None,
        *,
        seed: int | None = None,
        buffer: int = 16,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        """Initialize the stream.

        Args:
            dataset: The dataset, filtered if you like, its folder or its URL.
            items: Makes the items of an episode, such as `lambda episode: episode.steps`. None:
                the episode itself.
            seed: Shuffles episodes and items. None: the dataset's order.
            buffer: The number of episodes whose items are shuffled together, and held in memory.
            rank: The number of this process among those that share the episodes. None: RANK in
                the environment, as torchrun sets it, or 0.
            world_size: The number of these processes. None: WORLD_SIZE in the environment, or 1.

        Raises:
            InvalidInputError: A number is wrong.
            NotADatasetError: There is no dataset at the place.
        """
        self._dataset = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
        self._items = items
        self._seed = seed
        self._buffer = buffer
        self._rank = int(os.environ.get("RANK", "0")) if rank is None else rank
        given = os.environ.get("WORLD_SIZE", "1") if world_size is None else world_size
        self._world_size = int(given)
        if buffer < 1 or not 0 <= self._rank < self._world_size:
            raise errors.InvalidInputError(
                "Expected buffer >= 1 and 0 <= rank < world_size; got "
                f"buffer={buffer!r}, rank={self._rank}, world_size={self._world_size}."
            )
        self._epoch = 0
        self._begin = (0, 0)
        self._position = (0, 0)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch, which determines the order, and start at its first item."""
        self._epoch = epoch
        self._begin = self._position = (0, 0)

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last item that this process yielded, as plain data."""
        buffers, offset = self._position
        return {**self._identity(), "epoch": self._epoch, "buffers": buffers, "offset": offset}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at a position in the next iteration.

        Raises:
            InvalidInputError: The position is of other episodes, or of another shard, seed or
                buffer.
        """
        identity = self._identity()
        wrong = [name for name, value in identity.items() if state.get(name) != value]
        if wrong:
            given = ", ".join(f"{name}={state.get(name)!r}" for name in wrong)
            expected = ", ".join(f"{name}={identity[name]!r}" for name in wrong)
            raise errors.InvalidInputError(
                f"The position is of another stream: it has {given}, but this stream has "
                f"{expected}. Open the same episodes with the same settings, or start over."
            )
        self._epoch = state["epoch"]
        self._begin = self._position = (state["buffers"], state["offset"])

    def __iter__(self) -> Iterator[Any]:
        shard, shards = self._shard()
        ids = self._shuffle(list(self._dataset.episode_ids), "episodes")[shard::shards]
        by_id = {summary.episode_id: summary for summary in self._dataset.summaries}
        first, skip = self._begin
        self._begin = (0, 0)
        for start in range(first * self._buffer, len(ids), self._buffer):
            number = start // self._buffer
            summaries = [by_id[episode_id] for episode_id in ids[start : start + self._buffer]]
            for offset, item in enumerate(self._read(summaries, number)):
                if offset >= skip:
                    self._position = (number, offset + 1)
                    yield item
            skip = 0
            self._position = (number + 1, 0)
        self._position = (0, 0)

    def _read(self, summaries: list[EpisodeSummary], number: int) -> list[Any]:
        episodes = list(self._dataset.of(summaries))
        if self._items is None:
            return episodes
        items = [item for episode in episodes for item in self._items(episode)]
        return self._shuffle(items, f"items {number} {summaries[0].episode_id}")

    def _shuffle(self, values: list[Any], what: str) -> list[Any]:
        if self._seed is not None:
            random.Random(f"{self._seed} {self._epoch} {what}").shuffle(values)
        return values

    def _shard(self) -> tuple[int, int]:
        """Return the number of this process's shard, and how many shards there are."""
        return self._rank, self._world_size

    def _identity(self) -> dict[str, Any]:
        shard, shards = self._shard()
        names = "\n".join(self._dataset.episode_ids)
        return {
            "episodes": hashlib.sha256(names.encode()).hexdigest()[:16],
            "seed": self._seed,
            "buffer": self._buffer,
            "shard": shard,
            "shards": shards,
        }


def to_hugging_face(
    dataset: Dataset | Place, table: Literal["steps", "trajectories"] = "steps"
) -> datasets.IterableDataset:
    """Return a dataset as rows for Hugging Face's `datasets`, read while you iterate.

    The columns are those of the exporter `huggingface`. Each episode is a shard, so `shuffle`,
    `split_dataset_by_node` and PyTorch's workers divide the episodes.

    Args:
        dataset: The dataset, filtered if you like, its folder or its URL.
        table: `steps` for one row per step, `trajectories` for one row per episode.

    Raises:
        InvalidInputError: The table is unknown.
        MissingDependencyError: `datasets` is not installed.
    """
    try:
        from datasets import Features, IterableDataset
    except ImportError as error:
        raise errors.missing_dependency("to_hugging_face needs datasets", "huggingface") from error
    from webtraj.datasets.exporters import huggingface

    if table not in huggingface.CONFIGS:
        raise errors.InvalidInputError(
            f"No table {table!r}; expected one of {', '.join(huggingface.CONFIGS)}."
        )
    opened = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
    schema = huggingface.arrow_schema(huggingface.CONFIGS[table])
    return IterableDataset.from_generator(
        _rows,
        features=Features.from_arrow_schema(schema),
        gen_kwargs={"dataset": opened, "table": table, "episode_ids": list(opened.episode_ids)},
    )


def _rows(dataset: Dataset, table: str, episode_ids: list[str]) -> Iterator[dict[str, Any]]:
    from webtraj.datasets.exporters import huggingface
    from webtraj.datasets.exporters.base import Ledger

    for episode_id in episode_ids:
        rows = huggingface.RowWriter(dataset[episode_id], Ledger(dataset.superseded))
        if table == "steps":
            yield from rows.steps()
        else:
            yield rows.trajectory()
