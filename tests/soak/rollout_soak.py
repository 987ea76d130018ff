"""Many episodes under fire: a model agent plays while browsers, pages and its model server fail.

    make test-rollouts                       (1,000 episodes)
    make test-rollouts ROLLOUTS=150 SEED=7

One plan is played three times, each by a process of its own, against a model server of its own:

1. calm: nothing fails. This says how each row of the plan ends by itself.
2. storm: a browser is killed for 5 % of the episodes, pages hang, the model server answers with
   errors, garbage or not at all, and is out of order at times. In one go.
3. killed: the same, and the process gets SIGKILL five times, each time after a share of the rows
   is over, but once when it has just begun to resume, and is resumed each time.

What must hold is in `rollout_audit`; `test_rollout_soak` asks it. The figures are printed.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from click_policy import FailingPolicy
from rollout_child import KILLS, Orders

from webtraj.store.journal import read_journal
from webtraj.testing.model_server import FakeModelServer

CHILD = Path(__file__).with_name("rollout_child.py")
STALLED = 90.0
"""Seconds without a word, after which a child has hung."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cut:
    """An episode that was open when its process was killed, as its journal had it."""

    steps: int
    ended: bool
    """Whether its end was written, and just not filed yet."""


@dataclasses.dataclass
class Play:
    """One way of playing the plan, and what was seen of it."""

    name: str
    folder: Path
    told: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    """Every episode whose end was told, by its id."""
    told_twice: list[str] = dataclasses.field(default_factory=list)
    cut: dict[str, Cut] = dataclasses.field(default_factory=dict)
    """The episodes that were open at a kill, by their ids."""
    rows: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """The last try of each row, as the rollout itself summed it up in the end."""
    faults: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    kills: int = 0
    seconds: float = 0.0

    @property
    def rows_over(self) -> int:
        return len({told["row"] for told in self.told.values() if told["reward"] is not None})

    def note(self, line: dict[str, Any]) -> None:
        match line.pop("kind"):
            case "ended":
                if line["id"] in self.told:
                    self.told_twice.append(line["id"])
                self.told[line["id"]] = line
            case "fault":
                self.faults[line["name"]] += 1
            case "done":
                self.rows = line["rows"]

    def note_open_episodes(self) -> None:
        for path in (self.folder / "journal").glob("[!.]*.jsonl"):
            journal = read_journal(path)
            self.cut[path.stem] = Cut(len(journal.steps), journal.end is not None)


@dataclasses.dataclass
class RolloutSoak:
    """The three plays of one plan."""

    folder: Path
    episodes: int
    seed: int
    kills: int = KILLS
    """How often the whole process is killed, three times at least: the third while it resumes."""

    def __post_init__(self) -> None:
        self.plays = {name: Play(name, self.folder / name) for name in ("calm", "storm", "killed")}

    async def run(self) -> None:
        await self._play(self.plays["calm"], failing=False, kills=0)
        await self._play(self.plays["storm"], failing=True, kills=0)
        await self._play(self.plays["killed"], failing=True, kills=self.kills)

    async def _play(self, play: Play, *, failing: bool, kills: int) -> None:
        policy = FailingPolicy(self.seed, failing=failing)
        started = time.perf_counter()
        # As of OpenAI: without the tokens, which cost much and are not what this is about.
        with FakeModelServer(policy, vendor="openai") as server:
            for life in range(kills + 1):
                orders = Orders(
                    out=str(play.folder),
                    url=server.url,
                    episodes=self.episodes,
                    seed=self.seed,
                    resume=life > 0,
                    chaos_seed=self.seed + life if failing else None,
                )
                await self._live(play, orders, life=life, kills=kills)
            if server.errors:
                raise server.errors[0]
        play.seconds = time.perf_counter() - started
        play.faults.update({f"model: {name}": count for name, count in policy.done.items()})

    async def _live(self, play: Play, orders: Orders, *, life: int, kills: int) -> None:
        """One life of the process, up to its end or the moment of its death."""
        async with child(orders) as process:
            if life == kills:
                async for line in lines(process):
                    play.note(line)
                if await process.wait():
                    raise AssertionError(f"{play.name}: the rollout failed; see above")
            elif life == 2:
                await self._kill_while_it_resumes(play, process)
            else:
                await self._kill_in_the_middle(play, process, (life + 0.5) / (kills + 0.5))

    async def _kill_in_the_middle(
        self, play: Play, process: asyncio.subprocess.Process, share: float
    ) -> None:
        async for line in lines(process):
            play.note(line)
            if play.rows_over >= share * self.episodes:
                break
        await self._kill(play, process)

    async def _kill_while_it_resumes(self, play: Play, process: asyncio.subprocess.Process) -> None:
        async for line in lines(process):
            if line["kind"] == "begun":
                break
        await self._kill(play, process)

    async def _kill(self, play: Play, process: asyncio.subprocess.Process) -> None:
        if process.returncode is not None:
            raise AssertionError(f"{play.name}: it was over before it could be killed")
        process.kill()
        async for line in lines(process):  # What it had said before.
            play.note(line)
        await process.wait()
        play.kills += 1
        play.note_open_episodes()


@contextlib.asynccontextmanager
async def child(orders: Orders) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        CHILD,
        json.dumps(dataclasses.asdict(orders)),
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 24,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def lines(process: asyncio.subprocess.Process) -> AsyncIterator[dict[str, Any]]:
    """Yields what a child says; raises if it says nothing for too long."""
    assert process.stdout is not None
    while True:
        try:
            async with asyncio.timeout(STALLED):
                line = await process.stdout.readline()
        except TimeoutError:
            raise AssertionError(f"The rollout said nothing for {STALLED:g} s.") from None
        if not line.endswith(b"\n"):  # The end, or half a line of the dead.
            return
        yield json.loads(line)


def show(soak: RolloutSoak) -> None:
    for play in soak.plays.values():
        told = play.told.values()
        print(
            f"{play.name}: {len(told)} tries at {soak.episodes} episodes in {play.seconds:.1f} s "
            f"({len(told) / max(play.seconds, 0.001):.1f}/s), killed {play.kills} times with "
            f"{len(play.cut)} episodes open"
        )
        for what, items in {
            "all tries": told,
            "last tries": play.rows,
        }.items():
            ends = collections.Counter(f"{t['end'].lower()}/{t['outcome'].lower()}" for t in items)
            print(f"    {what}:", ", ".join(f"{end} {n}" for end, n in ends.most_common()))
        errors = collections.Counter(t["error"].partition(":")[0] for t in told if t["error"])
        print("    errors:", ", ".join(f"{name} {n}" for name, n in errors.most_common()) or "none")
        print("    faults:", ", ".join(f"{name} {n}" for name, n in sorted(play.faults.items())))
