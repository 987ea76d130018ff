"""Streams of episodes: every item once, in an order by seed and epoch, resumable anywhere."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webtraj import errors
from webtraj.datasets import DatasetWriter, open_dataset
from webtraj.datasets.stream import EpisodeStream
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
    end = EpisodeEnd(reason=EndReason.TERMINATED)
    with DatasetWriter(folder) as writer:
        for number in range(11):
            made = (
                StepRecord(0, StepType.FIRST, {"n": number}),
                StepRecord(1, StepType.LAST, {"n": number}, "click", 1.0, 0.0),
            )
            info = EpisodeInfo(episode_id=f"e{number}")
            writer.add(EpisodeTrajectory(info, made, end, start_time=float(number)))
    return open_dataset(folder)


def steps(episode):
    return [(episode.episode_id, step.index) for step in episode.steps]


EVERY = {(f"e{number}", index) for number in range(11) for index in range(2)}


@given(seed=st.integers(0, 9) | st.none(), buffer=st.integers(1, 12), world=st.integers(1, 4))
def test_all_shards_together_have_every_item_once(dataset, seed, buffer, world):
    found = [
        item
        for rank in range(world)
        for item in EpisodeStream(
            dataset, steps, seed=seed, buffer=buffer, rank=rank, world_size=world
        )
    ]
    assert len(found) == len(EVERY)
    assert set(found) == EVERY


def test_the_order_follows_from_seed_and_epoch(dataset):
    def order(seed, epoch=0):
        stream = EpisodeStream(dataset, steps, seed=seed, buffer=4)
        stream.set_epoch(epoch)
        return list(stream)

    assert order(0) == order(0)
    assert len({tuple(order(seed, epoch)) for seed in (0, 1) for epoch in (0, 1)}) == 4
    first = [name for name, _ in order(0)][:8]
    assert len(set(first)) < 8  # Items of one episode are near each other,
    assert first != sorted(first, key=first.index)  # but not beside each other.


@given(seed=st.integers(0, 9) | st.none(), buffer=st.integers(1, 12), at=st.integers(0, 22))
def test_resuming_yields_the_rest(dataset, seed, buffer, at):
    def made():
        stream = EpisodeStream(dataset, steps, seed=seed, buffer=buffer)
        stream.set_epoch(3)
        return stream

    whole = list(made())
    stream = made()
    head = list(itertools.islice(stream, at))
    state = json.loads(json.dumps(stream.state_dict()))
    resumed = EpisodeStream(dataset, steps, seed=seed, buffer=buffer)
    resumed.load_state_dict(state)
    assert head + list(resumed) == whole
    assert list(resumed) == whole  # The next iteration is a whole one.


def test_the_processes_of_torchrun_share_the_episodes(dataset, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    found = []
    for rank in "01":
        monkeypatch.setenv("RANK", rank)
        found += [episode.episode_id for episode in EpisodeStream(dataset)]
    assert sorted(found) == sorted(dataset.episode_ids)
    with pytest.raises(errors.InvalidInputError, match="rank < world_size"):
        EpisodeStream(dataset, rank=2)
