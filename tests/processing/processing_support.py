"""Recorded datasets, steps and what came of them, for the tests of pipelines."""

import dataclasses

import msgspec
import orjson

from webtraj import open_dataset
from webtraj import trajectory as trajectory_lib
from webtraj.datasets.dataset import encode_episode
from webtraj.datasets.writer import DatasetWriter
from webtraj.processing.base import Changed, Drop
from webtraj.store.blobs import Blob
from webtraj.store.places import open_storage
from webtraj.trajectory import EndReason, EpisodeEnd, EpisodeInfo, Outcome, StepRecord, StepType


def make_episode(number, *, steps=2, size=1500, seed_of=lambda number: number % 40, **info):
    """Returns an episode, of which every seventh is too short; those of one seed are alike."""
    info = {
        "episode_id": f"e{number:05}",
        "task": f"t{number % 3}",
        "seed": seed_of(number),
        **info,
    }
    shot = b"\xff\xd8\xff" + number.to_bytes(4, "big") * (size // 4)
    records = [StepRecord(0, StepType.FIRST, {"shot": shot, "n": number})]
    for index in range(1, 1 if number % 7 == 3 else steps + 1):
        kind = StepType.LAST if index == steps else StepType.MID
        records.append(StepRecord(index, kind, {"n": number}, f"click {index}", 1.0, 0.0))
    return trajectory_lib.EpisodeTrajectory(
        EpisodeInfo(**info),
        tuple(records),
        EpisodeEnd(reason=EndReason.TERMINATED, outcome=Outcome.SUCCESS),
        start_time=1000.0 + number,
        end_time=1001.0 + number,
    )


def record(place, numbers, *, options=None, **more):
    with DatasetWriter(place, storage_options=options) as writer:
        for number in numbers:
            writer.add(make_episode(number, **more))
    return place


class Noted:
    """A step that notes that it was there."""

    name, version = "note", "1"

    def __init__(self, word="seen"):
        self.settings = {"word": word}

    def __call__(self, trajectory):
        metadata = {**trajectory.info.metadata, "note": self.settings["word"]}
        info = dataclasses.replace(trajectory.info, metadata=metadata)
        return Changed((dataclasses.replace(trajectory, info=info),), {"note": "added"})


class Short:
    """A step that drops what has too few steps."""

    name, version, settings = "short", "2", {"least": 1}

    async def __call__(self, trajectory):
        return Drop("short", f"{trajectory.num_steps}") if not trajectory.num_steps else trajectory


class Alike:
    """An ordered step that lets in the first of each seed."""

    name, version, settings = "alike", "1", {}

    def __init__(self):
        self.seen = set()

    def signature(self, trajectory):
        return (trajectory.info.seed, "seed")

    def admit(self, signature):
        assert isinstance(signature, list)
        seed = signature[0]
        if seed in self.seen:
            return Drop("alike", f"seed {seed}")
        self.seen.add(seed)
        return None


class Twins:
    """A step that makes two of one."""

    name, version, settings = "twins", "1", {}

    def __call__(self, trajectory):
        info = dataclasses.replace(
            trajectory.info, episode_id=f"{trajectory.episode_id}.twin", goal="another"
        )
        return Changed((trajectory, dataclasses.replace(trajectory, info=info)))


def contents(place, options=None):
    """Returns each episode of a processed dataset as data, without when models were asked."""

    class Sink:
        def put(self, data, ext):
            import hashlib

            return Blob(hashlib.sha256(data).hexdigest(), ext, len(data))

    return [
        orjson.dumps(without_times(encode_episode(one, Sink())))
        for one in open_dataset(place, storage_options=options)
    ]


def without_times(data):
    if isinstance(data, dict):
        calls = "messages" in data and "model" in data
        judged = "judge" in data
        return {
            key: without_times(value)
            for key, value in data.items()
            if not (
                (calls and key in ("start_time", "latency", "response"))
                or (judged and key == "time")
            )
        }
    if isinstance(data, list):
        return [without_times(value) for value in data]
    return data


def index_lines(place, options=None):
    """Returns what the index says, files' sizes and hashes aside, which hold times."""
    return [
        msgspec.structs.replace(one, size=0, sha256="")
        for one in open_dataset(place, storage_options=options).summaries
    ]


def ledger_lines(place, options=None):
    """Returns the lines of the ledger, in the order of their numbers."""
    storage = open_storage(place, options)
    keys = [e.key for e in storage.list("processing/") if "/ledger/" in e.key]
    lines = {line for key in keys for line in storage.read(key).splitlines()}
    return sorted(map(orjson.loads, lines), key=lambda line: line["number"])


def objects(place, options=None, prefix=""):
    storage = open_storage(place, options)
    return {entry.key: storage.read(entry.key) for entry in storage.list(prefix)}
