"""How many workers: the rule by simulation, what it reads, who rests, and real rollouts."""

import asyncio
import dataclasses
import itertools
import json
import os

import dm_env
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rows import each
from webtraj import errors, registry
from webtraj.rollouts import RunSpec, collect, plan_episodes
from webtraj.rollouts.adapting import (
    Adaptive,
    AdaptiveControl,
    Crew,
    MachineReader,
    Reading,
)
from webtraj.rollouts.results import NullRolloutObserver
from webtraj.rollouts.runner import Runner
from webtraj.rollouts.scheduling import Turn

GIB = 1 << 30
BOUNDS = Adaptive(1, 64)


@dataclasses.dataclass
class Machine:
    """A machine that carries `room` workers; each takes memory, and beyond its room all wait."""

    room: int
    memory: int = 64 * GIB
    memory_each: int = GIB // 8
    step: float = 0.5
    blind: bool = False
    now: float = 0.0

    def read(self, workers):
        """Reads the machine after a while with so many workers."""
        self.now += BOUNDS.interval
        if self.blind:
            return Reading(at=self.now, seconds_per_step=self.step * max(1, workers / self.room))
        return Reading(
            at=self.now,
            cpu_pressure=min(1.0, 0.9 * workers / self.room),
            memory_available=self.memory - workers * self.memory_each,
            seconds_per_step=self.step * max(1, workers / self.room),
        )

    def run(self, control, readings):
        """Returns the numbers of workers, one after each reading."""
        return [control.heed(self.read(control.workers)) for _ in range(readings)]


@each("room", [2, 5, 16, 40])
def test_it_finds_the_machines_room_and_stays_there(room):
    numbers = Machine(room).run(AdaptiveControl(BOUNDS), 400)
    later = numbers[100:]
    assert max(later) <= room * BOUNDS.slower_when_full * 1.2 + 1
    assert min(later) >= room * 0.8 - 1


def test_it_keeps_memory_free():
    machine = Machine(room=1000, memory=8 * GIB)
    control = AdaptiveControl(BOUNDS)
    left = [machine.memory - n * machine.memory_each for n in machine.run(control, 200)]
    assert min(left[20:]) >= GIB
    assert control.workers > 40  # Most of the memory is used.


def test_it_halves_when_somebody_else_takes_the_memory():
    machine = Machine(room=1000, memory=16 * GIB)
    control = AdaptiveControl(BOUNDS)
    before = machine.run(control, 30)[-1]
    machine.memory = 4 * GIB
    numbers = machine.run(control, 30)
    assert numbers[0] == before // 2
    assert machine.memory - numbers[-1] * machine.memory_each >= GIB
    machine.memory = 16 * GIB
    assert machine.run(control, 80)[-1] == before  # And comes back when it is there again.


def test_it_waits_before_it_tries_again():
    control = AdaptiveControl(BOUNDS)
    numbers = [
        control.heed(
            Reading(
                at=i * BOUNDS.interval,
                cpu_pressure=float(control.workers > 16),
                seconds_per_step=2.0 if control.workers > 16 else 1.0,
            )
        )
        for i in range(300)
    ]
    assert set(numbers[100:]) <= set(range(12, 19))
    changes = [b - a for a, b in itertools.pairwise(numbers)]
    falls = [i for i, change in enumerate(changes) if change < 0]
    pause = int(BOUNDS.patience / BOUNDS.interval) - 1
    assert len(falls) > 5
    assert all(max(changes[fall : fall + pause]) <= 0 for fall in falls)


def test_steps_that_are_slow_whoever_works_are_not_the_workers_fault():
    machine = Machine(room=1000, step=0.5)
    control = AdaptiveControl(BOUNDS)
    assert machine.run(control, 50)[-1] == 64
    machine.step = 5.0  # Other tasks, or a policy that thinks for longer.
    numbers = machine.run(control, 200)
    assert min(numbers) <= 32  # So it found out.
    assert numbers[-1] == 64


