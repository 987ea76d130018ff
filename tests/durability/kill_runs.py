"""Recording processes that are killed at named moments, and what recovery brings back.

The moments are those at which a victim opens, links, renames or removes a file of its dataset, or
tells something. Before one of them, by its number, the victim kills itself with SIGKILL.

Run as a script: `python kill_runs.py RUNS SEED FOLDER [COLLECTOR]`, where COLLECTOR is json,
protobuf or protobuf-zst. It prints one JSON object. A warm process forks each victim, so that a run
costs milliseconds and not an interpreter's start.

A victim tells over a pipe what it knows to be recorded: that an environment was entered with an
action (so the intent's call had returned), that a step's call returned, that an episode's last
step's call returned. The kernel keeps what was written to the pipe, whatever happens to the victim.
"""

from __future__ import annotations

import asyncio
import collections
import fcntl
import functools
import itertools
import json
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import dm_env

import webtraj
from webtraj.collectors.base import TrajectoryCollector
from webtraj.collectors.local import ProtobufTrajectoryCollector
from webtraj.datasets.dataset import Dataset
from webtraj.datasets.recovery import recover
from webtraj.datasets.verification import verify

PARALLEL = 6
F_SETPIPE_SZ = 1031


def observation(episode: str, index: int) -> dict[str, object]:
    rng = random.Random(f"{episode}/{index}")
    return {"shot": rng.randbytes(3000), "text": f"{rng.random()} " * 300, "index": index}


class Environment:
    """Says what it is asked to do before it does it, slowly."""

    def __init__(self, tell, rng: random.Random) -> None:
        self._tell = tell
        self._rng = rng
        self.episode = ""

    async def reset(self) -> dm_env.TimeStep:
        self._length = self._rng.randint(1, 8)
        self._index = 0
        await asyncio.sleep(self._rng.random() * 0.002)
        return dm_env.restart(observation(self.episode, 0))

    async def step(self, action: str) -> dm_env.TimeStep:
        self._index += 1
        self._tell("entered", self.episode, self._index)
        await asyncio.sleep(self._rng.random() * 0.003)
        seen = observation(self.episode, self._index)
        if self._index == self._length:
            return dm_env.termination(1.0, seen)
        return dm_env.transition(0.0, seen)

    async def close(self) -> None:
        pass


COLLECTORS = {
    "json": webtraj.JsonTrajectoryCollector,
    "protobuf": ProtobufTrajectoryCollector,
    "protobuf-zst": functools.partial(ProtobufTrajectoryCollector, compression="zst"),
}


FILE_EVENTS = {"open", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir"}


def killed_at(number: int, folder: Path) -> Callable[[], None]:
    """Has this process kill itself at its so manieth moment.

    Returns:
        Counts a moment that is no file's.
    """
    moments = itertools.count(1)
    inside = f"{folder}{os.sep}"

    def moment() -> None:
        if next(moments) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if (
            event in FILE_EVENTS
            and isinstance(arguments[0], str | bytes | os.PathLike)
            and os.fsdecode(arguments[0]).startswith(inside)
        ):
            moment()

    sys.addaudithook(hook)
    return moment


def victim(
    make: Callable[[], TrajectoryCollector], pipe: int, seed: int, moment: Callable[[], None]
) -> None:
    def tell(what: str, episode: str, index: int) -> None:
        os.write(pipe, f"{what} {episode} {index}\n".encode())
        moment()

    async def play(collector: TrajectoryCollector, rng: random.Random) -> None:
        inner = Environment(tell, rng)

        def info() -> webtraj.EpisodeInfo:
            described = webtraj.EpisodeInfo(task="kill")
            inner.episode = described.episode_id
            return described

        env = webtraj.TrajectoryCollectingEnvironment(inner, collector, episode_info=info)
        while True:
            timestep = await env.reset()
            tell("returned", inner.episode, 0)
            while not timestep.last():
                index = inner._index + 1
                timestep = await env.step(f"action {index}")
                tell("ended" if timestep.last() else "returned", inner.episode, index)

    async def main() -> None:
        collector = make()
        await asyncio.gather(
            *(play(collector, random.Random(f"{seed}/{worker}")) for worker in range(PARALLEL))
        )

    asyncio.run(main())


def run(folder: Path, seed: int, collector_name: str) -> dict[str, int]:
    """One victim's life and what is left of it; raises AssertionError if anything is missing."""
    told = life(lambda: COLLECTORS[collector_name](folder), seed, folder)
    if not (folder / "dataset.json").exists():
        assert not told
        return {"episodes": 0}
    recover(folder)
    report = verify(folder)
    assert report.clean, report.problems
    dataset = webtraj.open_dataset(folder)
    assert not dataset.open_episodes
    return compare(dataset, told)


def life(
    make: Callable[[], TrajectoryCollector], seed: int, folder: Path, longest: int = 500
) -> str:
    """Has a victim record into a folder until one of `longest` moments; returns what it told."""
    number = random.Random(seed).randint(1, longest)
    reader, writer = os.pipe()
    fcntl.fcntl(writer, F_SETPIPE_SZ, 1 << 20)
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            victim(make, writer, seed, killed_at(number, folder))
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        told = pipe.read()
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, "the victim died by itself"
    return told


def compare(dataset: Dataset, told: str) -> dict[str, int]:
    """Counts what a dataset has; raises AssertionError if it lacks what a victim told."""
    entered: dict[str, int] = collections.defaultdict(lambda: -1)
    returned: dict[str, int] = collections.defaultdict(lambda: -1)
    ended: set[str] = set()
    for line in told.splitlines():
        what, episode, index = line.split()
        (entered if what == "entered" else returned)[episode] = int(index)
        if what == "ended":
            ended.add(episode)
    counts: collections.Counter[str] = collections.Counter()
    for episode in entered.keys() | returned.keys() | ended:
        assert episode in dataset, f"{episode} is lost"
    for trajectory in dataset:
        episode = trajectory.episode_id
        steps, end = trajectory.steps, trajectory.end
        counts["episodes"] += 1
        counts["steps"] += len(steps)
        assert len(steps) > returned[episode], f"{episode} lost a step whose call had returned"
        for index, step in enumerate(steps):
            assert step.index == index
            assert step.observation == observation(episode, index)
            assert step.action == (f"action {index}" if index else None)
        if end.reason is webtraj.EndReason.TERMINATED:
            assert steps[-1].last
            counts["terminated"] += 1
            continue
        assert episode not in ended, f"{episode} had ended, and is {end.reason.name}"
        assert end.reason is webtraj.EndReason.CRASHED
        counts["crashed"] += 1
        if end.action_in_flight:
            assert end.in_flight_action == f"action {len(steps)}"
            counts["in_flight"] += 1
        else:
            assert entered[episode] < len(steps), f"{episode} lost its action in flight"
    return dict(counts)


def main() -> None:
    runs, seed, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    collector_name = sys.argv[4] if len(sys.argv) > 4 else "json"
    totals: collections.Counter[str] = collections.Counter()
    for number in range(runs):
        totals.update(run(folder / f"run{number}", seed + number, collector_name))
        totals["runs"] += 1
    print(json.dumps(totals))


if __name__ == "__main__":
    main()
