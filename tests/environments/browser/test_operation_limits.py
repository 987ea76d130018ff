"""Operation limits: fair, cancellable, cheap, seen in the timings, and at the real operations."""

import asyncio
import collections
import time
from typing import get_args

import pytest

from webtraj import WebTask, errors
from webtraj.environments import actions as a
from webtraj.environments.browser.acting import PERFORMERS
from webtraj.environments.browser.environment import BrowserEnvironment
from webtraj.environments.browser.lease import Operation, OperationLimits, Operations, Turns
from webtraj.environments.browser.pool import BrowserPool

TIMED = ("axtree", "last_action", "timings")


class Clock:
    """Moves when somebody sleeps."""

    def __init__(self):
        self.now = 0.0
        self.slept = []

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


# The limits.


def test_without_limits_nothing_waits():
    turns = Turns(Operations())
    assert turns.at("execute") is turns.at("navigate") is turns.at(None)


@pytest.mark.parametrize("none", [None, 0])
def test_0_is_no_limit(none):
    assert OperationLimits(screenshot=none).of("screenshot") is None


def test_reading_a_page_has_the_smallest_of_its_limits():
    limits = OperationLimits(metadata=5, ac_tree=0, page_metadata=3)
    assert limits.of("observe") == 3
    assert OperationLimits().of("observe") is None


@pytest.mark.parametrize("value", [-1, 1.5, "many", float("nan")])
def test_limits_that_are_none_are_refused(value):
    with pytest.raises(errors.InvalidInputError, match="'navigate' is"):
        OperationLimits(navigate=value)