@given(
    low=st.integers(1, 20),
    more=st.integers(0, 50),
    readings=st.lists(
        st.tuples(
            st.none() | st.floats(0, 1),
            st.none() | st.integers(0, 64 * GIB),
            st.none() | st.floats(0, 1e6),
        ),
        max_size=60,
    ),
)
def test_whatever_is_read_it_stays_in_bounds_and_moves_by_steps(low, more, readings):
    control = AdaptiveControl(Adaptive(low, low + more))
    for at, (cpu, memory, seconds) in enumerate(readings):
        before = control.workers
        after = control.heed(
            Reading(
                at=at * 2.0, cpu_pressure=cpu, memory_available=memory, seconds_per_step=seconds
            )
        )
        assert low <= after <= low + more
        assert before // 2 <= after <= before * 2


@each(
    "make",
    [
        lambda: Adaptive(0, 4),
        lambda: Adaptive(5, 4),
        lambda: Adaptive(1, 4, interval=0),
        lambda: Adaptive(1, 4, patience=-1),
        lambda: Adaptive(1, 4, cpu_free=0.9, cpu_full=0.5),
        lambda: Adaptive(1, 4, slower=1),
        lambda: Adaptive(1, 4, slower_when_full=0.5),
    ],
)
def test_bounds_that_are_none_are_refused(make):
    with pytest.raises(errors.InvalidInputError, match="Adaptive takes"):
        make()


# What is read.


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def write_proc(folder, *, stalled=None, load=None, available=None):
    (folder / "pressure").mkdir(exist_ok=True)
    if stalled is not None:
        (folder / "pressure" / "cpu").write_text(
            f"some avg10=1.00 avg60=2.00 avg300=3.00 total={int(stalled * 1e6)}\n"
            "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
        )
    if load is not None:
        (folder / "loadavg").write_text(f"{load} 1.00 1.00 2/300 4711\n")
    if available is not None:
        (folder / "meminfo").write_text(f"MemTotal: 99 kB\nMemAvailable: {available} kB\n")


def test_pressure_is_what_was_stalled_since_the_last_reading(tmp_path):
    clock = Clock()
    write_proc(tmp_path, stalled=50, available=2048)
    reader = MachineReader(tmp_path, clock=clock)
    clock.now += 10
    write_proc(tmp_path, stalled=54)
    reading = reader.read(0.5)
    assert reading == Reading(
        at=110.0, cpu_pressure=pytest.approx(0.4), memory_available=2 << 20, seconds_per_step=0.5
    )
    clock.now += 10
    assert reader.read().cpu_pressure == 0.0


def test_without_pressure_the_load_tells(tmp_path):
    cpus = len(os.sched_getaffinity(0))
    write_proc(tmp_path, load=4 * cpus)
    assert MachineReader(tmp_path).read().cpu_pressure == pytest.approx(0.75)
    write_proc(tmp_path, load=0.5 * cpus)
    assert MachineReader(tmp_path).read().cpu_pressure == 0.0
    write_proc(tmp_path, load=0)
    assert MachineReader(tmp_path).read().cpu_pressure == 0.0


@each("content", ["", "some total=many\n", "some\n", "full total=3\n"])
def test_what_cannot_be_read_is_not_known(tmp_path, content):
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure" / "cpu").write_text(content)
    reading = MachineReader(tmp_path).read()
    assert (reading.cpu_pressure, reading.memory_available) == (None, None)


# Who works and who rests.


async def joined(crew, number):
    tasks = [asyncio.ensure_future(crew.join()) for _ in range(number)]
    await asyncio.sleep(0)
    return tasks


async def test_no_more_work_than_may_and_the_others_follow_in_turn():
    crew = Crew(2)
    tasks = await joined(crew, 5)
    assert [task.done() for task in tasks] == [True, True, False, False, False]
    crew.resize(4)
    await asyncio.sleep(0)
    assert [task.done() for task in tasks] == [True, True, True, True, False]
    crew.dismiss()
    assert [await task for task in tasks] == [True, True, True, True, False]
    assert not await crew.join()


