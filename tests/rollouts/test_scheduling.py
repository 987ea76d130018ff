"""Whose turn is next: order, politeness, retries, and an end."""

import asyncio

import pytest

from rows import each
from webtraj import errors
from webtraj.environments.tasks import TaskSpec
from webtraj.rollouts.scheduler import Politeness, Scheduler, Turn
from webtraj.runs.plan import plan_tasks


def turns(*tasks):
    """Makes a turn for each (site, difficulty)."""
    specs = [
        TaskSpec(name=f"{site}{number}", site=site, difficulty=difficulty)
        for number, (site, difficulty) in enumerate(tasks)
    ]
    return [Turn(planned=planned) for planned in plan_tasks(specs)]


def sites(*names):
    return turns(*((name, 0) for name in names))


class Clock:
    """A clock that is moved by hand."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


async def take_all(scheduler):
    """Takes one turn after the other, each given back before the next."""
    taken = []
    while (turn := await scheduler.take()) is not None:
        taken.append(turn)
        scheduler.finish(turn)
    return [turn.planned.task for turn in taken]


async def at_once(scheduler):
    """Returns the turn that can be had without waiting, or None."""
    task = asyncio.ensure_future(scheduler.take())
    await asyncio.sleep(0)
    if task.done():
        return task.result().planned.task
    task.cancel()
    return None


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("given", ["a0", "a1", "a2", "b3", "c4"]),
        ("fair", ["a0", "b3", "c4", "a1", "a2"]),
        ("longest", ["c4", "a1", "a0", "a2", "b3"]),
    ],
)
async def test_order(order, expected):
    given = turns(("a", 1), ("a", 3), ("a", 1), ("b", 1), ("c", 9))
    assert await take_all(Scheduler(given, order=order)) == expected


async def test_no_more_at_a_site_than_it_takes():
    scheduler = Scheduler(sites("a", "a", "b"), politeness=Politeness(per_site=1))
    first = await scheduler.take()
    assert await at_once(scheduler) == "b2"
    assert await at_once(scheduler) is None
    waiting = asyncio.ensure_future(scheduler.take())
    await asyncio.sleep(0)
    scheduler.finish(first)
    assert (await waiting).planned.task == "a1"


async def test_a_site_rests_between_visits():
    clock = Clock()
    scheduler = Scheduler(sites("a", "a", "b"), politeness=Politeness(interval=60), clock=clock)
    assert await at_once(scheduler) == "a0"
    assert await at_once(scheduler) == "b2"
    assert await at_once(scheduler) is None
    clock.now = 60.0
    assert await at_once(scheduler) == "a1"


async def test_a_retry_waits_for_its_pause_and_goes_behind_what_is_new():
    clock = Clock()
    scheduler = Scheduler(sites("a", "a", "a"), clock=clock)
    first = await scheduler.take()
    again = Turn(planned=first.planned, number=1)
    scheduler.finish(first, again, delay=30)
    assert await at_once(scheduler) == "a1"
    assert await at_once(scheduler) == "a2"
    assert await at_once(scheduler) is None
    clock.now = 30.0
    assert await scheduler.take() == again


async def test_a_retry_whose_pause_is_over_goes_behind_what_is_new():
    clock = Clock()
    scheduler = Scheduler(sites("a", "a", "a"), clock=clock)
    first = await scheduler.take()
    again = Turn(planned=first.planned, number=1)
    scheduler.finish(first, again, delay=30)
    clock.now = 30.0
    assert [await at_once(scheduler) for _ in range(2)] == ["a1", "a2"]
    assert await scheduler.take() == again


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("given", ["b1", "c2", "b3", "a0"]),
        # Before what is easier: no long episode is left to the end.
        ("longest", ["b1", "a0", "c2", "b3"]),
        ("fair", ["b1", "c2", "a0", "b3"]),
    ],
)
async def test_a_retry_goes_behind_its_equals_by_the_order(order, expected):
    given = turns(("a", 9), ("b", 9), ("c", 1), ("b", 1))
    scheduler = Scheduler(given, order=order)
    first = await scheduler.take()
    scheduler.finish(first, Turn(planned=first.planned, number=1))
    assert await take_all(scheduler) == expected


async def test_a_turn_that_was_not_begun_goes_first_again():
    scheduler = Scheduler(sites("a", "b", "a"))
    first = await scheduler.take()
    scheduler.finish(first, first)
    assert await take_all(scheduler) == ["a0", "b1", "a2"]


async def test_dense_faults_do_not_burn_a_rows_tries():
    """All that is played while the site is down fails; retries come when it is up again."""
    clock = Clock()
    scheduler = Scheduler(sites(*"aaaaaaaa"), clock=clock)
    tries = {}
    while (turn := await scheduler.take()) is not None:
        tries[turn.planned.row] = turn.number + 1
        down = clock.now < 4
        clock.now += 1
        scheduler.finish(turn, Turn(planned=turn.planned, number=turn.number + 1) if down else None)
    assert list(tries.values()) == [2, 2, 2, 2, 1, 1, 1, 1]


async def test_workers_wait_for_what_may_come_again():
    scheduler = Scheduler(sites("a"))
    turn = await scheduler.take()
    other = asyncio.ensure_future(scheduler.take())
    await asyncio.sleep(0)
    assert not other.done()
    again = Turn(planned=turn.planned, number=1)
    scheduler.finish(turn, again)
    assert await other == again
    last = asyncio.ensure_future(scheduler.take())
    await asyncio.sleep(0)
    scheduler.finish(again)
    assert await last is None


async def test_stopped_it_hands_out_nothing():
    scheduler = Scheduler(sites("a", "a"), politeness=Politeness(per_site=1))
    await scheduler.take()
    waiting = asyncio.ensure_future(scheduler.take())
    await asyncio.sleep(0)
    scheduler.stop()
    assert await waiting is None
    assert await scheduler.take() is None


@each("order", ["given", "fair", "longest"])
@each("per_site", [None, 1, 2])
async def test_every_turn_is_played_once_by_any_number_of_workers(order, per_site):
    given = sites(*(f"s{number % 7}" for number in range(60)))
    scheduler = Scheduler(given, order=order, politeness=Politeness(per_site=per_site))
    played, visitors, most = [], {}, 0

    async def work():
        nonlocal most
        while (turn := await scheduler.take()) is not None:
            visitors[turn.site] = visitors.get(turn.site, 0) + 1
            most = max(most, visitors[turn.site])
            await asyncio.sleep(0)
            visitors[turn.site] -= 1
            played.append(turn.planned.row)
            again = None
            if turn.planned.row % 5 == 0 and turn.number == 0:
                again = Turn(planned=turn.planned, number=1)
            scheduler.finish(turn, again)

    await asyncio.gather(*(work() for _ in range(9)))
    assert sorted(played) == sorted([*range(60), *range(0, 60, 5)])
    assert most <= (per_site or 9)
    assert scheduler.left == 0


@pytest.mark.parametrize("arguments", [{"per_site": 0}, {"interval": -1}], ids=["none", "past"])
def test_impossible_politeness(arguments):
    with pytest.raises(errors.InvalidInputError):
        Politeness(**arguments)