@pytest.mark.parametrize(
    ("action", "operation"),
    [
        (a.Click("1"), "execute"),
        (a.PressKey("Enter"), "execute"),
        (a.FocusTab(0), "execute"),
        (a.GoBack(), "navigate"),
        (a.Reload(), "navigate"),
        (a.Goto("https://example.com"), None),  # Opening a URL takes its turn itself.
        (a.Wait(3), None),
        (a.Answer("42"), None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, a.Action) else str(value),
)
def test_what_an_action_counts_as(action, operation):
    assert PERFORMERS[type(action)][1] == operation


# Turns.


async def test_turns_come_in_the_order_of_asking():
    operations, order = Operations(OperationLimits(execute=1)), []

    async def work(number):
        async with Turns(operations).at("execute"):
            order.append(number)
            await asyncio.sleep(0)

    await asyncio.gather(*(work(number) for number in range(20)))
    assert order == list(range(20))


async def test_one_that_is_cancelled_while_it_waits_has_used_nothing_up():
    operations, turns = Operations(OperationLimits(execute=1)), []

    async def work():
        turns.append(Turns(operations))
        async with turns[-1].at("execute"):
            await release.wait()

    release = asyncio.Event()
    first, second, third = (asyncio.ensure_future(work()) for _ in range(3))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait([second])
    assert not third.done()
    release.set()
    await asyncio.gather(first, third)
    assert not operations.gate("execute").locked()
    assert [one.waited > 0 for one in turns] == [False, True, True]


async def test_what_fails_gives_its_turn_back():
    turns = Turns(Operations(OperationLimits(execute=1)))
    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            async with turns.at("execute"):
                raise ValueError("no")


async def test_waiting_is_told_once():
    turns = Turns(Operations(OperationLimits(execute=1)))
    async with turns.at("execute"):
        waiting = asyncio.ensure_future(turns.at("execute").__aenter__())
        await asyncio.sleep(0.01)
    await waiting
    assert turns.take_waited() >= 0.01
    assert turns.take_waited() == 0.0


async def test_other_limits_hold_for_turns_to_come():
    operations = Operations(OperationLimits(execute=1))
    turns = Turns(operations)
    async with turns.at("execute"):
        operations.limit(OperationLimits(execute=1))  # The same: the one under way still counts.
        assert operations.gate("execute").locked()
        operations.limit(OperationLimits(execute=2))
        async with turns.at("execute"), turns.at("execute"):
            assert operations.gate("execute").locked()
    assert not operations.gate("execute").locked()


async def test_pages_of_one_site_are_loaded_evenly():
    clock = Clock()
    limits = OperationLimits(requests_per_minute=30)
    operations = Operations(limits, clock=clock, sleep=clock.sleep)
    for url in ("http://a.test/1", "http://b.test/1", "file:///a", "http://a.test/2"):
        await operations.pace(url)
    assert (clock.now, clock.slept) == (2.0, [2.0])
    turns = Turns(operations)
    await turns.pace("https://b.test/2")  # It has rested by now.
    assert turns.waited == 0.0
    await turns.pace("https://a.test:8443/3")
    assert turns.waited == 2.0


async def test_one_that_gives_up_waiting_for_a_site_delays_nobody():
    clock, gone = Clock(), asyncio.Event()

    async def sleep(seconds):
        await gone.wait()
        await clock.sleep(seconds)

    operations = Operations(OperationLimits(requests_per_minute=60), clock=clock, sleep=sleep)
    await operations.pace("http://a.test/")
    impatient = asyncio.ensure_future(operations.pace("http://a.test/"))
    patient = asyncio.ensure_future(operations.pace("http://a.test/"))
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.wait([impatient])
    gone.set()
    assert await patient == 1.0


async def test_sites_that_have_rested_are_forgotten():
    clock = Clock()
    operations = Operations(OperationLimits(requests_per_minute=60), clock=clock, sleep=clock.sleep)
    for number in range(5000):
        clock.now += 0.01
        await operations.pace(f"http://{number}.test/")
    assert len(operations._sites) <= 1024
    assert clock.slept == []


async def test_a_turn_without_a_limit_costs_next_to_nothing():
    turns = Turns(Operations(OperationLimits(release=1)))
    rounds = 10_000
    best = float("inf")
    for _ in range(5):
        started = time.process_time()
        for _ in range(rounds):
            async with turns.at("execute"):
                pass
        best = min(best, (time.process_time() - started) / rounds)
    assert best < 20e-6  # A step takes 20 ms or more, and has about four turns.


# At the real operations.


class Census(Operations):
    """Counts how many are at an operation at once, and lets them meet there."""

    def __init__(self, limits):
        super().__init__(limits)
        self.now = collections.Counter()
        self.most = collections.Counter()
        self.times = collections.Counter()


@pytest.fixture
def census(monkeypatch):
    """Gives a pool's operations that count who is inside."""

    def watch(pool, limits):
        operations = pool.operations = Census(limits)
        plain = Turns.at

        class Counted:
            def __init__(self, turn, operation):
                self.turn, self.operation = turn, operation

            async def __aenter__(self):
                await self.turn.__aenter__()
                operations.times[self.operation] += 1
                operations.now[self.operation] += 1
                operations.most[self.operation] = max(
                    operations.most[self.operation], operations.now[self.operation]
                )

            async def __aexit__(self, *exc_info):
                operations.now[self.operation] -= 1
                await self.turn.__aexit__(*exc_info)

        monkeypatch.setattr(
            Turns, "at", lambda self, operation: Counted(plain(self, operation), operation)
        )
        return operations

    return watch


def button_page(folder):
    """Returns a task on a page with a button that counts its clicks."""
    page = folder / "page.html"
    page.write_text("<button onclick='this.textContent = 1 + +this.textContent'>0</button>")
    return WebTask(goal="Click.", start_url=page.as_uri())


@pytest.mark.browser
async def test_every_kind_of_work_keeps_to_its_limit(tmp_path, census):
    task = button_page(tmp_path)
    limits = OperationLimits(
        allocate=2, release=1, navigate=2, execute=1, screenshot=2, ac_tree=3, metadata=5
    )

    async def play(pool):
        async with BrowserEnvironment(
            task, pool=pool, observe=(*TIMED, "screenshot")
        ) as environment:
            for _ in range(2):
                await environment.reset()
                for _ in range(3):
                    timestep = await environment.step("mouse_click(20, 20)")
                    assert timestep.observation["last_action"]["error"] == ""
                    assert len(timestep.observation["screenshot"]) > 0
            return timestep.observation

    async with BrowserPool(contexts_per_browser=6) as pool:
        operations = census(pool, limits)
        seen = await asyncio.gather(*(play(pool) for _ in range(6)))
    assert all('"3"' in one["axtree"] for one in seen)
    assert +operations.now == {}
    assert {one: most for one, most in operations.most.items() if most > limits.of(one)} == {}
    assert set(operations.most) == {*get_args(Operation)}
    assert sum(one["timings"]["waiting"] for one in seen) > 0
    assert operations.times["execute"] == 6 * 2 * 3
    assert operations.times["navigate"] == 6 * 2
    assert operations.times["allocate"] == operations.times["release"] == 6 * 2


@pytest.mark.browser
async def test_waiting_is_in_the_timings_of_the_step_that_waited(open_page_alone):
    pool, environment = open_page_alone
    pool.operations.limit(OperationLimits(execute=1))
    timestep = await environment.reset()
    assert timestep.observation["timings"]["waiting"] == 0.0
    other = Turns(pool.operations)
    async with other.at("execute"):
        step = asyncio.ensure_future(environment.step("mouse_click(20, 20)"))
        await asyncio.sleep(0.05)
        assert not step.done()
    timings = (await step).observation["timings"]
    assert 0.04 <= timings["waiting"] <= timings["act"] <= timings["total"]
    timings = (await environment.step("noop()")).observation["timings"]
    assert timings["waiting"] == 0.0
    environment.observation_spec()["timings"]["waiting"].validate(timings["waiting"])


@pytest.mark.browser
async def test_going_back_is_a_navigation_and_so_is_opening(open_page_alone):
    pool, environment = open_page_alone
    await environment.reset()
    pool.operations.limit(OperationLimits(navigate=1, execute=1, ac_tree=1, screenshot=1))
    url = environment.session.page.url
    for action in (f"goto('{url}#a')", "go_back()", "go_forward()", "new_tab()"):
        async with asyncio.timeout(20):  # None waits for itself.
            await environment.step(action)


@pytest.mark.browser
async def test_a_step_that_is_cancelled_while_it_waits_leaves_the_pool_whole(open_page_alone):
    pool, environment = open_page_alone
    pool.operations.limit(OperationLimits(ac_tree=1))
    await environment.reset()
    async with Turns(pool.operations).at("observe"):
        step = asyncio.ensure_future(environment.step("mouse_click(20, 20)"))
        await asyncio.sleep(0.05)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
    assert not pool.operations.gate("observe").locked()
    assert not (await environment.reset()).last()
    assert pool.stats.leases == 1


@pytest.mark.browser
async def test_waiting_takes_nothing_off_a_deadline(open_page_alone):
    pool, environment = open_page_alone
    await environment.reset()
    pool.operations.limit(OperationLimits(execute=1))
    async with Turns(pool.operations).at("execute"):
        gate = pool.operations.gate("execute")
        step = asyncio.ensure_future(environment.step("mouse_click(20, 20)"))
        async with asyncio.timeout(20):
            while not gate._waiters:
                await asyncio.sleep(0.01)
        assert not environment.session.lease.lifeline._calls  # Those that have a deadline.
    assert '"1"' in (await step).observation["axtree"]


@pytest.fixture
async def open_page_alone(tmp_path):
    """Gives a pool of the test's own, and an environment in it."""

    class Roaming:
        """Lets the agent go wherever it likes."""

        network = None

        def open(self, url):
            return True

        def travel(self):
            return True

        def upload(self, path):
            return None

    async with (
        BrowserPool() as pool,
        BrowserEnvironment(
            button_page(tmp_path), pool=pool, observe=TIMED, policy=Roaming()
        ) as environment,
    ):
        yield pool, environment