async def test_only_those_too_many_leave():
    crew = Crew(4)
    await joined(crew, 4)
    crew.resize(2)
    assert [crew.leave_if_crowded() for _ in range(4)] == [True, True, False, False]
    assert crew.working == 2


async def test_one_that_is_cancelled_at_rest_takes_no_place():
    crew = Crew(1)
    _, impatient, patient = await joined(crew, 3)
    impatient.cancel()
    await asyncio.wait([impatient])
    crew.resize(2)
    assert await patient
    assert crew.working == 2


# In rollouts.


@pytest.fixture
def crowd(monkeypatch):
    """A preset whose steps take as many turns of the loop as asked; counts who plays at once."""

    class Walk:
        playing = most = opened = closed = 0
        gate = None
        open = True

        def __init__(self, tasks):
            Walk.opened += 1

        async def reset(self):
            Walk.playing += 1
            Walk.most = max(Walk.most, Walk.playing)
            self.steps = 0
            return dm_env.restart(0)

        async def step(self, action):
            await Walk.gate()
            self.steps += 1
            if self.steps < 3:
                return dm_env.transition(0.0, self.steps)
            Walk.playing -= 1
            return dm_env.termination(1.0, self.steps)

        async def close(self):
            if self.open:
                Walk.closed += 1
            self.open = False

        async def __aenter__(self):
            return self

        async def __aexit__(self, *exc_info):
            await self.close()

    registry.register("walk", Walk, tasks=("walk",))
    return Walk


async def test_a_rollout_grows_and_shrinks_and_cancels_nobody(crowd, climber, monkeypatch):
    """The readings tell of room at first, and then of memory that runs out."""
    readings = 0

    def read(self, seconds_per_step=None):
        nonlocal readings
        readings += 1
        return Reading(at=readings * 2.0, memory_available=8 * GIB if readings < 8 else 0)

    async def gate():
        seen = readings
        while readings == seen:  # Each step lasts until the machine has been read once more.
            await asyncio.sleep(0)
        playing.append((crowd.playing, crowd.opened - crowd.closed))

    playing = []
    crowd.gate = gate
    monkeypatch.setattr(MachineReader, "read", read)
    runner = Runner(
        agent=climber(),
        turns=[Turn(planned=planned) for planned in plan_episodes("walk", episodes=60)],
        spec=RunSpec(),
        parallel=Adaptive(1, 8, interval=0.001),
        observer=NullRolloutObserver(),
    )
    results = await runner.play()
    assert [result.total_reward for result in results] == [1.0] * 60
    assert crowd.most == 8
    assert playing[0] == playing[-1] == (1, 1)  # Those at rest hold no environment.
    assert crowd.opened == crowd.closed


async def test_a_run_on_record_says_how_it_adapts(crowd, climber, tmp_path):
    crowd.gate = asyncio.Event().wait
    settings = {"parallel": "auto", "operation_limits": {"navigate": 3}}
    rollout = asyncio.ensure_future(
        collect(
            RunSpec(preset="walk", episodes=4, **settings, out=tmp_path),
            agent=climber(),
            run_id="r",
        )
    )
    while not crowd.playing:
        await asyncio.sleep(0)
    rollout.cancel()
    with pytest.raises(asyncio.CancelledError):
        await rollout
    told = json.loads((tmp_path / "runs" / "r" / "settings.json").read_text())
    assert settings.items() <= told.items()
    crowd.gate = lambda: asyncio.sleep(0)
    summary = await collect(RunSpec(out=tmp_path), agent=climber(), resume=True)
    assert sorted(result.row for result in summary.last_tries) == [0, 1, 2, 3]
    assert all(result.finished for result in summary.last_tries)
