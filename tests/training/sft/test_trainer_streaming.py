"""Episodes through a real DataLoader: every step exactly once, whoever reads it."""

import pytest
from torch.utils.data import DataLoader

from webtraj.datasets import DatasetWriter, open_dataset
from webtraj.datasets.torch import EpisodeIterableDataset
from webtraj.trajectory import (
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    StepRecord,
    StepType,
)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stream")
    with DatasetWriter(folder) as writer:
        for number in range(13):
            steps = [StepRecord(0, StepType.FIRST, {"n": number})]
            steps += [StepRecord(i, StepType.MID, {}, "go", 0.0, 1.0) for i in range(1, number + 1)]
            info = EpisodeInfo(episode_id=f"e{number}")
            end = EpisodeEnd(reason=EndReason.CLOSED)
            writer.add(EpisodeTrajectory(info, tuple(steps), end, start_time=float(number)))
    return open_dataset(folder)


def items(episode):
    return [(episode.episode_id, step.index) for step in episode.steps]


EVERY = sorted((f"e{number}", index) for number in range(13) for index in range(number + 1))


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize("world", [1, 2])
def test_two_workers_in_each_process_read_every_step_once(dataset, start, world):
    orders = []
    for epoch in range(2 if start == "fork" else 1):
        found = []
        for rank in range(world):
            stream = EpisodeIterableDataset(
                dataset, items, seed=0, buffer=3, rank=rank, world_size=world
            )
            stream.set_epoch(epoch)
            loader = DataLoader(
                stream, batch_size=4, num_workers=2, collate_fn=list, multiprocessing_context=start
            )
            found += [item for batch in loader for item in batch]
        assert sorted(found) == EVERY
        orders.append(found)
    assert len({tuple(order) for order in orders}) == len(orders)


def test_a_loader_without_workers_is_resumed_exactly(dataset):
    def loader(stream):
        return DataLoader(stream, batch_size=5, collate_fn=list)

    whole = list(loader(EpisodeIterableDataset(dataset, items, seed=2, buffer=4)))
    stream = EpisodeIterableDataset(dataset, items, seed=2, buffer=4)
    batches = iter(loader(stream))
    head = [next(batches) for _ in range(7)]
    resumed = EpisodeIterableDataset(dataset, items, seed=2, buffer=4)
    resumed.load_state_dict(stream.state_dict())
    assert head + list(loader(resumed)) == whole
